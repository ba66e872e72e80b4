"""Figures and players on pages: what they become, and what a mistake says."""

import re
import sys
import textwrap
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import markdown
import pytest
from markdown.treeprocessors import Treeprocessor
from PIL import Image

pytest.importorskip("py_mini_racer", reason="publish needs mini-racer (the site group)")

from publish import art, gallery, plots
from publish.places import BuildStopped
from publish.players import player, track
from publish.standalone import png, standalone, style, tokens

ROOT = Path(__file__).resolve().parents[2]
EXTENSIONS = ["admonition", "attr_list", "md_in_html", "pymdownx.superfences", "publish.figures"]


def every() -> list[tuple[str, str, str]]:
    """Kind, page and name of every figure there is."""
    return [
        (gallery.kind_of(function), page, name)
        for page in gallery.pages()
        for name, function in gallery.functions(gallery.module(page)).items()
    ]


EVERY = every()


def render(text: str, page: Path | None = None) -> str:
    md = markdown.Markdown(extensions=EXTENSIONS)
    if page:
        page.write_text(text, encoding="utf-8")
        relpath = Treeprocessor(md)
        relpath.file = SimpleNamespace(abs_src_path=str(page), src_uri=page.name)  # type: ignore[attr-defined]
        md.treeprocessors.register(relpath, "relpath", 0)
    return md.convert(text)


def complaint(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "docs").mkdir(exist_ok=True)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BuildStopped) as stopped:
        render(text, tmp_path / "docs" / "page.md")
    return str(stopped.value)


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """A package of figures of its own; call it with the source of its page `stand`."""
    package = tmp_path / "shop" / "figures"
    package.mkdir(parents=True)
    for folder in (package, package.parent):
        (folder / "__init__.py").write_text("")
    monkeypatch.setattr(gallery, "ROOT", tmp_path)
    monkeypatch.setattr(gallery, "SNIPPETS", package.parent)
    monkeypatch.setattr(gallery, "SOURCE", package)
    monkeypatch.setattr(gallery, "KEPT", tmp_path / "kept")
    monkeypatch.setattr(gallery, "PACKAGE", "shop.figures")
    monkeypatch.setattr(gallery, "_state", {"digest": "none"})
    monkeypatch.setattr(gallery, "_drawn", {})
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in [name for name in sys.modules if name.partition(".")[0] == "shop"]:
        monkeypatch.delitem(sys.modules, name)

    def write(source: str) -> None:
        head = "from snippets.figures.drawing import Drawing\nfrom snippets.figures.picture import measured\n"
        (package / "stand.py").write_text(head + textwrap.dedent(source))

    return write


# -- on a page -------------------------------------------------------------------------------------------


def test_figure_with_a_caption_in_markdown() -> None:
    html = render(
        "![Three nodes & y = 49.](figure:graph/after-forward)\nThe graph of `x`, *notice* [this](#a).\n\nAfter."
    )
    assert '<figure class="fig" id="figure-after-forward">' in html
    assert '<div class="panels" data-search-exclude role="img" aria-label="Three nodes &amp; y = 49.">' in html
    caption = re.search("<figcaption>(.*?)</figcaption>", html, re.DOTALL)
    assert caption and caption[1] == 'The graph of <code>x</code>, <em>notice</em> <a href="#a">this</a>.'
    assert html.endswith("<p>After.</p>") and "<img" not in html and "<p><div" not in html
    assert html.count("<svg") == 2 and ' wide"' in html and ' tall"' in html


def test_without_a_caption_there_is_none() -> None:
    assert "figcaption" not in render("![Alt.](figure:graph/after_forward)")


def test_player_has_every_frame_and_marks_the_first() -> None:
    html = render("![The run.](player:graph/backward)\nCaption.")
    assert '<section class="player" role="group" aria-label="The run."' in html
    assert html.count("<li") == 11 and html.count("<li data-now>") == 1
    assert "<p>Backward: Mul receives 14 and returns 42 and 28.</p>" in html
    assert 'type="range" min="0" max="10"' in html


@pytest.mark.parametrize("head", ["!!! note\n\n    ", "- item\n\n    ", "<div markdown>\n\n"])
def test_anywhere_a_paragraph_may_stand(head: str) -> None:
    assert render(head + "![Alt.](figure:graph/after-forward)\n").count('<figure class="fig"') == 1


def test_same_figure_twice_has_two_names() -> None:
    one = "![Alt.](figure:graph/after-forward)\n\n"
    assert re.findall(r'<figure class="fig" id="([^"]+)"', render(one * 2)) == [
        "figure-after-forward",
        "figure-after-forward-2",
    ]


def test_in_code_it_is_text() -> None:
    assert "<svg" not in render("`![a](figure:graph/after-forward)`\n\n```text\n![](figure:nothing/nowhere)\n```\n")


def test_kept_out_of_the_search_index() -> None:
    plugin = pytest.importorskip("material.plugins.search.plugin")
    parser = plugin.Parser()
    figures = "![Alt.](figure:graph/after-forward)\nFirst caption.\n\n![Alt.](player:graph/backward)\nSecond caption."
    parser.feed("<h1 id='a'>A</h1>" + render(f"Before.\n\n{figures}\n\nAfter."))
    parser.close()
    text = " ".join("".join("".join(section.text) for section in parser.data).split())
    assert re.sub(r"\s*<[^>]+>\s*", " ", text).split() == [
        "Before.",
        "First",
        "caption.",
        "Second",
        "caption.",
        "After.",
    ]


@pytest.mark.parametrize(
    ("image", "said"),
    [
        ("![](figure:graph/after-forward)", "figure graph/after-forward: no alt text; say between the brackets"),
        ("![  ](player:graph/backward)", "player graph/backward: no alt text"),
        ("![a](figure:grahp/after-forward)", "there is no snippets/figures/grahp.py; did you mean graph?"),
        ("![a](figure:nowhere/x)", "there is no snippets/figures/nowhere.py; there are: "),
        ("![a](figure:graph/after-forwrad)", "graph.py has none of that name; did you mean after_forward?"),
        ("![a](figure:graph/zzz)", "; there are: after-forward, after-backward, backward"),
        ("![a](figure:graph/backward)", "it is a player: write player:graph/backward"),
        ("![a](player:vjp/jacobian)", "it is a figure: write figure:vjp/jacobian"),
        ("![a](figure:graph/trace)", "graph.py has none of that name"),
        ("![a](figure:graph)", "a figure is named figure:PAGE/NAME"),
        ("Text ![a](figure:graph/after-forward)", "it begins a paragraph of its own"),
        ("- ![a](figure:graph/after-forward)", "it begins a paragraph of its own"),
        ("![](../assets/favicon.svg)", "image ../assets/favicon.svg: no alt text"),
        ("![a](playr:graph/backward)", "there is no 'playr:'; write figure:PAGE/NAME"),
        ("![a](Figure:graph/backward)", "there is no 'Figure:'"),
        ("![a](https://example.com/a.png)", "it would be fetched from another host"),
        ('<img src="../assets/favicon.svg">', "image ../assets/favicon.svg: no alt text"),
        ('Text <img alt=" " src="../assets/favicon.svg"> here', "no alt text"),
        ('<img src="//example.com/a.png" alt="A.">', "it would be fetched from another host"),
        ('<img src="figure:graph/after-forward" alt="A.">', "write it in Markdown: ![alt](figure:graph/after-forward)"),
    ],
)
def test_mistakes_name_their_line(image: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = f"---\ntitle: T\n---\n\n```text\n{image}\n```\n\n`{image}`\n\n{image}\n"
    message = complaint(page, tmp_path, monkeypatch)
    assert message.startswith("docs/page.md:11: ") and said in message and "\n" not in message


def test_the_second_of_two_is_the_wrong_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = "![a](figure:graph/after-forward)\n\n![](figure:graph/after-forward)\n"
    assert complaint(page, tmp_path, monkeypatch).startswith("docs/page.md:3: ")


def test_a_reference_is_found_where_it_is_defined(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = "![a][fig]\n\n[fig]: figure:graph/zzz\n"
    assert complaint(page, tmp_path, monkeypatch).startswith("docs/page.md:3: figure graph/zzz: ")


def test_other_images_stay_as_they_are() -> None:
    page = '![A logo.](../assets/favicon.svg)\n\n<img src="../assets/favicon.svg" alt="A logo.">\n'
    assert render(page).count('src="../assets/favicon.svg"') == 2


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (
            "def broken() -> Drawing:\n    size = 0\n    return Drawing(1 / size, 1)",
            "shop/figures/stand.py:5: ZeroDivisionError: ",
        ),
        ("def broken() -> Drawing:\n    return 3", "shop/figures/stand.py:3: it returned int, not a Drawing"),
        ("def broken( -> Drawing:", "stand.py cannot be imported: shop/figures/stand.py:3: SyntaxError"),
        (
            "import no_such_module\ndef broken() -> Drawing: ...",
            "cannot be imported: shop/figures/stand.py:3: ModuleNotFoundError",
        ),
        ("def broken() -> Drawing:\n    raise SystemExit(3)", "shop/figures/stand.py:4: SystemExit: 3"),
    ],
)
def test_a_figure_that_fails_names_its_own_line(
    source: str, said: str, shop: Callable[[str], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop(source)
    message = complaint("# T\n\n![a](figure:stand/broken)\n", tmp_path, monkeypatch)
    assert message.startswith("docs/page.md:3: figure stand/broken: ") and said in message


# -- how often a figure is drawn -------------------------------------------------------------------------


def test_drawn_once_and_again_when_its_source_changes(shop: Callable[[str], None]) -> None:
    source = "def box() -> Drawing:\n    art = Drawing(20, 20)\n    art.rect(1, 1, {}, 5)\n    return art"
    shop(source.format(7))
    first = gallery.show("figure", "stand", "box")
    assert gallery.show("figure", "stand", "box") is first and 'width="7"' in first[0].panels[0].wide.body
    shop(source.format(19))
    assert 'width="19"' in gallery.show("figure", "stand", "box")[0].panels[0].wide.body


def test_a_measured_figure_is_kept_on_disk(
    shop: Callable[[str], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop("import time\n@measured\ndef clock() -> Drawing:\n    return Drawing(time.perf_counter(), 1)")
    first = gallery.show("figure", "stand", "clock")
    monkeypatch.setattr(gallery, "_drawn", {})
    assert gallery.show("figure", "stand", "clock") == first
    for kept in (tmp_path / "kept").iterdir():
        kept.unlink()
    monkeypatch.setattr(gallery, "_drawn", {})
    assert gallery.show("figure", "stand", "clock") != first


# -- every figure there is -------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "page", "name"), EVERY, ids=[f"{page}/{name}" for _, page, name in EVERY])
def test_every_figure_keeps_the_rules(kind: str, page: str, name: str) -> None:
    classes = set(re.findall(r"\.([a-z][\w-]*)", style())) | {"wide", "tall"}
    for step in gallery.show(kind, page, name):
        for panel in step.panels:
            sheets = [panel.wide] + ([panel.tall] if panel.tall else [])
            assert panel.wide.width <= art.WIDEST
            # Smaller than drawn it would have text under 12 px on a phone.
            assert min(sheet.width for sheet in sheets) <= art.NARROW
            for sheet in sheets:
                svg = art.svg(sheet, "")
                root = ElementTree.fromstring(svg)
                for part in root.iter():
                    assert "id" not in part.attrib, part.attrib
                    assert part.get("fill", "none") in ("none", "currentColor"), part.attrib
                    assert part.get("stroke", "none") in ("none", "currentColor"), part.attrib
                    assert "style" not in part.attrib or part is root
                    if part is not root:
                        assert set(part.get("class", "").split()) - classes <= {"middle", "node", "tensor"}, part.attrib
                    # Sizes come from the style sheet; where one is written, it is 12 px or more.
                    assert float(part.get("font-size", "12").removesuffix("px")) >= 12
        assert kind == "figure" or (step.caption and step.tick)


def test_no_text_is_under_twelve_pixels() -> None:
    sizes = [float(size) for size in re.findall(r"font-size: ([\d.]+)px", style())]
    assert sizes and min(sizes) >= 12


def test_every_figure_on_a_page_has_words() -> None:
    images = [
        (path.name, alt)
        for path in (ROOT / "docs").rglob("*.md")
        for alt in re.findall(r"!\[([^\]]*)\]\((?:figure|player):", path.read_text(encoding="utf-8"))
    ]
    assert len(images) >= 2 and all(len(alt.split()) > 8 for _, alt in images), images


def test_colours_are_told_apart_on_both_pages() -> None:
    css = "".join((ROOT / "docs/assets" / name).read_text("utf-8") for name in ("site.css", "figures.css"))
    for number, scheme in enumerate(("light", "dark")):

        def value(token: str, number: int = number) -> str:
            return re.findall(rf"{token}: (#[0-9a-f]{{6}})", css)[number]

        page = value("--page")
        for token in ("--fwd", "--bwd", "--second"):
            assert contrast(value(token), page) >= 3, (scheme, token)
            assert contrast(value(f"{token}-text"), page) >= 4.5, (scheme, token)


def contrast(one: str, other: str) -> float:
    def light(colour: str) -> float:
        parts = [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]
        red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    bright, dark = sorted((light(one), light(other)), reverse=True)
    return (bright + 0.05) / (dark + 0.05)


# -- away from the site, plots, track --------------------------------------------------------------------


def test_standalone_brings_its_colours() -> None:
    svg = standalone("graph", "after-backward", "After backward < 1.")
    root = ElementTree.fromstring(svg)
    assert "var(" not in svg and tokens()["--bwd"] == "#d55e00" and "#d55e00" in svg
    assert root[0].text == "After backward < 1." and ">.grad 42<" in svg
    assert ">Backward: " not in standalone("graph", "backward") and ">.grad 28<" in standalone("graph", "backward")
    with pytest.raises(gallery.FigureError, match="did you mean backward"):
        standalone("graph", "bakward")


def test_png_is_a_picture() -> None:
    pytest.importorskip("resvg_py")
    picture = png("vjp", "jacobian", scale=1)
    width, height = (int.from_bytes(picture[k : k + 4], "big") for k in (16, 20))
    assert picture.startswith(b"\x89PNG") and 500 < width <= 688 and 200 < height < 300


def test_a_palette_halves_a_picture_and_nobody_sees_it(monkeypatch: pytest.MonkeyPatch) -> None:
    small = png("graph", "after-backward")
    monkeypatch.setattr("publish.standalone.with_palette", lambda picture: picture)
    whole = png("graph", "after-backward")
    assert 2 * len(small) < len(whole)
    before, after = (Image.open(BytesIO(picture)).convert("RGB") for picture in (whole, small))
    assert after.size == before.size
    assert after.tobytes() == before.tobytes()


def drawing_of(**options: Any) -> str:
    from snippets.figures.plot import axes

    figure, plot = axes(200, 100)
    plot.plot([0, 1], [0, 1], **options)
    return plots.draw(figure)[2]


def test_plot_has_words_for_colours() -> None:
    body = drawing_of(color="#d55e00")
    assert "stroke-bwd" in body and "#" not in body and "<use" not in body and "id=" not in body
    with pytest.raises(plots.PlotError, match="colour #123456 is none of the visual language"):
        drawing_of(color="#123456")


def test_plot_refuses_small_text() -> None:
    from snippets.figures.plot import axes

    figure, plot = axes(200, 100)
    plot.text(0.5, 0.5, "tiny", fontsize=9)
    with pytest.raises(plots.PlotError, match="text of 9 px"):
        plots.draw(figure)


def test_track_changes_colour_where_the_run_turns() -> None:
    steps = [art.Step((), str(k), "c", phase) for k, phase in enumerate(["", "fwd", "bwd", "bwd", ""])]
    assert track(tuple(steps)) == "linear-gradient(90deg,var(--fwd) 0.0% 25.0%,var(--bwd) 25.0% 100.0%)"
    assert 'aria-valuetext="step 1 of 5"' in player(tuple(steps), "Alt")
