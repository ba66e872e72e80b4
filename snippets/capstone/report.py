# SPDX-License-Identifier: 0BSD
"""A diagnosis as one HTML page: no script, no network, no other file."""

from . import sections
from .diagnosis import SECTIONS, Diagnosis, headline
from .findings import Finding
from .parts import e, facts, paragraph
from .style import CSS

TITLES = {
    "graph": "Graph and memory",
    "gradients": "Gradients",
    "curvature": "Curvature",
    "derivatives": "Derivatives",
    "anomalies": "Anomalies",
}
_SAYS = {
    "healthy": "Healthy: nothing was found that should worry you.",
    "warning": "Warning: something is likely to be wrong.",
    "error": "Error: something is wrong.",
}


def page(diagnosis: Diagnosis) -> str:
    """Return the whole page.

    It has the verdict and the findings first, then the sections that the
    diagnosis has. Names that come from the user are escaped.
    """
    made = {
        name: getattr(sections, name)(getattr(diagnosis, name))
        for name in SECTIONS
        if getattr(diagnosis, name) is not None
    }
    for name, why in diagnosis.unavailable.items():
        made[name] = paragraph(f"Not available. {why}")
    names = [name for name in SECTIONS if name in made]
    body = "".join(
        f'<section aria-labelledby="{name}"><h2 id="{name}">{TITLES[name]}'
        f"</h2>{made[name]}</section>"
        for name in names
    )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, '
        'initial-scale=1"><meta name="color-scheme" content="light dark">'
        f"<title>{e(headline(diagnosis))}</title><style>{CSS}</style></head>"
        f"<body><header>{_header(diagnosis)}{_links(names)}</header>"
        f"<main>{_summary(diagnosis)}{body}</main></body></html>\n"
    )


def _header(diagnosis: Diagnosis) -> str:
    level = diagnosis.verdict
    return (
        f"<h1>{e(diagnosis.about.kind)}</h1>"
        f'<p class="verdict"><span class="level {level}">'
        f"{e(_SAYS[level])}</span></p>"
    )


def _links(names: list[str]) -> str:
    links = "".join(
        f'<li><a href="#{name}">{TITLES[name]}</a></li>' for name in names
    )
    return f'<nav aria-label="Sections"><ul>{links}</ul></nav>'


def _summary(diagnosis: Diagnosis) -> str:
    about = diagnosis.about
    found = "".join(map(_finding, diagnosis.findings))
    told = f'<ul class="findings">{found}</ul>' if found else ""
    if not found:
        told = paragraph("No findings.")
    return (
        f'<section aria-labelledby="summary"><h2 id="summary">Findings</h2>'
        f"{told}<h3>What was examined</h3>"
        + facts(
            [
                ("Model", about.model),
                ("Batch", about.batch),
                ("Loss", about.loss or "the model's own"),
                ("Parameters", f"{about.parameters:,}"),
                ("Device, dtype", f"{about.device}, {about.dtype}"),
                ("Seed", str(about.seed)),
                ("torch", about.torch),
            ]
        )
        + "</section>"
    )


def _finding(one: Finding) -> str:
    where = ", ".join(f"<code>{e(name)}</code>" for name in one.where[:12])
    more = len(one.where) - 12
    where += f" and {more} more" if more > 0 else ""
    at = f"<p>In {where}</p>" if where else ""
    advice = f"<p>{e(one.advice)}</p>" if one.advice else ""
    return (
        f'<li class="{one.level}"><h3><span class="level {one.level}">'
        f"{one.level.capitalize()}:</span> {e(one.title)}</h3>{at}"
        f"<p>{e(one.text)}</p>{advice}"
        f'<p class="quiet"><a href="#{one.section}">'
        f"See {TITLES[one.section]}</a></p></li>"
    )
