"""Docstrings: the `>>>` examples of a snippet file, run in its module and compared like transcripts."""

from __future__ import annotations

import ast
import contextlib
import doctest
import importlib
import io
import sys
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from doccheck import outputs
from doccheck.failures import Failure
from doccheck.places import Place
from doccheck.project import Project


@dataclass
class Docstring:
    """The examples of one docstring; `name` is the dotted name of what it documents."""

    name: str
    place: Place
    examples: list[doctest.Example]

    def line(self, example: doctest.Example) -> Place:
        return Place(self.place.path, self.place.line + example.lineno)


def find(project: Project, path: Path) -> Iterator[Docstring]:
    """Docstrings with examples, in order. Raises SyntaxError if the file is not Python."""
    name = project.name(path)
    tree = ast.parse(path.read_text("utf-8"), str(path))
    yield from _walk(tree, name, "")


def _walk(
    node: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef, file: str, name: str
) -> Iterator[Docstring]:
    text = ast.get_docstring(node, clean=False)
    if text and ">>>" in text:
        first = node.body[0]
        examples = doctest.DocTestParser().get_examples(text, f"{file}:{first.lineno}")
        if examples:
            yield Docstring(name or "module", Place(file, first.lineno), examples)
    for child in node.body:
        if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _walk(child, file, f"{name}.{child.name}".lstrip("."))


def run(project: Project, path: Path, docstring: Docstring, device: str, seed: int) -> Failure | None:
    """Run the examples in the module's own namespace; the first that differs is the failure."""
    from doccheck.isolation import fresh  # imports torch: only where something runs

    with fresh(device, seed):
        sys.path.insert(0, str(project.root))
        try:
            module = _module(project, path)
        except Exception as error:
            said = "".join(traceback.format_exception_only(error)).strip()
            return Failure(docstring.place, f"the file cannot be imported: {said}", [], "mend the file")
        namespace = dict(vars(module))
        for example in docstring.examples:
            printed = _run_one(example, docstring, namespace)
            wanted = _wanted(example)
            if not outputs.same(wanted, printed, device):
                details = [
                    "- the docstring shows, + was printed",
                    *outputs.diff(wanted.rstrip("\n"), printed.rstrip("\n")),
                ]
                place = docstring.line(example)
                return Failure(
                    place, f"the example of {docstring.name} prints something else", details, f"edit {place}"
                )
    return None


def _module(project: Project, path: Path) -> ModuleType:
    parts = path.relative_to(project.root).with_suffix("").parts
    return importlib.import_module(".".join(parts[:-1] if parts[-1] == "__init__" else parts))


def _wanted(example: doctest.Example) -> str:
    if example.exc_msg is not None:
        return example.exc_msg.split("\n")[0]
    return example.want.replace("<BLANKLINE>", "")


def _run_one(example: doctest.Example, docstring: Docstring, namespace: dict[str, object]) -> str:
    written = io.StringIO()
    source = "\n" * (docstring.line(example).line - 1) + example.source
    with contextlib.redirect_stdout(written):
        try:
            exec(compile(source, docstring.place.path, "single", dont_inherit=True), namespace)
        except Exception as error:
            return written.getvalue() + "".join(traceback.format_exception_only(error)).split("\n")[0]
    return written.getvalue()
