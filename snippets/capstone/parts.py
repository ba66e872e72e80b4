# SPDX-License-Identifier: 0BSD
"""The parts of a page as HTML. All text that comes in is escaped."""

import html
from collections.abc import Iterable, Sequence

from .methods import Method

e = html.escape


def paragraph(text: str, kind: str = "") -> str:
    mark = f' class="{kind}"' if kind else ""
    return f"<p{mark}>{e(text)}</p>"


def breakable(text: str) -> str:
    """A dotted path, which may be broken after its dots."""
    return e(text).replace(".", ".<wbr>")


def how(method: Method, more: str = "") -> str:
    """How a group of numbers is computed, folded.

    more: what this run did.
    """
    rows = "".join(
        f"<div><dt>{e(what)}</dt><dd><code>{e(formula)}</code>"
        f"<br>{e(text)}</dd></div>"
        for what, formula, text in method.rows
    )
    cost = f"Cost in gradients: {method.cost} {more}".strip()
    return (
        f'<details class="how"><summary>How this is computed</summary>'
        f'<dl class="rows">{rows}</dl>{paragraph(method.text)}'
        f"{paragraph(cost)}</details>"
    )


def facts(pairs: Iterable[tuple[str, str]]) -> str:
    """Short values under their names, side by side."""
    return f'<dl class="facts">{_pairs(pairs)}</dl>'


def lines(pairs: Iterable[tuple[str, str]]) -> str:
    """Longer values beside their names, one below the other."""
    return f'<dl class="rows">{_pairs(pairs)}</dl>'


def _pairs(pairs: Iterable[tuple[str, str]]) -> str:
    return "".join(
        f"<div><dt>{e(a)}</dt><dd>{e(b)}</dd></div>" for a, b in pairs
    )


def folded(title: str, inside: str, opened: bool) -> str:
    """What may be opened; on paper it is open."""
    state = " open" if opened else ""
    return f"<details{state}><summary>{e(title)}</summary>{inside}</details>"


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
        f'<th scope="col"{_left(k, head, last)}>{e(text)}</th>'
        for k, text in enumerate(head)
    )
    body = []
    for first, *cells in rows:
        row = [f'<th scope="row">{breakable(first)}</th>']
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


_SIGNS = {
    "ok": '<circle cx="8" cy="8" r="7"/><path d="M4.5 8.2l2.4 2.5 4.6-5.2"/>',
    "note": '<circle cx="8" cy="8" r="7"/><path d="M8 7.2v4.3M8 4.3v.9"/>',
    "warning": '<path class="body" d="M8 1l7.2 14H.8z"/>'
    '<path d="M8 6v4.2M8 11.9v1"/>',
    "error": '<path class="body" d="M8 .5l7.5 7.5L8 15.5.5 8z"/>'
    '<path d="M5.6 5.6l4.8 4.8M10.4 5.6l-4.8 4.8"/>',
}


def sign(level: str) -> str:
    """A small picture of a level, beside the word that says it."""
    shape = _SIGNS.get(level, _SIGNS["ok"])
    return (
        f'<svg class="sign {level}" viewBox="0 0 16 16" width="16" '
        f'height="16" aria-hidden="true">{shape}</svg>'
    )
