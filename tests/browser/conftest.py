"""The built site, served on this machine to a real browser. `nox -s browser` builds it and sets AUTOGRAD_SITE.

Without that variable nothing here is collected: the tests of pages and snippets need neither a built site nor a
browser.
"""

import os
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from publish.preview import Site, listed, served

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page, Response

FOLDER = os.environ.get("AUTOGRAD_SITE")
collect_ignore_glob = [] if FOLDER else ["test_*.py"]

ROOT = Path(__file__).resolve().parents[2]
AXE = "4.14.1"
CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
SWITCHES = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@dataclass
class Visit:
    """One page in one browser context, and what it said and asked for meanwhile."""

    page: "Page"
    context: "BrowserContext"
    site: Site
    complaints: list[str] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)

    def open(self, path: str = "", wait: str = "load") -> "Response":
        """Goes to a page of the site. An error page looks fine to most tests, so anything but 200 fails here."""
        response = self.page.goto(self.site.address + path, wait_until=wait)  # type: ignore[arg-type]
        assert response is not None and response.status == 200, f"/{path} answered {response and response.status}"
        return response

    def settle(self) -> None:
        """Two frames: what site.js does about a new page is done by then."""
        self.page.evaluate(
            "() => document.fonts.ready.then(() => new Promise(done => "
            "requestAnimationFrame(() => requestAnimationFrame(done))))"
        )


@pytest.fixture(scope="session")
def site() -> Iterator[Site]:
    assert FOLDER
    try:
        with served(Path(FOLDER)) as begun:
            yield begun
    except FileNotFoundError as error:
        pytest.fail(f"AUTOGRAD_SITE: {error}. Run: nox -s browser", pytrace=False)


@pytest.fixture(scope="session")
def browser() -> "Iterator[Browser]":
    from playwright.sync_api import sync_playwright

    program = next((found for name in CHROMIUM if (found := shutil.which(name))), None)
    if not program:
        pytest.fail("no Chromium on PATH: apt-get install chromium", pytrace=False)
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=program, args=SWITCHES)
        yield started
        started.close()


@pytest.fixture
def visit(browser: "Browser", site: Site, request: pytest.FixtureRequest) -> Iterator[Visit]:
    """A visit with the options of the test's `@pytest.mark.visiting(...)`, handed to the browser's new_context."""
    marker = request.node.get_closest_marker("visiting")
    options: dict[str, Any] = {"viewport": {"width": 1280, "height": 900}, "reduced_motion": "reduce"}
    context = browser.new_context(**(options | (marker.kwargs if marker else {})))
    page = context.new_page()
    page.set_default_timeout(5000)
    page.set_default_navigation_timeout(30000)
    begun = Visit(page, context, site)

    def asked(address: str) -> None:
        if not address.startswith((site.address, "data:", "blob:")):
            begun.foreign.append(address)

    context.on("request", lambda sent: asked(sent.url))
    context.on("requestfailed", lambda sent: begun.complaints.append(f"failed: {sent.url}"))
    context.on(
        "response", lambda got: begun.complaints.append(f"{got.status}: {got.url}") if got.status > 399 else None
    )
    page.on("console", lambda said: begun.complaints.append(said.text) if said.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: begun.complaints.append(str(error)))
    yield begun
    context.close()


@pytest.fixture(scope="session")
def axe() -> str:
    """The source of axe-core, from npm once and then from .cache."""
    kept = ROOT / ".cache" / f"axe-core-{AXE}.min.js"
    if not kept.exists():
        npm = shutil.which("npm")
        if not npm:
            pytest.fail(f"npm is not on PATH: it fetches axe-core {AXE} once, into .cache", pytrace=False)
        kept.parent.mkdir(exist_ok=True)
        command = [npm, "pack", f"axe-core@{AXE}", "--silent"]
        done = subprocess.run(command, cwd=kept.parent, capture_output=True, text=True, timeout=120)
        archive = kept.parent / f"axe-core-{AXE}.tgz"
        if done.returncode or not archive.exists():
            pytest.fail(f"{' '.join(command[1:])} failed: {done.stderr.strip()[-400:]}", pytrace=False)
        with tarfile.open(archive) as opened:
            source = opened.extractfile("package/axe.min.js")
            assert source is not None
            kept.write_bytes(source.read())
        archive.unlink()
    return kept.read_text(encoding="utf-8")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that takes `path` runs for each page of the sitemap."""
    if FOLDER and "path" in metafunc.fixturenames:
        pages = listed(Path(FOLDER).resolve())[1]
        metafunc.parametrize("path", pages, ids=[path.rstrip("/") or "home" for path in pages])


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "visiting(**options): options of the browser context of this test")


def pytest_report_header() -> str | None:
    return None if FOLDER else "tests/browser: not collected, AUTOGRAD_SITE names no built site (nox -s browser does)"
