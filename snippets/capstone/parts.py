# SPDX-License-Identifier: 0BSD
"""The parts of a page as HTML. All text that comes in is escaped."""

import html
from collections.abc import Iterable, Sequence

e = html.escape


def paragraph(text: str, kind: str = "") -> str:
    mark = f' class="{kind}"' if kind else ""
    return f"<p{mark}>{e(text)}</p>"


def how(formula: str, text: str) -> str:
    """How a number is computed: a formula and a line."""
    return f'<p class="how"><code>{e(formula)}</code><br>{e(text)}</p>'


def facts(pairs: Iterable[tuple[str, str]]) -> str:
    """Names and values."""
    rows = "".join(f"<dt>{e(a)}</dt><dd>{e(b)}</dd>" for a, b in pairs)
    return f"<dl>{rows}</dl>"


def table(
    caption: str,
    head: Sequence[str],
    rows: Iterable[Sequence[str]],
    last: str = "right",
) -> str:
    """A table whose first column names the row.

    last: "left" if the last column is words. Words other than "ok"
        there are bold.
    """
    names = "".join(
        f'<th scope="col"{_left(k, head, last)}>{e(name)}</th>'
        for k, name in enumerate(head)
    )
    body = []
    for first, *cells in rows:
        row = [f'<th scope="row">{e(first)}</th>']
        for k, cell in enumerate(cells, 1):
            left = _left(k, head, last)
            text = e(cell)
            text = f"<b>{text}</b>" if left and cell != "ok" else text
            row.append(f"<td{left}>{text}</td>")
        body.append(f"<tr>{''.join(row)}</tr>")
    return (
        f'<div class="scroll" tabindex="0" role="region" '
        f'aria-label="{e(caption)}"><table><caption>{e(caption)}</caption>'
        f"<thead><tr>{names}</tr></thead><tbody>{''.join(body)}</tbody>"
        f"</table></div>"
    )


def _left(k: int, head: Sequence[str], last: str) -> str:
    ends = k == len(head) - 1 and last == "left"
    return ' class="left"' if ends else ""


def figure(drawing: str, caption: str) -> str:
    return f"<figure>{drawing}<figcaption>{e(caption)}</figcaption></figure>"


def notes(texts: Iterable[str]) -> str:
    return "".join(paragraph(f"Note: {text}", "quiet") for text in texts)
