"""Going about in the site: instant navigation, the keyboard, the search, the missing page."""

import pytest

pytestmark = pytest.mark.browser


def other_page(site):
    """A page with code that is not the first one."""
    paths = [
        path for path in site.pages if path and "language-python" in (site.folder / path / "index.html").read_text()
    ]
    if not paths:
        pytest.skip("the site has one page: there is nowhere to go")
    return paths[0]


def follow(visit, path):
    """Clicks a link to `path` that instant navigation should take, and waits for the swap."""
    page = visit.page
    page.evaluate("window.notReloaded = true")
    page.evaluate(
        """path => { const link = document.createElement("a");
        link.href = path; link.textContent = "go"; link.id = "go";
        document.querySelector("article").prepend(link); }""",
        visit.site.address + path,
    )
    page.click("#go")
    page.wait_for_url(visit.site.address + path)
    page.wait_for_selector("#go", state="detached")
    visit.settle()
    assert page.evaluate("window.notReloaded === true"), "the whole page was loaded again"


@pytest.mark.visiting(permissions=["clipboard-read", "clipboard-write"], viewport={"width": 500, "height": 800})
def test_instant_navigation_keeps_everything_working(visit, site):
    path = other_page(site)
    visit.open(wait="networkidle")
    first = visit.page.locator("article h1").inner_text()
    follow(visit, path)
    page = visit.page
    assert page.locator("article h1").inner_text() != first
    page.wait_for_selector(".md-code__button")
    page.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true })")
    visit.settle()
    assert page.locator("nav.md-code__nav:not([role=presentation])").count() == 0
    unreachable = """() => [...document.querySelectorAll(".highlight pre, .math, .md-typeset__scrollwrap")]
      .filter(box => (box.scrollWidth > box.clientWidth) !== box.hasAttribute("tabindex"))
      .map(box => box.outerHTML.slice(0, 120))"""
    assert page.evaluate(unreachable) == []
    block = page.locator("div.language-python.highlight").first
    block.locator(".md-code__button").click()
    page.wait_for_function("navigator.clipboard.readText().then(text => text !== '')", timeout=3000)
    assert (
        page.evaluate("navigator.clipboard.readText()").rstrip()
        == (block.locator("code").text_content() or "").rstrip()
    )
    page.go_back()
    page.wait_for_function("title => document.querySelector('article h1').innerText === title", arg=first)
    assert page.evaluate("window.notReloaded === true")
    assert visit.complaints == [] and visit.foreign == []


def test_keyboard_reaches_content_search_and_colours(visit):
    visit.open()
    page = visit.page
    page.keyboard.press("Tab")
    assert page.locator(".md-skip:focus").is_visible()
    reached = []
    for _ in range(12):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.name || document.activeElement.className"))
        if reached[-1] == "__palette":
            break
    assert reached[-1] == "__palette", reached
    ring = "getComputedStyle(document.activeElement.nextElementSibling).outlineStyle"
    assert page.evaluate(ring) != "none", "the switch of colours does not show that it has the focus"
    page.keyboard.press("Enter")
    page.wait_for_selector("body[data-md-color-scheme=slate]", timeout=2000)
    for _ in range(4):
        if page.evaluate("document.activeElement.name") == "query":
            break
        page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.name") == "query"


def test_search_by_keyboard(visit, axe):
    visit.open()
    page = visit.page
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.name") == "query"
    page.keyboard.type("block run")
    page.wait_for_selector(".md-search-result__link")
    page.evaluate(axe)
    found = page.evaluate("axe.run('.md-search').then(result => result.violations)")
    assert [f"{rule['id']}: {node['html'][:160]}" for rule in found for node in rule["nodes"]] == []
    page.keyboard.press("ArrowDown")
    assert page.locator(".md-search-result__link:focus").count() == 1
    page.keyboard.press("Escape")
    page.wait_for_function("!document.querySelector('#__search').checked")
    assert visit.foreign == []


def test_wide_box_scrolls_by_keyboard(visit):
    visit.page.set_viewport_size({"width": 320, "height": 640})
    visit.open()
    visit.settle()
    box = visit.page.locator(".highlight pre[tabindex='0']").first
    box.focus()
    visit.page.keyboard.press("ArrowRight")
    visit.page.wait_for_function("document.activeElement.scrollLeft > 0", timeout=2000)
    assert box.get_attribute("aria-label") in ("Code", "Output")


def test_missing_page_says_so(visit, site):
    response = visit.page.goto(site.address + "chapters/no-such-page/")
    assert response is not None and response.status == 404
    assert visit.page.locator("h1").inner_text() == "There is no such page"
    assert visit.page.evaluate("getComputedStyle(document.body).getPropertyValue('--accent')"), (
        "it came without its style"
    )


def test_schemes_survive_a_reload(visit):
    visit.open()
    visit.page.locator("[data-md-component=palette] label:visible").click()
    visit.page.wait_for_selector("body[data-md-color-scheme=slate]")
    visit.open()
    assert visit.page.locator("body").get_attribute("data-md-color-scheme") == "slate"


def test_a_deep_link_shows_its_place_below_the_header(visit, site):
    path = other_page(site)
    visit.open(path)
    anchors = visit.page.evaluate(
        "[...document.querySelectorAll('article h2[id], article figure[id]')].map(part => part.id)"
    )
    for anchor in (anchors[1], anchors[len(anchors) // 2], anchors[-1]):
        visit.page.goto("about:blank")
        visit.open(f"{path}#{anchor}")
        visit.settle()
        header = visit.page.locator(".md-header").bounding_box()
        place = visit.page.locator(f"[id='{anchor}']").bounding_box()
        assert header["y"] + header["height"] - 1 <= place["y"] < 900, (anchor, place)
