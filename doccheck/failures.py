"""Failures: what went wrong, at the line to edit, without a frame of the machinery."""

from __future__ import annotations

import ast
import linecache
import re
import traceback
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

from doccheck.places import Place, Problem
from doccheck.project import Project
from doccheck.script import Script

HINTS = {
    "NameError": "define or import it in a block above; a page starts in an empty module",
    "ModuleNotFoundError": "a page may import torch, NumPy, matplotlib, the standard library and snippets",
}
WIDTH = 200  # of a value in a failed assert


@dataclass
class Failure:
    """A block or value that does not do what the page says. `place` is the line to edit."""

    place: Place
    message: str
    details: list[str] = field(default_factory=list)
    hint: str = ""
    mendable: bool = False  # a transcript or value that `update` may rewrite

    @classmethod
    def of(cls, problem: Problem) -> Failure:
        return cls(problem.place, problem.message, [], problem.hint)

    def __str__(self) -> str:
        lines = [f"{self.place}: {self.message}", *(f"  {line}" for line in self.details)]
        return "\n".join([*lines, f"  mend: {self.hint}"] if self.hint else lines)


@dataclass(frozen=True)
class Frame:
    """A line of a page or a snippet that was running, and in which function."""

    place: Place
    function: str
    code: str
    frame: FrameType


class Reader:
    """Reads tracebacks of one page: lines of its script become lines of the page or of a snippet."""

    def __init__(self, project: Project, script: Script, path: Path) -> None:
        self.project = project
        self.script = script
        self.path = str(path)
        self.lines = script.lines

    def place(self, filename: str, line: int) -> Place | None:
        """The place a contributor can edit; None for torch, Python and the machinery."""
        if filename == self.path:
            return self.script.places.get(line)
        path = Path(filename)
        if path.is_relative_to(self.project.docs) or any(path.is_relative_to(base) for base in self.project.snippets):
            return Place(self.project.name(path), line)
        return None

    def code(self, filename: str, line: int) -> str:
        text = self.lines[line - 1] if filename == self.path else linecache.getline(filename, line)
        return text.strip()

    def plain(self, text: str) -> str:
        """What Python said, without where this machine keeps its files."""
        return text.replace(self.path, Path(self.path).name).replace(f"{self.project.root}/", "")

    def frames(self, tb: TracebackType | None) -> list[Frame]:
        """Outermost first."""
        found = []
        for frame, line in traceback.walk_tb(tb):
            filename = frame.f_code.co_filename
            place = self.place(filename, line)
            if place is not None:
                found.append(Frame(place, frame.f_code.co_name, self.code(filename, line), frame))
        return found

    def failure(self, error: BaseException, fallback: Place) -> Failure:
        """An exception as a failure: the innermost line that can be edited, then the lines that led there."""
        frames = self.frames(error.__traceback__)
        said = self.plain("".join(traceback.format_exception_only(error))).strip().split("\n")
        if isinstance(error, SyntaxError) and error.filename:
            return self._syntax(error, frames, fallback)
        if not frames:
            return Failure(fallback, said[0], said[1:], HINTS.get(type(error).__name__, ""))
        last = frames[-1]
        where = "" if last.function == "<module>" else f"in {last.function}: "
        details = [*said[1:], f"> {last.code}"]
        if isinstance(error, AssertionError):
            details += _operands(last)
        details += _callers(frames[:-1])
        hint = "mend the code, or show the error in a ```text fence under the block"
        if last.frame.f_code.co_filename == self.path:
            hint = HINTS.get(type(error).__name__, hint)
        return Failure(last.place, f"{where}{said[0]}", details, hint)

    def _syntax(self, error: SyntaxError, frames: list[Frame], fallback: Place) -> Failure:
        place = self.place(str(error.filename), error.lineno or 0) or fallback
        line = (error.text or "") if place == fallback else self.code(str(error.filename), error.lineno or 1)
        details = [f"> {line.strip()}"]
        details += _callers([frame for frame in frames if frame.place != place])
        hint = "mend the syntax"
        if re.match(r"\s*(```|~~~)", line):
            hint = "close the fence of this block before this line"
        return Failure(place, f"{type(error).__name__}: {error.msg}", details, hint)


def _callers(frames: list[Frame]) -> list[str]:
    """The lines that led there, innermost first; a recursion says each of its lines once."""
    lines = Counter(f"called from {frame.place}: {frame.code}" for frame in reversed(frames))
    return [line if count == 1 else f"{line} (recursively)" for line, count in lines.items()]


def _operands(frame: Frame) -> list[str]:
    """The values on both sides of a failed assert, computed again where it failed."""
    try:
        statement = ast.parse(frame.code).body[0]
    except (SyntaxError, IndexError):
        return []
    if not isinstance(statement, ast.Assert):
        return []
    test = statement.test
    operands = [test.left, *test.comparators] if isinstance(test, ast.Compare) else _parts(test)
    lines = []
    for operand in operands:
        if isinstance(operand, ast.Constant):
            continue
        lines.append(f"  {ast.unparse(operand)} = {_evaluate(operand, frame.frame)}")
    return lines


def _parts(test: ast.expr) -> list[ast.expr]:
    if isinstance(test, ast.Call):
        return [*test.args, *(keyword.value for keyword in test.keywords)]
    if isinstance(test, ast.BoolOp):
        return list(test.values)
    return [test.operand] if isinstance(test, ast.UnaryOp) else [test]


def _evaluate(operand: ast.expr, frame: FrameType) -> str:
    try:
        code = compile(ast.Expression(operand), "operand", "eval")
        value: Any = eval(code, frame.f_globals, frame.f_locals)
        text = " ".join(repr(value).split())
    except Exception as error:
        text = f"<{type(error).__name__}>"
    return text if len(text) <= WIDTH else text[:WIDTH] + "…"
