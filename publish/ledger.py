"""Ledger: `<!-- ledger -->` becomes the table of what the records say of all pages as they are now."""

from __future__ import annotations

import html
import re
from dataclasses import dataclass
from typing import Any

from markdown import Markdown
from markdown.extensions import Extension
from markdown.preprocessors import Preprocessor

from doccheck import checks, record
from doccheck.page import Page
from doccheck.project import Project
from publish.places import project_of
from publish.stamps import DEVICES

MARKER = re.compile(r"^\s*<!--\s*ledger\s*-->\s*$")
HEADS = {"cpu": "CPU", "cuda": "CUDA"}
NONE = "–"


@dataclass
class Column:
    """One device: counts over the pages whose run still holds."""

    ran: int = 0
    raised: int = 0
    needs: int = 0
    failed: int = 0
    varies: int = 0
    pages: int = 0
    torch: str = NONE
    machine: str = NONE
    date: str = NONE


def column(project: Project, pages: list[Page], device: str) -> Column | None:
    """What the record of a device says; None where there is none, or none of its runs still holds."""
    recorded = record.read(project, device)
    found = Column()
    for page in pages:
        known = (recorded or {}).get("pages", {}).get(page.name)
        if known is None or not record.is_current(known, page):
            continue
        outcomes = [block["outcome"] for block in known["blocks"]]
        found.pages += 1
        found.ran += sum(outcome in ("ran", "raised") for outcome in outcomes)
        found.raised += outcomes.count("raised")
        found.needs += outcomes.count("needs")
        found.failed += sum(outcome in ("failed", "not-run") for outcome in outcomes)
        found.varies += known["varies"]
    if recorded is None or not found.pages:
        return None
    found.torch, found.machine, found.date = recorded["torch"].partition("+")[0], recorded["device"], recorded["date"]
    return found


def rows(columns: dict[str, Column | None], pages: int) -> list[tuple[str, list[str]]]:
    """Label and a text for each device, as HTML."""

    def cells(attribute: str) -> list[str]:
        return [NONE if c is None else html.escape(str(getattr(c, attribute))) for c in columns.values()]

    found = [
        ("blocks ran as shown", cells("ran")),
        ("of them, errors raised as shown", cells("raised")),
        ("skipped, with a reason", cells("needs")),
        ("outputs that vary", cells("varies")),
        (f"pages, of {pages}", cells("pages")),
        ("torch", cells("torch")),
        ("machine", cells("machine")),
        ("date", [_date(cell) for cell in cells("date")]),
    ]
    if any(c is not None and c.failed for c in columns.values()):
        found.insert(1, ("did not pass", cells("failed")))
    return found


def _date(text: str) -> str:
    return text if text == NONE else f'<time datetime="{text}">{text}</time>'


def table(project: Project) -> str:
    """The ledger as one HTML table, without a blank line in it."""
    pages = [page for path in project.pages() if (page := checks.load(project, path)).blocks]
    columns = {device: column(project, pages, device) for device in DEVICES}
    passed = any(c is not None and not c.failed and c.pages == len(pages) for c in columns.values())
    sign = "tomb" if passed else "tomb hollow"
    head = "".join(f'<th scope="col">{HEADS[device]}</th>' for device in columns)
    body = "".join(
        f'<tr><th scope="row">{label}</th>{"".join(f"<td>{text}</td>" for text in texts)}</tr>'
        for label, texts in rows(columns, len(pages))
    )
    caption = f'<caption><span class="{sign}" aria-hidden="true"></span>{_caption(columns)}</caption>'
    return (
        f'<div class="ledger-box" data-search-exclude><table class="ledger">{caption}'
        f"<thead><tr><td></td>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _caption(columns: dict[str, Any]) -> str:
    missing = [HEADS[device] for device, found in columns.items() if found is None]
    return "Last run of every page" + (f" ({', '.join(missing)} not yet run)" if missing else "")


class LedgerPreprocessor(Preprocessor):
    def run(self, lines: list[str]) -> list[str]:
        project = project_of(self.md)
        if project is None:
            return lines
        return [self.md.htmlStash.store(table(project)) if MARKER.match(line) else line for line in lines]


class LedgerExtension(Extension):
    def extendMarkdown(self, md: Markdown) -> None:
        md.preprocessors.register(LedgerPreprocessor(md), "publish-ledger", 27)


def makeExtension(**options: Any) -> LedgerExtension:
    return LedgerExtension(**options)
