"""Makes `docs/assets/fonts` and `docs/assets/katex` from npm packages. Run by hand, to renew one of them.

    mkdir .cache/fonts && cd .cache/fonts
    npm pack inter-ui@4.1.1 @fontsource-variable/jetbrains-mono@5.3.0 katex@0.19.1
    for a in *.tgz; do mkdir "${a%.tgz}" && tar xzf "$a" -C "${a%.tgz}" --strip-components=1; done
    cd ../.. && python publish/vendor/fonts.py .cache/fonts

Needs fonttools and brotli. Inter comes from `inter-ui` because the Latin slice of `@fontsource-variable/inter` has
none of the arrows, roots and inequalities that sentences about gradients need. JetBrains Mono comes in slices; a
browser fetches the Greek one only for a page that has Greek letters in its code.
"""

import re
import shutil
import sys
from pathlib import Path

from fontTools.subset import Options, Subsetter
from fontTools.ttLib import TTFont
from fontTools.varLib.instancer import instantiateVariableFont

ROOT = Path(__file__).resolve().parents[2]
FONTS = ROOT / "docs" / "assets" / "fonts"
KATEX = ROOT / "docs" / "assets" / "katex"

LATIN = [
    *range(0x20, 0x7F),
    *range(0xA0, 0x100),
    0x152,
    0x153,
    0x160,
    0x161,
    0x304,
    *range(0x2010, 0x2028),
    0x2032,
    0x20AC,
    0x2122,
]
GREEK = [*range(0x391, 0x3CA), 0x3D5]
SIGNS = [ord(sign) for sign in "←↑→↓↔⇒ᵀᵢⱼ⁰¹²³⁴⁵⁶⁷⁸⁹⁻ⁿ₀₁₂₃₄₅₆₇₈₉ℓℝ∀∂∇∈∏∑\N{MINUS SIGN}∘√∞∫≈≠≡≤≥⊗⊙⟨⟩‖ȳ✓½"]


def subset(source: Path, target: Path, characters: list[int], axes: dict[str, float | tuple[float, float]]) -> None:
    """Keeps `characters` and narrows the axes. In this order: the other way round fails on a glyph that is gone."""
    font = TTFont(source, recalcTimestamp=False)  # the same input gives the same file
    options = Options()
    options.flavor = "woff2"
    options.layout_features = ["kern", "mark", "tnum"]  # no ligatures: `**` and `->` must stay two signs
    options.name_IDs = ["*"]  # the licence and the copyright stay in the file
    options.notdef_outline = True
    cutter = Subsetter(options)
    cutter.populate(unicodes=characters)
    cutter.subset(font)
    instantiateVariableFont(font, axes, inplace=True)
    font.flavor = "woff2"
    font.save(target)
    print(f"{target.relative_to(ROOT)}: {target.stat().st_size / 1024:.1f} KB")


def katex(package: Path) -> None:
    """Copies the style sheet without the older font formats, and the fonts that it then names."""
    css = (package / "dist" / "katex.min.css").read_text(encoding="utf-8")
    css = re.sub(r',url\([^)]+\.(?:woff|ttf)\) format\("(?:woff|truetype)"\)', "", css)
    fonts = set(re.findall(r"url\((fonts/[^)]+)\)", css))
    assert fonts and all(name.endswith(".woff2") for name in fonts), fonts
    (KATEX / "fonts").mkdir(parents=True, exist_ok=True)
    (KATEX / "katex.min.css").write_text(css, encoding="utf-8")
    for name in fonts:
        shutil.copyfile(package / "dist" / name, KATEX / name)
    shutil.copyfile(package / "LICENSE", KATEX / "LICENSE")
    vendored = ROOT / "publish" / "vendor" / "katex"
    for name in ("dist/katex.min.js", "LICENSE"):
        shutil.copyfile(package / name, vendored / Path(name).name)


def main(packages: Path) -> None:
    FONTS.mkdir(parents=True, exist_ok=True)
    inter = next(packages.glob("inter-ui-*/"))
    mono = next(packages.glob("fontsource-variable-jetbrains-mono-*/"))
    axes = {"wght": (400.0, 700.0)}
    inter_axes: dict[str, float | tuple[float, float]] = {**axes, "opsz": 14.0}
    subset(inter / "variable" / "InterVariable.woff2", FONTS / "inter.woff2", LATIN + GREEK + SIGNS, inter_axes)
    for slice_name, characters in (("latin", LATIN + SIGNS), ("greek", GREEK)):
        source = mono / "files" / f"jetbrains-mono-{slice_name}-wght-normal.woff2"
        subset(source, FONTS / f"jetbrains-mono-{slice_name}.woff2", characters, {**axes})
    shutil.copyfile(inter / "LICENSE.txt", FONTS / "LICENSE-Inter")
    shutil.copyfile(mono / "LICENSE", FONTS / "LICENSE-JetBrains-Mono")
    katex(next(packages.glob("katex-*/")))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
