"""Stamps: under the title of a page, what ran, where and when, and the editions to take along."""

from __future__ import annotations

import html
from pathlib import PurePosixPath
from typing import Any
from xml.etree.ElementTree import Element

from markdown import Markdown
from markdown.extensions import Extension
from markdown.treeprocessors import Treeprocessor

from doccheck import checks, record
from doccheck.page import Page
from doccheck.project import Project
from publish.editions import NOTEBOOK_PAGES
from publish.places import page_file, project_of

DEVICES = ("cpu", "cuda")


def sentences(project: Project, page: Page) -> list[str]:
    """What the records say of a page, as HTML; one sentence a device, or that no run counts."""
    found, stale = [], False
    for device in DEVICES:
        recorded = record.read(project, device)
        known = (recorded or {}).get("pages", {}).get(page.name)
        if recorded is None or known is None:
            continue
        if not record.is_current(known, page):
            stale = True
            continue
        found.append(_sentence(recorded, known, device))
    if found:
        return found
    return ["This page changed since it last ran"] if stale else ["This page has not run yet on this machine"]


def _sentence(recorded: dict[str, Any], known: dict[str, Any], device: str) -> str:
    outcomes = [block["outcome"] for block in known["blocks"]]
    ran = sum(outcome in ("ran", "raised") for outcome in outcomes)
    failed = sum(outcome in ("failed", "not-run") for outcome in outcomes)
    where = "CPU" if device == "cpu" else html.escape(recorded["device"])
    torch = html.escape(recorded["torch"].partition("+")[0])
    blocks = "1 block" if ran == 1 else f"{ran} blocks"
    date = f'<time datetime="{recorded["date"]}">{recorded["date"]}</time>'
    said = f"<b>{blocks} ran</b> on {where} · torch {torch} · {date}"
    skipped = outcomes.count("needs")
    if skipped:
        said += f" · {skipped} skipped, with a reason"
    return f"{said} · <b>{failed} did not pass</b>" if failed else said


def passed(project: Project, page: Page) -> bool:
    """Whether some run of the page as it is now passed."""
    return any(said.startswith("<b>") and "did not pass" not in said for said in sentences(project, page))


class StampTreeprocessor(Treeprocessor):
    """Puts the stamp under the first heading of a page that has blocks."""

    def run(self, root: Element) -> None:
        source, project, heading = page_file(self.md), project_of(self.md), root.find("h1")
        if source is None or project is None or heading is None:
            return
        page = checks.load(project, source)
        if not page.blocks or page.path == project.docs / "index.md":  # home has the ledger
            return
        holder = Element("p")
        holder.text = self.md.htmlStash.store(stamp(project, page))
        root.insert(list(root).index(heading) + 1, holder)


def stamp(project: Project, page: Page) -> str:
    name = PurePosixPath(page.name).stem
    sign = "tomb" if passed(project, page) else "tomb hollow"
    lines = "".join(
        f'<p><span class="{sign}" aria-hidden="true"></span>{said}</p>' for said in sentences(project, page)
    )
    links = "".join(f' <a href="{name}.{kind}" download>{what}</a>' for kind, what in EDITIONS.items())
    if page.path.relative_to(project.docs).as_posix().startswith(NOTEBOOK_PAGES):
        links += f' <a href="../../notebooks/{name}/">read the notebook</a>'
    return f'<div class="stamp" data-search-exclude>{lines}<p>Take it along:{links}</p></div>'


EDITIONS = {"py": "script", "ipynb": "notebook"}


class StampExtension(Extension):
    def extendMarkdown(self, md: Markdown) -> None:
        md.treeprocessors.register(StampTreeprocessor(md), "publish-stamps", 2)


def makeExtension(**options: Any) -> StampExtension:
    return StampExtension(**options)
