# SPDX-License-Identifier: 0BSD
"""A diagnosis as one HTML page: no script, no network, no other file."""

from . import sections
from .diagnosis import SECTIONS, Diagnosis, headline
from .findings import Finding
from .overview import overview
from .parts import breakable, e, lines, paragraph, sign
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

    It has the verdict and the findings first, then one line for each
    check, then the sections that the diagnosis has. Names that come
    from the user are escaped.
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
        # Without it a browser asks the server for /favicon.ico.
        '<link rel="icon" href="data:,">'
        f"<title>{e(headline(diagnosis))}</title><style>{CSS}</style></head>"
        f"<body><header>{_header(diagnosis)}</header>"
        f"<main>{_findings(diagnosis)}{_checks(diagnosis)}"
        f"{_examined(diagnosis)}{body}</main></body></html>\n"
    )


def _header(diagnosis: Diagnosis) -> str:
    level = diagnosis.verdict
    return (
        f"<h1>{e(diagnosis.about.kind)}</h1>"
        f'<p class="verdict"><span class="level {level}">'
        f"{sign('ok' if level == 'healthy' else level)} {e(_SAYS[level])}"
        "</span></p>"
    )


def _findings(diagnosis: Diagnosis) -> str:
    found = "".join(map(_finding, diagnosis.findings))
    told = f'<ul class="findings">{found}</ul>' if found else ""
    if not found:
        told = paragraph(
            "None. The checks below say what was looked at; this holds for "
            "these weights and this batch."
        )
    return (
        '<section aria-labelledby="summary"><h2 id="summary">Findings</h2>'
        f"{told}</section>"
    )


def _finding(one: Finding) -> str:
    where = ", ".join(
        f"<code>{breakable(path)}</code>" for path in one.where[:12]
    )
    more = len(one.where) - 12
    where += f" and {more} more" if more > 0 else ""
    at = f"<p>In {where}</p>" if where else ""
    advice = one.advice
    advice = f"<p><b>Cause and cure.</b> {e(advice)}</p>" if advice else ""
    return (
        f'<li class="{one.level}"><h3><span class="level {one.level}">'
        f"{sign(one.level)} {one.level.capitalize()}:</span> {e(one.title)}"
        f"</h3>{at}<p>{e(one.text)}</p>{advice}"
        f'<p class="quiet"><a href="#{one.section}">'
        f"See {TITLES[one.section]}</a></p></li>"
    )


def _checks(diagnosis: Diagnosis) -> str:
    items = "".join(
        f'<li><a href="#{section}">{TITLES[section]}</a>'
        f'<span class="level {level}">{sign(level)} {level}</span>'
        f"<span>{breakable(text)}</span></li>"
        for section, level, text in overview(diagnosis)
    )
    return f'<nav aria-label="Checks"><ul>{items}</ul></nav>'


def _examined(diagnosis: Diagnosis) -> str:
    about = diagnosis.about
    return (
        '<section class="examined" aria-labelledby="examined">'
        '<h2 id="examined">What was examined</h2>'
        + lines(
            [
                ("Model", about.model),
                ("Batch", about.batch),
                ("Loss", about.loss or "the model's own"),
                ("Parameters", f"{about.parameters:,} entries"),
                (
                    "Run",
                    f"{about.device}, {about.dtype}, seed {about.seed}, "
                    f"torch {about.torch}",
                ),
            ]
        )
        + "</section>"
    )
