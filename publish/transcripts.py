"""Joins a block of code and its transcript into one unit that says what happened: printed, raised or warned.

Works on the finished HTML, where a block in a list, a tab or an admonition looks like any other. The text of the
code itself stays untouched: `python -m doccheck shown` compares it with what ran.
"""

import html
import re
from typing import Any, Literal

from markdown import Markdown
from markdown.extensions import Extension
from markdown.postprocessors import Postprocessor

from doccheck.outputs import ERROR, WARNING

Outcome = Literal["printed", "raised", "warned"]

ATTRIBUTES = r'(?:"[^"]*"|[^">])*'  # superfences leaves a `>` in a value as it is
BLOCK = rf'<div class="language-{{}}[^"]*\bhighlight"{ATTRIBUTES}>(?:(?!</div>).)*</div>'
CODE = BLOCK.format("python")
TEXT = BLOCK.format("text")
CONSOLE = BLOCK.format("console")
UNIT = re.compile(rf"(?P<code>{CODE})(?:\s*(?P<text>{TEXT}))?|(?P<alone>{TEXT})|(?P<console>{CONSOLE})", re.DOTALL)
OPENING = re.compile(rf'<div class="(?P<classes>[^"]*)"(?P<attributes>{ATTRIBUTES})>')
UNSEARCHED = " data-search-exclude"
INNER = re.compile(r"(?<=<code>).*(?=</code>)", re.DOTALL)
HANDLER = re.compile(r"^\s*except\b", re.MULTILINE)


class TranscriptPostprocessor(Postprocessor):
    def run(self, text: str) -> str:
        return UNIT.sub(unit, text) if "highlight" in text else text


def unit(match: re.Match[str]) -> str:
    if match["console"]:
        return commands(match["console"])
    if match["alone"]:
        # Text with a title shows something else than the output of a block.
        return match["alone"] if 'class="filename"' in match["alone"] else frame("", match["alone"])
    return frame(match["code"], match["text"] or "")


def frame(code: str, text: str) -> str:
    code = OPENING.sub(rf'<div class="\g<classes>"\g<attributes>{UNSEARCHED}>', code, count=1)
    needs = attribute(code, "data-needs")
    badge = f'<p class="run-needs">{needs_sentence(needs)}</p>' if needs else ""
    if not text:
        return f'<div class="run">{badge}{code}</div>'
    outcome = outcome_of(plain(code), plain(text))
    # People paste the messages of errors and warnings into the search; numbers and code would only make it heavy.
    unsearched = UNSEARCHED if outcome == "printed" else ""
    varies = attribute(text, "data-varies")
    label = f"{outcome} · varies: {html.escape(varies, quote=False)}" if varies else outcome
    body = OPENING.sub(rf'<div class="\g<classes> no-copy transcript"\g<attributes>{unsearched}>', text, count=1)
    if outcome != "printed":
        name = ERROR if outcome == "raised" else WARNING
        body = INNER.sub(lambda inner: name.sub(r"<b>\1</b>", inner[0]), body, count=1)
    return (
        f'<div class="run" data-outcome="{outcome}">{badge}{code}'
        f'<div class="run-out"><p class="run-label" data-search-exclude>{label}</p>{body}</div></div>'
    )


def commands(block: str) -> str:
    """Commands with their output, and what to know of it above them. The search reads only messages of errors."""
    if "error:" not in plain(block):
        block = OPENING.sub(rf'<div class="\g<classes>"\g<attributes>{UNSEARCHED}>', block, count=1)
    needs, varies = attribute(block, "data-needs"), attribute(block, "data-varies")
    badge = f'<p class="run-needs">{needs_sentence(needs)}</p>' if needs else ""
    badge += f'<p class="run-needs">Its numbers vary: {html.escape(varies, quote=False)}</p>' if varies else ""
    return f'<div class="run">{badge}{block}</div>' if badge else block


def outcome_of(code: str, transcript: str) -> Outcome:
    """An error that the block caught and printed itself was printed; one that ended it was raised."""
    if ERROR.search(transcript) and not HANDLER.search(code):
        return "raised"
    return "warned" if WARNING.search(transcript) else "printed"


def needs_sentence(needs: str) -> str:
    """`cuda: why` as a reader says it."""
    what, _, why = needs.partition(":")
    name = {"cuda": "a CUDA device"}.get(what.strip(), what.strip().replace(">=", " ≥ "))
    sentence = f"Needs <b>{html.escape(name, quote=False)}</b>"
    return f"{sentence}: {html.escape(why.strip(), quote=False)}" if why.strip() else sentence


def attribute(block: str, name: str) -> str:
    found = OPENING.match(block)
    value = re.search(rf'\b{name}="([^"]*)"', found["attributes"]) if found else None
    return html.unescape(value[1]) if value else ""


def plain(block: str) -> str:
    """The text of a highlighted block, without its title."""
    code = INNER.search(block)
    return html.unescape(re.sub(r"<[^>]+>", "", code[0])).strip() if code else ""


class TranscriptExtension(Extension):
    def extendMarkdown(self, md: Markdown) -> None:
        md.postprocessors.register(TranscriptPostprocessor(md), "publish-transcripts", 5)


def makeExtension(**options: Any) -> TranscriptExtension:
    return TranscriptExtension(**options)
