"""Visits: the bytes that go out for a first page, and for the next one, in a real browser."""

from __future__ import annotations

import shutil
from pathlib import Path

from bench import clock
from publish.preview import Site, served

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
SWITCHES = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-sync"]


def program() -> str | None:
    return next((found for name in PROGRAMS if (found := shutil.which(name))), None)


def main(folder: Path) -> None:
    """A first visit starts with an empty cache; the next page adds what the first one did not bring."""
    chromium = program()
    if chromium is None:
        print("\nvisits: no Chromium on PATH, nothing measured")
        return
    from playwright.sync_api import sync_playwright

    rows = []
    with served(folder) as site, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=SWITCHES)
        for path in site.pages:
            first = _asked(browser, site, [path])
            other = next(page for page in site.pages if page != path)
            both = _asked(browser, site, [other, path])
            alone = _asked(browser, site, [other])
            rows.append(
                [path or "home", _kilobytes(first), _kilobytes({k: v for k, v in both.items() if k not in alone})]
            )
        browser.close()
    clock.table("Bytes that go out, KB gzipped", ["page", "first visit", "as the next page"], rows)


def _asked(browser: object, site: Site, paths: list[str]) -> dict[str, int]:
    """What one visitor fetches, each file once."""
    site.sent.clear()
    context = browser.new_context(viewport={"width": 1280, "height": 900})  # type: ignore[attr-defined]
    page = context.new_page()
    for path in paths:
        page.goto(site.address + path, wait_until="networkidle")
    context.close()
    return dict(site.sent)


def _kilobytes(sent: dict[str, int]) -> str:
    return f"{sum(sent.values()) / 1024:.0f}"
