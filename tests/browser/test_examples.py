"""The HTML reports that are published beside the capstone's page: each is one file that works everywhere."""

import pytest

pytestmark = pytest.mark.browser

FOLDER = "capstone/examples"
OPEN_FOLDS = "document.querySelectorAll('details').forEach(each => { each.open = true })"
HIDDEN = """() => [...document.querySelectorAll("main *")].filter(part => !part.checkVisibility()
  && !part.closest("svg") && part.tagName !== "WBR").map(part => part.outerHTML.slice(0, 90))"""


@pytest.fixture
def reports(site):
    found = sorted((site.folder / FOLDER).glob("*.html"))
    assert len(found) == 8
    return [f"{FOLDER}/{file.name}" for file in found]


def test_reports_ask_for_nothing_and_complain_of_nothing(visit, reports):
    for path in reports:
        before = len(visit.site.sent)
        visit.open(path, wait="networkidle")
        # A browser asks for the icon of a page by itself.
        assert [each for each, _ in visit.site.sent[before:] if each != "favicon.ico"] == [path]
        assert visit.foreign == []
        assert [said for said in visit.complaints if "favicon.ico" not in said and "404" not in said] == []


def test_axe_finds_nothing_in_the_reports(visit, axe, reports):
    """Light and dark on a desktop, then dark on a phone, with every fold open."""
    page = visit.page
    found = []
    for path in reports:
        visit.open(path)
        page.evaluate(OPEN_FOLDS)
        page.evaluate(axe)
        for scheme, width in (("light", 1280), ("dark", 1280), ("dark", 390)):
            page.emulate_media(color_scheme=scheme)
            page.set_viewport_size({"width": width, "height": 900})
            visit.settle()
            rules = page.evaluate("axe.run().then(result => result.violations)")
            found += [f"{path} {scheme} {width}: {r['id']}: {n['html'][:160]}" for r in rules for n in r["nodes"]]
    assert found == []


@pytest.mark.visiting(java_script_enabled=False, viewport={"width": 390, "height": 844})
def test_reports_need_no_script(visit, reports):
    for path in reports:
        visit.open(path)
        for fold in visit.page.locator("details").all():
            if fold.get_attribute("open") is None:
                fold.locator("summary").first.click()
            assert fold.get_attribute("open") is not None


@pytest.mark.visiting(viewport={"width": 390, "height": 844})
def test_reports_scroll_down_and_not_sideways(visit, reports):
    for path in reports:
        visit.open(path)
        visit.page.evaluate(OPEN_FOLDS)
        for width in (320, 390, 1280):
            visit.page.set_viewport_size({"width": width, "height": 844})
            visit.settle()
            assert visit.page.evaluate("document.scrollingElement.scrollWidth") <= width, (path, width)


@pytest.mark.visiting(color_scheme="dark", viewport={"width": 720, "height": 1000})
def test_reports_print_light_and_whole(visit, reports):
    visit.page.emulate_media(media="print")
    for path in reports:
        visit.open(path)
        assert visit.page.evaluate("getComputedStyle(document.documentElement).backgroundColor") == "rgb(255, 255, 255)"
        assert visit.page.evaluate(HIDDEN) == [], path
