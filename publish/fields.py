"""Fields: what the docstring of a dataclass says of each of its fields, and what each is in JSON.

A docstring describes a field by its name, a colon and a text, at the start of a line or of a sentence:

    loss: its value. gradient_norm: ‖dL/dθ‖.
    last, largest: norm by name of each parameter.
    graph … anomalies: the reports.

Without that, the comment behind the field counts. A field that is described in neither way is a mistake.
"""

from __future__ import annotations

import dataclasses
import inspect
import io
import re
import tokenize
import types
import typing
from dataclasses import dataclass
from typing import Any, Literal

from publish.gallery import relative

SIMPLE = {str: "text", int: "integer", float: "number", bool: "true or false", type(None): "null"}


class FieldError(Exception):
    """A field without a text: one line, with what to do."""


@dataclass(frozen=True)
class Described:
    """A field: its type (`typing`'s) and its text, on one line, with code between backticks."""

    name: str
    type: Any
    text: str


def described(cls: type) -> list[Described]:
    """The fields of a dataclass in their order. Raises FieldError."""
    names = [field.name for field in dataclasses.fields(cls)]
    texts = _comments(cls, names) | _sentences(inspect.getdoc(cls) or "", names)
    hints = typing.get_type_hints(cls)
    for name in names:
        if not texts.get(name):
            file, line = inspect.getsourcefile(cls) or "", inspect.getsourcelines(cls)[1]
            raise FieldError(
                f"{relative(file)}:{line}: {cls.__name__}.{name} is not described;"
                f" write '{name}: …' in the docstring, or a comment behind the field"
            )
    return [Described(name, hints[name], texts[name]) for name in names]


def _sentences(doc: str, names: list[str]) -> dict[str, str]:
    word = "|".join(map(re.escape, names))
    entry = re.compile(rf"(?:(?<=\n)|(?<=[.;] ))(?P<who>(?:{word})(?:(?:, | … )(?:{word}))*):\s")
    found: dict[str, str] = {}
    matches = list(entry.finditer(doc))
    ends = [*(match.start() for match in matches), len(doc)][1:]
    for match, end in zip(matches, ends, strict=True):
        text = doc[match.end() : end].partition("\n\n")[0]
        for part in match["who"].split(", "):
            first, _, last = part.partition(" … ")
            for name in names[names.index(first) : names.index(last or first) + 1]:
                found[name] = " ".join(text.split()).rstrip(";")
    return found


def _comments(cls: type, names: list[str]) -> dict[str, str]:
    """The comment behind each field; it may go on in lines that hold nothing else."""
    found: dict[str, str] = {}
    current = ""
    source = inspect.cleandoc(inspect.getsource(cls))
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        before = token.line[: token.start[1]].strip()
        if token.type == tokenize.COMMENT:
            name = before.partition(":")[0]
            current = name if name in names else current if not before else ""
            if current:
                found[current] = f"{found.get(current, '')} {token.string.lstrip('# ')}".strip()
        elif token.type not in (tokenize.NL, tokenize.NEWLINE):
            current = ""
    return found


def parts_of(kind: Any) -> list[type]:
    """The dataclasses that a type names, the type itself among them."""
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        return [kind]
    return [found for part in typing.get_args(kind) for found in parts_of(part)]


def within(cls: type) -> list[type]:
    """A dataclass and all that are in its fields, in the order in which they are met."""
    found = [cls]
    for known in found:  # grows while it is read
        hints = typing.get_type_hints(known)
        for field in dataclasses.fields(known):
            found += [part for part in parts_of(hints[field.name]) if part not in found]
    return found


def as_json(kind: Any) -> list[str | type]:
    """What a type is in JSON, in words; a dataclass stands for itself."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if kind in SIMPLE:
        return [SIMPLE[kind]]
    if parts_of(kind) == [kind]:
        return [kind]
    if origin is Literal:
        return [" or ".join(f"“{value}”" for value in arguments)]
    if origin in (typing.Union, types.UnionType):
        first, *rest = arguments
        return [*as_json(first), *(part for other in rest for part in (" or ", *as_json(other)))]
    if origin is tuple and len(arguments) == 2 and arguments[1] is Ellipsis:
        return ["list of ", *as_json(arguments[0])]
    if origin is tuple:
        inner = [part for other in arguments for part in (", ", *as_json(other))]
        return ["[", *inner[1:], "]"]
    if origin is dict:
        return ["object, name to ", *as_json(arguments[1])]
    raise FieldError(f"{kind} has no name in JSON; give it one in {relative(__file__)}")
