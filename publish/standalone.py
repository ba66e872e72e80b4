"""A figure that leaves the site: SVG with its colours inside, and PNG. A player goes as its last frame."""

import re
from functools import cache
from html import escape
from io import BytesIO
from pathlib import Path

from publish.art import Step
from publish.gallery import show

ASSETS = Path(__file__).resolve().parents[1] / "docs" / "assets"
GAP, EDGE = 28, 8  # px between panels, and around the picture
FONTS = {
    "--md-text-font-family": "Inter, 'DejaVu Sans', sans-serif",
    "--md-code-font-family": "'JetBrains Mono', 'DejaVu Sans Mono', monospace",
}


def standalone(page: str, name: str, alt: str = "", kind: str | None = None) -> str:
    """The figure `page/name`, or the last frame of that player, as an SVG document in light colours.

    `kind`: "figure" or "player", if it matters which. Raises FigureError.
    """
    step = last(page, name, kind)
    sheets = [panel.wide for panel in step.panels]
    width = sum(sheet.width for sheet in sheets) + GAP * (len(sheets) - 1) + 2 * EDGE
    height = max(sheet.height for sheet in sheets) + 2 * EDGE
    parts, x = [], float(EDGE)
    for sheet in sheets:
        parts.append(f'<g class="art {sheet.kind}" transform="translate({x:.0f} {EDGE})">{sheet.body}</g>')
        x += sheet.width + GAP
    title = f"<title>{escape(alt, quote=False)}</title>" if alt else ""
    colours = tokens()
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}"'
        f' height="{height:.0f}" role="img" color="{colours["--ink"]}">{title}<style>{style()}</style>'
        f'<rect width="100%" height="100%" fill="{colours["--page"]}"/>{"".join(parts)}</svg>'
    )


def png(page: str, name: str, alt: str = "", kind: str | None = None, scale: float = 2) -> bytes:
    """The same as PNG, `scale` pixels for each CSS pixel. Raises FigureError."""
    import matplotlib
    import resvg_py

    fonts = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
    files = [
        str(fonts / f"{name}.ttf")
        for name in ("DejaVuSans", "DejaVuSans-Bold", "DejaVuSansMono", "DejaVuSansMono-Bold")
    ]
    # Only these fonts, so that every machine makes the same picture.
    picture = resvg_py.svg_to_bytes(
        svg_string=standalone(page, name, alt, kind), zoom=scale, skip_system_fonts=True, font_files=files
    )
    return with_palette(picture)


def with_palette(picture: bytes) -> bytes:
    """A PNG with at most 256 colours, as many as a drawing has with its soft edges: less than half the bytes."""
    from PIL import Image

    small = BytesIO()
    # Nothing of the picture is transparent, and without transparency the method is exact.
    opaque = Image.open(BytesIO(picture)).convert("RGB")
    colours = opaque.quantize(256, Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
    colours.save(small, "PNG", optimize=True)
    return small.getvalue()


def last(page: str, name: str, kind: str | None) -> Step:
    from publish.gallery import find, fresh, functions, kind_of, module

    if kind is None:
        fresh()
        function = functions(module(page)).get(name.replace("-", "_"))
        kind = kind_of(function) if function else "figure"
        find(kind, page, name)
    return show(kind, page, name)[-1]


@cache
def _read() -> tuple[dict[str, str], str]:
    text = "".join((ASSETS / file).read_text(encoding="utf-8") for file in ("site.css", "figures.css"))
    signs = text.split("[signs] */")[1].split("/* [/signs]")[0]
    light: dict[str, str] = {}
    for key, value in re.findall(r"(--[\w-]+):\s*([^;]+);", text):
        light.setdefault(key, value.strip())  # the light scheme comes first
    return {**light, **FONTS}, re.sub(r"/\*.*?\*/", "", signs, flags=re.DOTALL).strip()


def tokens() -> dict[str, str]:
    """The values of the style sheets' variables in the light scheme."""
    return _read()[0]


def style() -> str:
    """The rules for signs, with every variable replaced: a picture on its own has no page to ask."""
    values, signs = _read()
    signs = signs.replace("font-weight: 650", "font-weight: 700")  # of a font that is not variable
    return re.sub(r"var\((--[\w-]+)\)", lambda match: values[match[1]], signs)
