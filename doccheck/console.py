"""Console: the commands that a page shows, run as a reader would and compared with what the page says."""

from __future__ import annotations

import ast
import os
import shlex
import subprocess
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from doccheck import outputs
from doccheck.page import Block
from doccheck.places import Line, Place, Problem
from doccheck.project import Project
from doccheck.transcripts import Output
from doccheck.warm import Request

TIMEOUT = 120  # seconds for one command
STATUS = "echo $?"  # prints the exit status of the command above it
ALLOWED = "a console fence holds `$ python -m snippets…`, `$ autograd-debugger …`, `$ echo $?` or `$ nox …`"


@dataclass
class Command:
    place: Place
    text: str
    shown: list[Line]


def commands(block: Block) -> Iterator[Command]:
    """The commands of a fence, each with the output shown under it."""
    current: Command | None = None
    for line in block.fence.lines:
        if line.startswith("$ "):
            if current is not None:
                yield current
            current = Command(line.place, line[2:].strip(), [])
        elif current is not None:
            current.shown.append(line)
        elif line.strip():
            yield Command(line.place, "", [])
            return
    if current is not None:
        yield current


def run(project: Project, block: Block) -> tuple[Output, Problem | None]:
    """Run and compare every command of the fence; the first thing that is wrong is the problem."""
    status: int | None = None
    for command in commands(block):
        if command.text == STATUS:
            problem = _check_status(command, status)
        else:
            status, problem = _check(project, command, bool(block.varies))
        if problem is not None:
            return Output(), problem
    return Output(), None


def _check_status(command: Command, status: int | None) -> Problem | None:
    if status is None:
        return Problem(command.place, f"'{STATUS}' follows no command that runs", "put it under one, in the same fence")
    return _compare(command, str(status), 0)


def _check(project: Project, command: Command, varies: bool) -> tuple[int | None, Problem | None]:
    """The exit status of a command that ran, and what is wrong with it or with what is shown under it."""
    try:
        words = shlex.split(command.text)
    except ValueError as error:
        return None, Problem(command.place, f"not a command: {error}", "close the quotes")
    if not words:
        return None, Problem(
            command.place, "this line belongs to no command", "start with a command, as in `$ nox -s site`"
        )
    if words[:1] == ["nox"]:
        return None, _check_nox(project, command, words)
    if words[:2] == ["python", "-m"] and words[2:] and words[2].partition(".")[0] == "snippets":
        module, function, arguments = words[2], "", words[2:]
    elif words[:1] and words[0] in (scripts := _scripts(project)):
        (module, _, function), arguments = scripts[words[0]].partition(":"), words
    else:
        return None, Problem(command.place, f"'{command.text}' is no command that this site checks", ALLOWED)
    folder, root = str(Path.cwd()), str(project.root)
    environment = {**os.environ, "PYTHONPATH": root, "NO_COLOR": "1", "COLUMNS": "100"}
    try:
        status, printed = Request(module, function, arguments, [folder, root], folder, environment).run(TIMEOUT)
    except subprocess.TimeoutExpired:
        return None, Problem(command.place, f"the command ran for more than {TIMEOUT} s", "show a command that ends")
    return status, _compare(command, printed, status, varies)


def _compare(command: Command, printed: str, status: int, varies: bool = False) -> Problem | None:
    shown = "\n".join(command.shown)
    if status and not printed.strip():
        return Problem(command.place, f"the command fails without a word (exit {status})", "mend the command")
    if outputs.same_shape(shown, printed) if varies else outputs.same(shown, printed):
        return None
    place = command.shown[0].place if command.shown else command.place
    difference = "\n".join(f"  {line}" for line in outputs.diff(shown.strip("\n"), printed.strip("\n")))
    hint = "write under the command what it prints"
    said = f" (exit {status})" if status else ""
    return Problem(
        place, f"the command prints something else{said}; - the page shows, + was printed\n{difference}", hint
    )


def _check_nox(project: Project, command: Command, words: list[str]) -> Problem | None:
    sessions = set(nox_sessions(project))
    if any(line.strip() for line in command.shown):
        return Problem(command.shown[0].place, "the output of nox is not checked", "show only the command")
    asked = [word for flag, word in pairwise(words) if flag in ("-s", "-rs", "-Rs", "--session")]
    for name in asked:
        if name not in sessions:
            return Problem(command.place, f"nox has no session '{name}'", f"it has {', '.join(sorted(sessions))}")
    return None if asked else Problem(command.place, "this nox command names no session", "type $ nox -s NAME")


def nox_sessions(project: Project) -> Iterator[str]:
    """Names of the sessions in noxfile.py, read without running it."""
    path = project.root / "noxfile.py"
    if not path.exists():
        return
    for node in ast.parse(path.read_text("utf-8")).body:
        if isinstance(node, ast.FunctionDef):
            for decorator in node.decorator_list:
                call = decorator if isinstance(decorator, ast.Call) else None
                function = call.func if call else decorator
                if ast.unparse(function).rpartition(".")[2] == "session":
                    names = [key.value for key in call.keywords if key.arg == "name"] if call else []
                    yield str(ast.literal_eval(names[0])) if names else node.name


def _scripts(project: Project) -> dict[str, str]:
    path = project.root / "pyproject.toml"
    if not path.exists():
        return {}
    found: dict[str, str] = tomllib.loads(path.read_text("utf-8")).get("project", {}).get("scripts", {})
    return found
