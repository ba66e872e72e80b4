"""Places: where a line came from, and what is wrong there."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, order=True)
class Place:
    """A line of a file that a contributor can edit. `path` is relative to the project, with slashes."""

    path: str
    line: int

    def __str__(self) -> str:
        return f"{self.path}:{self.line}"


@dataclass(frozen=True)
class Problem:
    """Something that a contributor must mend: where, what, and what to type."""

    place: Place
    message: str
    hint: str = ""

    def __str__(self) -> str:
        text = f"{self.place}: {self.message}"
        return f"{text}\n  mend: {self.hint}" if self.hint else text


def not_utf8(name: str, error: UnicodeDecodeError) -> Problem:
    """A file of another encoding, at its first line that shows it."""
    place = Place(name, error.object.count(b"\n", 0, error.start) + 1)
    return Problem(place, f"this line is not UTF-8 (byte {error.start} of the file)", "save it as UTF-8")


class Line(str):
    """A line of text that remembers its place while pymdownx cuts, dedents and indents it."""

    place: Place

    def __new__(cls, text: str, place: Place) -> Line:
        line = super().__new__(cls, text)
        line.place = place
        return line

    def __radd__(self, indent: str) -> Line:
        return Line(str(indent) + str(self), self.place)


def relative(path: Path | str, root: Path) -> str:
    """The path as a contributor would type it at the root of the project."""
    path = Path(path)
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else path.as_posix()
