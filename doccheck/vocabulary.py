"""Vocabulary: which fences a page may have, and what to type instead of the others."""

from __future__ import annotations

import difflib
import re

from pygments.lexers import find_lexer_class_by_name
from pygments.util import ClassNotFound

from doccheck.fences import Fence, Opening
from doccheck.needs import Needs
from doccheck.places import Problem

# Attributes that a fence of each language may have.
ALLOWED = {
    "python": {"title", "hl_lines", "data-needs"},
    "text": {"title", "hl_lines", "data-varies"},
    "console": {"title", "data-needs", "data-varies"},
}
MEANT = {"needs": "data-needs", "varies": "data-varies", "value": "data-value", "hl-lines": "hl_lines"}
SHELLS = {"bash", "sh", "shell", "zsh", "fish", "powershell", "ps1", "bat", "shell-session"}
PLAIN_TEXT = {"text", "output", "txt", "plain", "plaintext"}
PLAIN = re.compile(r"[\w+#.-]+(?:\s+(?:title|hl_lines)=(?:\"[^\"]*\"|'[^']*'))*")


def opening_problem(opening: Opening) -> Problem:
    """What is wrong with a line that looks like a fence and is none."""
    if opening.in_item:
        hint = "put the fence on a line of its own, indented by four blanks under the list item"
        return Problem(opening.place, "a fence behind a list marker would be shown as inline code", hint)
    if opening.accepted:
        hint = "close it with a line of the same fence and the same indentation"
        return Problem(opening.place, "this fence is never closed", hint)
    return Problem(
        opening.place, f"superfences does not take '{opening.info.strip()}'; it would be shown as text", _spell(opening)
    )


def _spell(opening: Opening) -> str:
    """The info string that was probably meant."""
    info = opening.info.strip().strip("{}").strip()
    language, _, rest = info.partition(" ")
    language = re.sub(r"[^\w+#.-]+.*", "", language.lstrip(".")) or "python"
    pairs = re.findall(r"([\w-]+)(?:=(\"[^\"]*\"|'[^']*'|\S+))?", rest)
    known = {name: value for name, value in pairs if MEANT.get(name, name) in ALLOWED.get(language, {"title"})}
    if "hl_lines" in known:
        known["hl_lines"] = " ".join(re.findall(r"\d+(?:-\d+)?", known["hl_lines"]))
    known = {name: value for name, value in known.items() if value.strip("\"'") or name != "hl_lines"}
    if not known:
        return f"type ```{language}"
    attributes = " ".join(
        f'{MEANT.get(name, name)}="{value.strip(chr(34) + chr(39))}"' for name, value in known.items()
    )
    braces = any(MEANT.get(name, name).startswith("data-") for name in known)
    return f"type ``` {{ .{language} {attributes} }}" if braces else f"type ```{language} {attributes}"


def glued_problem(fence: Fence, side: str) -> Problem:
    """Text that touches a fence: browsers would close the paragraph before the code and open an empty one after."""
    place = fence.place if side == "above" else fence.end
    return Problem(place, "a fence in the middle of a paragraph", f"put a blank line {side} this line")


def fence_problems(fence: Fence) -> list[Problem]:
    """What is wrong with the opening line of a fence that superfences takes."""
    message, hint = _language(fence)
    if message:
        return [Problem(fence.place, message, hint)]
    found = list(_spelling(fence))
    found += _attributes(fence)
    return [Problem(fence.place, message, hint) for message, hint in found]


def _language(fence: Fence) -> tuple[str, str]:
    language = fence.language
    if not language:
        return "this fence names no language", 'type ```python, or ```text title="…" for what does not run'
    if language in ALLOWED:
        return "", ""
    if language in SHELLS:
        hint = (
            "type ```console with a command that is checked ($ nox …, $ python -m snippets…), or ```text with a title"
        )
        return f"commands in '{language}' are not checked", hint
    try:
        family = " ".join(kind.__name__ for kind in find_lexer_class_by_name(language).__mro__)
    except ClassNotFound:
        near = difflib.get_close_matches(language.lower(), [*ALLOWED, "markdown", "yaml", "toml", "json"], n=1)
        return f"unknown language '{language}'", f"type ```{near[0] if near else 'text'}"
    if language.lower() in PLAIN_TEXT:
        return f"'{language}' would be shown as a transcript and never compared", "type ```text"
    if "Python" in family or language.lower() in {"py", "ipython", "sage", "numpy"}:
        return f"'{language}' would be shown as Python and never run", "type ```python"
    return "", ""


def _spelling(fence: Fence) -> list[tuple[str, str]]:
    """One way to write an opening line, so that nobody has to guess which spellings run."""
    info = fence.info
    if info.startswith((" ", "\t")) and not info.lstrip().startswith("{"):
        return [(f"a blank before '{info.strip()}'", f"type ```{info.strip()}")]
    if not info.lstrip().startswith("{") and not PLAIN.fullmatch(info):
        return [(f"'{info}' is not in the vocabulary", f"type ```{fence.language}, or braces for attributes")]
    return []


def _attributes(fence: Fence) -> list[tuple[str, str]]:
    allowed = ALLOWED.get(fence.language, {"title", "hl_lines"})
    found = []
    for name in fence.attributes:
        if name in allowed:
            continue
        meant = MEANT.get(name)
        if meant in allowed:
            found.append((f"'{name}=' does nothing", f"type {meant}="))
        elif name == "linenums":
            found.append(("line numbers fail accessibility checks", "leave out linenums="))
        else:
            known = ", ".join(sorted(allowed))
            found.append((f"'{name}=' is not for a {fence.language} fence", f"it takes {known}"))
    if fence.classes or fence.name:
        extra = " ".join([f".{name}" for name in fence.classes] + ([f"#{fence.name}"] if fence.name else []))
        found.append((f"'{extra}' does nothing", "leave it out"))
    if "data-varies" in fence.attributes and not fence.attributes["data-varies"].strip():
        found.append(("data-varies without a reason", 'say why: data-varies="times depend on the machine"'))
    if "data-needs" in fence.attributes:
        try:
            Needs.parse(fence.attributes["data-needs"])
        except ValueError as error:
            found.append(("data-needs without a requirement and a reason", str(error)))
    found += _highlighted(fence)
    return found


def _highlighted(fence: Fence) -> list[tuple[str, str]]:
    count = len(fence.text.strip("\n").split("\n"))
    for entry in fence.attributes.get("hl_lines", "").split():
        if not re.fullmatch(r"\d+(-\d+)?", entry):
            return [(f"hl_lines cannot be '{entry}'", 'name lines of the block, such as hl_lines="2 4-5"')]
        first, _, last = entry.partition("-")
        if not 1 <= int(first) <= int(last or first) <= count:
            return [(f"hl_lines names {entry}, and the block has {count} lines", "name lines of the block as shown")]
    return []
