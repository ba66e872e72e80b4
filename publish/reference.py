"""Reference: what the program says of itself, as lists on a page. Nothing of it is written twice.

    <!-- cli: commands -->                               the commands of `autograd-debugger`
    <!-- cli: what to examine -->                        the options of that group
    <!-- fields: capstone.gradients.GradientRow -->      the fields of a dataclass in `snippets/`

The texts are the `help=` of the parser and the docstring of the dataclass (`publish.fields` says in which form).
"""

from __future__ import annotations

import argparse
import difflib
import html
import importlib
import inspect
import re
import sys
from typing import Any, NoReturn

from markdown import Markdown
from markdown.extensions import Extension
from markdown.preprocessors import Preprocessor

from publish.fields import Described, FieldError, as_json, described
from publish.gallery import ROOT, fresh, told
from publish.math import without_code
from publish.places import BuildStopped, page_file, where

MARKER = re.compile(r"^(?P<indent>\s*)<!--\s*(?P<kind>cli|fields):\s*(?P<name>[\w. -]+?)\s*-->\s*$")
MEANT = re.compile(r"<!--\s*(?:cli|fields?|options?)\b", re.IGNORECASE)
COMMANDS = "commands"


def parser() -> argparse.ArgumentParser:
    """The parser of the program as its source is now."""
    found: argparse.ArgumentParser = _module("capstone.cli").parser()
    return found


def _module(name: str) -> Any:
    fresh()
    if str(ROOT) not in sys.path:
        sys.path.insert(0, str(ROOT))
    return importlib.import_module(f"snippets.{name}")


def commands(program: argparse.ArgumentParser) -> dict[str, tuple[str, argparse.ArgumentParser]]:
    """The commands by name: what each is for, and its own parser."""
    (action,) = (a for a in program._actions if isinstance(a, argparse._SubParsersAction))
    helps = {choice.dest: choice.help or "" for choice in action._choices_actions}
    return {name: (helps[name], sub) for name, sub in action.choices.items()}


def groups(program: argparse.ArgumentParser) -> dict[str, list[argparse.Action]]:
    """The options by the title of their group. Every command has the same ones."""
    _, first = next(iter(commands(program).values()))
    return {group.title: list(group._group_actions) for group in first._action_groups[2:] if group.title}


def command_list(program: argparse.ArgumentParser) -> str:
    return _list([(f"command-{name}", _code(name), "", text) for name, (text, _) in commands(program).items()])


def option_list(options: list[argparse.Action]) -> str:
    entries = []
    for option in options:
        (name,) = option.option_strings
        value = "" if option.nargs == 0 else str(option.metavar or option.dest.upper())
        kind = value if option.choices is None else " or ".join(_code(choice) for choice in option.choices)
        kind = html.escape(value) if option.choices is None else kind
        entries.append((f"option-{name.strip('-')}", _code(name), kind, option.help or ""))
    return _list(entries)


def field_list(cls: type) -> str:
    """A class with the first line of its docstring, then its fields, which would make the search index heavy."""
    entries = [("", _code(field.name), _kind(field), field.text) for field in described(cls)]
    gist = (inspect.getdoc(cls) or "").partition("\n")[0]
    title = f'<p class="reference-title" id="{anchor(cls)}">{_code(cls.__name__)} {_text(gist)}</p>'
    return title + _list(entries, " data-search-exclude")


def anchor(cls: type) -> str:
    return f"fields-{cls.__name__.lower()}"


def _kind(field: Described) -> str:
    def shown(part: str | type) -> str:
        if isinstance(part, str):
            return html.escape(part)
        return f'<a href="#{anchor(part)}">{part.__name__}</a>'

    return "".join(map(shown, as_json(field.type)))


def _list(entries: list[tuple[str, str, str, str]], more: str = "") -> str:
    """Anchor, HTML of the term, HTML of its type, and its text, as a definition list without a blank line in it."""

    def one(place: str, term: str, kind: str, text: str) -> str:
        at = f' id="{place}"' if place else ""
        more = f' <span class="kind">{kind}</span>' if kind else ""
        return f"<div{at}><dt>{term}{more}</dt><dd>{_text(text)}</dd></div>"

    rows = "".join(one(*entry) for entry in entries)
    return f'<dl class="reference"{more}>{rows}</dl>'


def _code(text: str) -> str:
    return f"<code>{html.escape(text)}</code>"


def _text(text: str) -> str:
    """A text of a docstring: code stands between backticks."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(text, quote=False))


class ReferencePreprocessor(Preprocessor):
    """Runs before fences are read and comments are put away."""

    def run(self, lines: list[str]) -> list[str]:
        bare = without_code("\n".join(lines)).split("\n")
        found = []
        for line, text in zip(lines, bare, strict=True):
            match = MARKER.match(text)
            if match is None and MEANT.search(text):
                self.stop(
                    line, "would be hidden as a comment; write <!-- cli: NAME --> or <!-- fields: MODULE.CLASS -->"
                )
            found.append(match["indent"] + self.md.htmlStash.store(self.made(match, line)) if match else line)
        return found

    def made(self, match: re.Match[str], line: str) -> str:
        kind, name = match["kind"], match["name"]
        try:
            return self.of_program(name, line) if kind == "cli" else self.of_class(name, line)
        except FieldError as error:
            self.stop(line, str(error))
        except BuildStopped:
            raise
        except (Exception, SystemExit) as error:
            self.stop(line, told(error))

    def of_program(self, name: str, line: str) -> str:
        program = parser()
        known = groups(program)
        if name == COMMANDS:
            return command_list(program)
        if name not in known:
            self.stop(line, f"the program has no group '{name}'{_meant(name, [COMMANDS, *known])}")
        return option_list(known[name])

    def of_class(self, name: str, line: str) -> str:
        module, _, cls = name.rpartition(".")
        try:
            there = vars(_module(module))
        except ModuleNotFoundError:
            self.stop(line, f"there is no snippets/{module.replace('.', '/')}.py")
        if cls not in there:
            classes = [known for known, value in there.items() if hasattr(value, "__dataclass_fields__")]
            self.stop(line, f"it has no {cls}{_meant(cls, classes)}")
        return field_list(there[cls])

    def stop(self, line: str, message: str) -> NoReturn:
        source = page_file(self.md)
        texts = source.read_text("utf-8-sig").splitlines() if source else []
        number = next((n for n, known in enumerate(texts, 1) if known.strip() == line.strip()), None)
        raise BuildStopped(f"{where(self.md, number)}: {line.strip()}: {message}")


def _meant(name: str, known: list[str]) -> str:
    near = difflib.get_close_matches(name, known, 1)
    return f"; did you mean '{near[0]}'?" if near else f"; there are: {', '.join(known)}"


class ReferenceExtension(Extension):
    def extendMarkdown(self, md: Markdown) -> None:
        md.preprocessors.register(ReferencePreprocessor(md), "publish-reference", 27)


def makeExtension(**options: Any) -> ReferenceExtension:
    return ReferenceExtension(**options)
