"""Figures and step players in the browser: keyboard and pointer, no script, paper, a swap of pages."""

import pytest

pytestmark = pytest.mark.browser

STEP = "player => Number(player.querySelector('.player-track input').value)"
SHOWN = "player => [...player.querySelectorAll(':scope > ol > li')].map(frame => frame.checkVisibility())"
# The smallest text of each drawing as it is on the screen, where the drawing may be scaled.
TEXT = """() => [...document.querySelectorAll("svg.art")].filter(svg => svg.checkVisibility()).map(svg => {
  const scale = svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
  const sizes = [...svg.querySelectorAll("text")].map(text => parseFloat(getComputedStyle(text).fontSize));
  return Math.round(100 * scale * Math.min(...sizes)) / 100;
})"""
CUT = """() => [...document.querySelectorAll("svg.art")].filter(svg => svg.checkVisibility()).flatMap(svg => {
  const frame = svg.getBoundingClientRect();
  return [...svg.querySelectorAll("text, rect, path")].filter(part => {
    const box = part.getBoundingClientRect();
    const across = box.left < frame.left - 3 || box.right > frame.right + 3;
    return across || box.top < frame.top - 3 || box.bottom > frame.bottom + 3;
  }).map(part => part.outerHTML.slice(0, 90));
})"""

# Contrast of each text and line of the drawings with what it stands on. axe does not judge SVG. What is not there yet
# is faded on purpose, and the sentence of its step says so.
FAINT = """() => {
  const canvas = Object.assign(document.createElement("canvas"), {width: 1, height: 1}).getContext("2d");
  const light = colour => {
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b] = [...canvas.getImageData(0, 0, 1, 1).data].map(part => {
      const c = part / 255;
      return c <= .04045 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4;
    });
    return .2126 * r + .7152 * g + .0722 * b;
  };
  const contrast = (one, two) => {
    const [dark, bright] = [light(one), light(two)].sort((a, b) => a - b);
    return (bright + .05) / (dark + .05);
  };
  const page = getComputedStyle(document.body).backgroundColor;
  const found = [];
  for (const part of document.querySelectorAll("svg.art text, svg.art .line")) {
    if (part.closest(".later") || !part.checkVisibility()) continue;
    const style = getComputedStyle(part), leaf = part.closest(".leaf")?.querySelector("rect");
    const words = part.matches("text");
    const on = leaf ? getComputedStyle(leaf).fill : page;
    const ratio = contrast(words ? style.fill : style.stroke, on);
    if (ratio < (words ? 4.5 : 3)) found.push(`${ratio.toFixed(1)}: ${part.outerHTML.slice(0, 90)}`);
  }
  return [...new Set(found)];
}"""


def pages_with(site, sign):
    return [path for path in site.pages if sign in (site.folder / path / "index.html").read_text(encoding="utf-8")]


LINK = """path => {
  const link = Object.assign(document.createElement("a"), {href: path, id: "go", textContent: "go"});
  document.querySelector("article").prepend(link);
}"""


@pytest.fixture
def players(visit, site):
    """Opens a page that has players and returns the first one."""
    paths = pages_with(site, '<section class="player"')
    assert paths, "no page has a player"
    visit.open(paths[0])
    visit.settle()
    return visit.page.locator(".player").first


def step(player):
    return player.evaluate(STEP)


def last(player):
    return player.locator(":scope > ol > li").count() - 1


def check(player, at):
    """Slider, frame, sentence, tick and buttons agree."""
    frames = player.locator(":scope > ol > li")
    assert step(player) == at
    assert player.evaluate(SHOWN) == [k == at for k in range(frames.count())]
    caption = frames.nth(at).locator("p").text_content()
    assert player.locator(".player-say").text_content() == f"{at + 1}/{frames.count()}{caption}"
    assert player.locator(".player-ticks [data-now]").count() == 1
    slider = player.locator("input")
    if at:
        assert slider.get_attribute("aria-valuetext") == f"step {at + 1} of {frames.count()}"
    assert player.locator("[data-go=back]").get_attribute("aria-disabled") == str(at == 0).lower()
    assert player.locator("[data-go=next]").get_attribute("aria-disabled") == str(at == frames.count() - 1).lower()


def test_begins_at_the_first_frame_and_stays_there(players, visit):
    check(players, 0)
    visit.page.wait_for_timeout(2600)
    check(players, 0)
    assert players.get_attribute("aria-label")
    assert players.locator(".player-say").get_attribute("role") == "status"


@pytest.mark.parametrize("part", ["input", "[data-go=next]"])
def test_steps_by_keyboard(players, visit, part):
    players.locator(part).focus()
    keyboard = visit.page.keyboard
    for key, at in (("ArrowRight", 1), ("ArrowRight", 2), ("ArrowLeft", 1), ("End", last(players)), ("Home", 0)):
        keyboard.press(key)
        check(players, at)
    keyboard.press("ArrowLeft")
    check(players, 0)
    assert visit.complaints == []


def test_tab_reaches_every_control(players, visit):
    players.locator("[data-go=back]").focus()
    reached = []
    for _ in range(3):
        visit.page.keyboard.press("Tab")
        reached.append(visit.page.evaluate("document.activeElement.dataset.go || document.activeElement.type"))
    assert reached[-2:] == ["next", "range"] or reached[:2] == ["next", "range"], reached


def test_buttons_stop_at_the_ends(players):
    players.locator("[data-go=back]").click(force=True)
    check(players, 0)
    for at in range(1, last(players) + 1):
        players.locator("[data-go=next]").click()
        check(players, at)
    players.locator("[data-go=next]").click(force=True)
    check(players, last(players))


@pytest.mark.visiting(reduced_motion="no-preference")
def test_plays_when_asked_and_pauses(players, visit):
    button = players.locator("[data-go=play]")
    button.click()
    check(players, 1)
    assert button.get_attribute("aria-label") == "Pause"
    visit.page.wait_for_function(f"player => ({STEP})(player) === 2", arg=players.element_handle(), timeout=4000)
    button.click()
    assert button.get_attribute("aria-label") == "Play"
    visit.page.wait_for_timeout(2600)
    check(players, 2)
    # At the end it begins again, and a step by hand ends the playing.
    players.locator("input").focus()
    visit.page.keyboard.press("End")
    button.click()
    check(players, 0)
    visit.page.keyboard.press("ArrowRight")
    assert players.get_attribute("data-playing") is None


def test_offers_no_motion_where_none_is_wanted(players):
    assert players.locator("[data-go=play]").is_hidden()
    assert players.locator("[data-go=next]").is_visible()


@pytest.mark.visiting(reduced_motion="no-preference")
def test_works_after_instant_navigation(visit, site):
    path = pages_with(site, '<section class="player"')[0]
    visit.open(wait="networkidle")
    page = visit.page
    page.evaluate("window.notReloaded = true")
    for _ in range(2):
        page.evaluate(LINK, site.address + path)
        page.click("#go")
        page.wait_for_url(site.address + path)
        page.wait_for_selector("#go", state="detached")
        page.wait_for_selector(".player")
        visit.settle()
        player = page.locator(".player").first
        player.locator("[data-go=next]").click()
        check(player, 1)
        player.locator("[data-go=play]").click()
        page.go_back()
        page.wait_for_url(site.address)
        visit.settle()
    page.wait_for_timeout(2600)
    assert page.evaluate("window.notReloaded === true") and visit.complaints == []


def test_two_players_do_not_mind_each_other(visit, site):
    text = [(site.folder / path / "index.html").read_text(encoding="utf-8") for path in site.pages]
    visit.open(site.pages[max(range(len(text)), key=lambda k: text[k].count('<section class="player"'))])
    page = visit.page
    page.evaluate("""() => { const one = document.querySelector(".player"); one.after(one.cloneNode(true)); }""")
    first, second = page.locator(".player").nth(0), page.locator(".player").nth(1)
    second.locator("[data-go=next]").click()
    check(first, 0)
    check(second, 1)


@pytest.mark.visiting(java_script_enabled=False)
def test_without_a_script_all_frames_are_there(visit, site):
    for path in pages_with(site, '<section class="player"'):
        visit.open(path)
        for player in visit.page.locator(".player").all():
            frames = player.locator(":scope > ol > li")
            assert all(frame.locator("p").is_visible() for frame in frames.all())
            assert all(frame.locator("svg.art:visible").count() for frame in frames.all())
            assert player.locator(".player-bar").is_hidden() and player.locator(".player-say").is_hidden()


@pytest.mark.visiting(color_scheme="dark", viewport={"width": 720, "height": 1000})
def test_paper_shows_all_frames(players, visit):
    visit.page.emulate_media(media="print")
    visit.settle()
    assert all(players.evaluate(SHOWN))
    assert all(frame.locator("p").is_visible() for frame in players.locator(":scope > ol > li").all())
    assert players.locator(".player-bar").is_hidden()
    ink = "getComputedStyle(document.querySelector('svg.art')).color"
    assert visit.page.evaluate(ink) == "rgb(27, 31, 36)"
    assert visit.page.locator(".art.tall").first.is_hidden()


@pytest.mark.visiting(has_touch=True, is_mobile=True, viewport={"width": 390, "height": 844})
def test_text_of_figures_is_readable_and_whole(visit, site):
    paths = pages_with(site, 'class="art ')
    assert paths
    for path in paths:
        visit.open(path)
        for width in (390, 372, 320, 768, 1280, 1920):
            visit.page.set_viewport_size({"width": width, "height": 844})
            visit.settle()
            sizes = visit.page.evaluate(TEXT)
            assert sizes and min(sizes) >= 11.95, (path, width, sizes)
            assert visit.page.evaluate(CUT) == [], (path, width)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_figures_stand_out_from_the_page(visit, site, scheme):
    visit.page.emulate_media(color_scheme=scheme)
    for path in pages_with(site, 'class="art '):
        visit.open(path)
        visit.page.evaluate("document.querySelectorAll('.player li').forEach(li => { li.dataset.now = '' })")
        visit.settle()
        assert visit.page.evaluate(FAINT) == [], path


def test_every_figure_has_words(visit, site):
    for path in pages_with(site, 'class="fig"'):
        visit.open(path)
        nameless = ".fig :is([role=img], [role=group]):not([aria-label]), .fig [aria-label='']"
        assert visit.page.locator(nameless).count() == 0
        assert visit.page.locator(".fig").count() == visit.page.locator(".fig :is([role=img], [role=group])").count()


def test_stepping_moves_nothing_else(players, visit):
    """The sentence has room for its longest: what stands below stays where it is."""
    figure = players.locator("xpath=ancestor::figure")
    heights = set()
    for _ in range(last(players) + 1):
        heights.add(round(figure.bounding_box()["height"]))
        players.locator("[data-go=next]").click(force=True)
    assert len(heights) == 1, heights
