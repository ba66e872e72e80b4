"""What must hold on every page of the sitemap."""

import pytest

pytestmark = pytest.mark.browser

OPEN_FOLDS = "document.querySelectorAll('details').forEach(each => { each.open = true })"

# Text that a reader sees, without code and without the TeX that a screen reader's MathML carries along.
SEEN_TEXT = """() => {
  const walker = document.createTreeWalker(document.querySelector("article"), NodeFilter.SHOW_TEXT), seen = [];
  while (walker.nextNode())
    if (!walker.currentNode.parentElement.closest("code, pre, annotation, script, style"))
      seen.push(walker.currentNode.data);
  return seen.join(" ");
}"""

# Boxes that are wider than the screen and do not scroll by themselves.
TOO_WIDE = """() => [...document.querySelectorAll("article *")].filter(box => {
  if (box.closest(".katex-mathml") || box.closest(".headerlink")) return false;
  if (box.getBoundingClientRect().right <= innerWidth + 1) return false;
  for (let up = box.parentElement; up && up.tagName !== "ARTICLE"; up = up.parentElement)
    if (["auto", "scroll"].includes(getComputedStyle(up).overflowX)) return false;
  return true;
}).map(box => box.outerHTML.slice(0, 120))"""

# Boxes that scroll and do not take the focus, or take it and do not scroll.
UNREACHABLE = """() => [...document.querySelectorAll(".highlight pre, .math, .md-typeset__scrollwrap")]
  .filter(box => (box.scrollWidth > box.clientWidth) !== box.hasAttribute("tabindex"))
  .map(box => box.outerHTML.slice(0, 120))"""


# What printed text scrolls only because its label takes a part of the line.
CROWDED = """() => [...document.querySelectorAll(".run-out")].filter(box => {
  const pre = box.querySelector("pre");
  return pre.scrollWidth > pre.clientWidth && pre.scrollWidth <= box.clientWidth;
}).map(box => box.textContent.trim().slice(0, 120))"""


def test_answers_quietly_lightly_and_without_jumping(visit, path):
    """No complaint, no other host, at most 260 KB gzipped on a first visit, nothing that moves while it loads."""
    visit.page.add_init_script(
        "window.shift = 0; new PerformanceObserver(list => "
        "list.getEntries().forEach(entry => { window.shift += entry.value }))"
        ".observe({type: 'layout-shift', buffered: true})"
    )
    before = len(visit.site.sent)
    visit.open(path, wait="networkidle")
    visit.settle()
    assert visit.complaints == []
    assert visit.foreign == []
    assert visit.page.locator("article h1").count() == 1
    assert visit.page.locator("meta[name=description]").get_attribute("content")
    assert visit.page.title()
    sent = visit.site.sent[before:]
    assert sum(size for _, size in sent) <= 260 * 1024, sorted(sent, key=lambda one: -one[1])[:8]
    assert visit.page.evaluate("window.shift") <= 0.1


def test_axe_finds_nothing(visit, axe, path):
    """Light and dark on a desktop, then dark on a phone, with every fold open."""
    page = visit.page
    visit.open(path)
    page.evaluate(OPEN_FOLDS)
    page.evaluate(axe)
    found = {}
    for name, width in (("light", 1280), ("dark", 1280), ("phone", 390)):
        if name == "dark":
            page.locator("[data-md-component=palette] label:visible").click()
            page.mouse.move(0, 0)
        page.set_viewport_size({"width": width, "height": 900})
        page.wait_for_selector(f"body[data-md-color-scheme={'default' if name == 'light' else 'slate'}]", timeout=3000)
        visit.settle()
        rules = page.evaluate("axe.run().then(result => result.violations)")
        found[name] = [f"{rule['id']}: {node['html'][:160]}" for rule in rules for node in rule["nodes"]]
    assert found == {"light": [], "dark": [], "phone": []}


def test_type_and_math_are_set(visit, path):
    visit.open(path)
    visit.settle()
    assert visit.page.locator(".arithmatex, .katex-error").count() == 0
    text = visit.page.evaluate(SEEN_TEXT)
    assert [sign for sign in ("\\(", "\\[", "$$", "\\frac", "\\begin", "\\bar") if sign in text] == []
    for formula in visit.page.locator(".katex").all():
        # Without its style sheet each formula shows twice.
        assert formula.locator(".katex-mathml").evaluate("box => box.getBoundingClientRect().width") <= 1
    if visit.page.locator(".katex").count():
        assert visit.page.evaluate(
            "document.fonts.check('16px KaTeX_Main') && document.fonts.check('italic 16px KaTeX_Math')"
        )
        assert visit.page.locator(".math:not([role=group][aria-label])").count() == 0
    loaded = visit.page.evaluate(
        "[...document.fonts].filter(font => font.status === 'loaded').map(font => font.family)"
    )
    assert "Inter" in {name.strip('"') for name in loaded}


@pytest.mark.visiting(permissions=["clipboard-read", "clipboard-write"])
def test_copies_code_and_nothing_else(visit, path):
    visit.open(path)
    visit.settle()
    page = visit.page
    page.evaluate(OPEN_FOLDS)
    assert page.locator(".transcript .md-code__button").count() == 0
    blocks = page.locator("div.language-python.highlight")
    for block in blocks.all():
        if not block.is_visible():
            continue  # in a tab that is not open
        page.evaluate("navigator.clipboard.writeText('')")
        block.locator(".md-code__button[data-md-type=copy]").click()
        page.wait_for_function("navigator.clipboard.readText().then(text => text !== '')", timeout=3000)
        copied = page.evaluate("navigator.clipboard.readText()")
        assert copied.rstrip() == (block.locator("code").text_content() or "").rstrip()


@pytest.mark.visiting(has_touch=True, is_mobile=True, viewport={"width": 390, "height": 844})
def test_nothing_scrolls_sideways_but_its_own_box(visit, path):
    visit.open(path)
    visit.page.evaluate(OPEN_FOLDS)
    for width in (390, 320, 1280):
        visit.page.set_viewport_size({"width": width, "height": 844})
        visit.settle()
        assert visit.page.evaluate("document.scrollingElement.scrollWidth") <= width
        assert visit.page.evaluate(TOO_WIDE) == [], f"at {width} px"
        assert visit.page.evaluate(UNREACHABLE) == [], f"at {width} px"
        assert visit.page.evaluate(CROWDED) == [], f"at {width} px"


@pytest.mark.visiting(java_script_enabled=False)
def test_without_scripts_everything_is_there(visit, path):
    visit.open(path)
    page = visit.page
    hidden = page.evaluate("""() =>
      [...document.querySelectorAll("article :is(h1, h2, h3, p, li, table, .highlight, .math)")]
      .filter(part => !part.checkVisibility() && !part.closest("details:not([open]), .tabbed-block"))
      .map(part => part.outerHTML.slice(0, 120))""")
    assert hidden == []
    assert page.locator(".md-search__form").is_hidden()
    assert page.locator("[data-md-component=palette] label").locator("visible=true").count() == 0
    for number, fold in enumerate(page.locator("article details").all()):
        fold.locator("summary").first.click()
        assert fold.get_attribute("open") is not None, f"fold {number} does not open"


@pytest.mark.visiting(color_scheme="dark", viewport={"width": 720, "height": 1000})
def test_prints_light_and_whole(visit, path):
    visit.open(path)
    visit.page.emulate_media(media="print")
    visit.settle()
    assert visit.page.evaluate("getComputedStyle(document.body).backgroundColor") in (
        "rgb(255, 255, 255)",
        "rgba(0, 0, 0, 0)",
    )
    assert visit.page.evaluate("getComputedStyle(document.querySelector('article h1')).color") == "rgb(27, 31, 36)"
    assert visit.page.locator(".md-code__button").locator("visible=true").count() == 0
    folded = "[...document.querySelectorAll('article details > :not(summary)')].filter(part => !part.checkVisibility())"
    assert visit.page.evaluate(f"{folded}.map(part => part.textContent.slice(0, 90))") == []
    cut = "[...document.querySelectorAll('article pre')].filter(box => box.scrollWidth > box.clientWidth + 1).length"
    assert visit.page.evaluate(cut) == 0
