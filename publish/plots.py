"""A figure of matplotlib as SVG without ids, with classes in place of colours.

Its colours are those of `snippets.figures.plot`, and no other: each stands for a word of the visual language.
"""

import io
import re
from html import escape
from typing import Any
from xml.etree import ElementTree

SVG, LINK = "{http://www.w3.org/2000/svg}", "{http://www.w3.org/1999/xlink}href"
PALETTE = {
    "#ffffff": "page",
    "#1b1f24": "ink",
    "#57606a": "quiet",
    "#0072b2": "fwd",
    "#d55e00": "bwd",
    "#a8447d": "second",
    "none": "none",
}
TEXT = {"fwd": "fwd", "bwd": "bwd", "second": "second", "quiet": "quiet", "ink": "", "page": "page"}
KEPT = ("stroke-width", "stroke-dasharray", "stroke-linecap", "stroke-linejoin", "opacity", "fill-opacity")
SMALLEST = 12


class PlotError(ValueError):
    """A plot that would not look right on a page."""


def draw(figure: Any) -> tuple[float, float, str]:
    """Width and height in px (at 72 dots per inch), and the body of the SVG. Raises PlotError."""
    import matplotlib

    out = io.StringIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "figures"}):
        figure.savefig(out, format="svg", dpi=72, transparent=True, metadata={"Date": None})
    root = ElementTree.fromstring(re.sub(r"<!--.*?-->", "", out.getvalue(), flags=re.DOTALL))
    shapes = {shape.get("id"): shape for shape in root.iter() if shape.get("id")}
    body = "".join(element(child, shapes, {}) for child in root)
    width, height = (float(str(root.get(side)).removesuffix("pt")) for side in ("width", "height"))
    return width, height, body


def element(node: ElementTree.Element, shapes: dict[Any, Any], outer: dict[str, str]) -> str:
    """One element and what it holds. A style that stands on a `use` holds for what it shows."""
    name = node.tag.removeprefix(SVG)
    if name in ("defs", "metadata", "style", "clipPath"):
        return ""
    style = {**outer, **declarations(node)}
    if name in ("g", "a"):
        inside = "".join(element(child, shapes, style) for child in node)
        move = node.get("transform")
        return f'<g transform="{move}">{inside}</g>' if move and inside else inside
    if name == "use":
        shown = shapes[str(node.get(LINK))[1:]]
        inside = element(shown, shapes, style)
        return f'<g transform="translate({tidy(node.get("x"))} {tidy(node.get("y"))})">{inside}</g>'
    if name == "text":
        return words(node, style)
    if name in ("path", "rect", "circle"):
        if style.get("fill", "#000000") == "none" and style.get("stroke", "none") == "none":
            return ""
        return shape(node, name, style)
    raise PlotError(f"matplotlib wrote <{name}>, which has no counterpart here (an image?)")


def shape(node: ElementTree.Element, name: str, style: dict[str, str]) -> str:
    fill, stroke = word(style.get("fill", "#000000")), word(style.get("stroke", "none"))
    classes = [f"fill-{fill}"] + ([f"stroke-{stroke}"] if stroke != "none" else [])
    kept = "".join(
        f' {key}="{style[key]}"' for key in KEPT if key in style and (stroke != "none" or "stroke" not in key)
    )
    places = "".join(
        f' {key}="{tidy(node.get(key))}"'
        for key in ("d", "x", "y", "width", "height", "cx", "cy", "r")
        if node.get(key)
    )
    return f'<{name} class="{" ".join(classes)}"{places}{kept}/>'


def words(node: ElementTree.Element, style: dict[str, str]) -> str:
    # In one declaration until matplotlib 3.10, in several since.
    font = " ".join(style.get(key, "") for key in ("font", "font-weight", "font-size"))
    found = re.search(r"([\d.]+)px", font)
    size = float(found[1]) if found else SMALLEST
    if size < SMALLEST:
        raise PlotError(f"text of {size:g} px; none is under {SMALLEST}: say fontsize={SMALLEST}")
    classes = [TEXT[word(style.get("fill", "#1b1f24"))], "small" if size == SMALLEST else ""]
    classes.append("name" if re.search(r"\b(bold|[6-9]00)\b", font) else "")
    kind = " ".join(each for each in classes if each)
    anchor = style.get("text-anchor", "start")
    inside = escape("".join(node.itertext()).strip(), quote=False)
    kept = f' class="{kind}"' if kind else ""
    kept += f' text-anchor="{anchor}"' if anchor != "start" else ""
    for key in ("x", "y", "transform"):
        value = tidy(node.get(key))
        if value and value != "rotate(0)" and not (key == "transform" and value.startswith("rotate(-0 ")):
            kept += f' {key}="{value}"'
    return f"<text{kept}>{inside}</text>"


def declarations(node: ElementTree.Element) -> dict[str, str]:
    style = node.get("style") or ""
    found = dict(part.split(":", 1) for part in style.split(";") if ":" in part)
    return {key.strip(): value.strip() for key, value in found.items()}


def word(colour: str) -> str:
    if colour not in PALETTE:
        raise PlotError(f"colour {colour} is none of the visual language: use those of snippets.figures.plot")
    return PALETTE[colour]


def tidy(numbers: str | None) -> str:
    """Numbers with one decimal; matplotlib writes six."""
    rounded = re.sub(r"-?\d+\.\d+", lambda match: f"{float(match[0]):.1f}".removesuffix(".0"), numbers or "")
    return re.sub(r"\s+", " ", rounded.replace("-0 ", "0 ")).strip()
