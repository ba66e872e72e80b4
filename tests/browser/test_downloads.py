"""The editions that a page offers: each link downloads a file that can be opened."""

import ast
import json
from pathlib import Path

import pytest

pytestmark = pytest.mark.browser

LINKS = ".stamp a[download]"


def test_downloads_open(visit, site, path):
    visit.open(path)
    links = visit.page.locator(LINKS)
    shows_code = "language-python" in (site.folder / path / "index.html").read_text(encoding="utf-8")
    if not shows_code or not path or path.startswith("notebooks/"):
        assert links.count() == 0
        return
    kinds = {}
    for link in links.all():
        with visit.page.expect_download() as started:
            link.click()
        saved = started.value.path()
        name = started.value.suggested_filename
        kinds[Path(name).suffix] = Path(saved).read_text(encoding="utf-8")
    assert set(kinds) == {".py", ".ipynb"}
    assert ast.parse(kinds[".py"]).body, "the script is empty"
    assert any(cell["cell_type"] == "code" for cell in json.loads(kinds[".ipynb"])["cells"])
    assert visit.complaints == []


def test_a_lab_leads_to_its_notebook(visit, site):
    labs = [path for path in site.pages if path.startswith("labs/")]
    assert labs
    for path in labs:
        visit.open(path)
        visit.page.click(".stamp a[href*='notebooks/']")
        visit.page.wait_for_selector(".jp-Notebook")
