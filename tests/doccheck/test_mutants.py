"""doccheck is awake: on the real pages, every digit that is wrong and every backward with a wrong sign is red."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import pytest

from doccheck import outputs, transcripts
from doccheck.page import Block, Page, Value, load
from doccheck.places import Line
from doccheck.project import Project
from doccheck.run import PageRun, run
from doccheck.transcripts import Output
from tests.doccheck.workbench import ROOT, page

PROJECT = Project.load(ROOT)
PAGES = [PROJECT.name(path) for path in PROJECT.pages()]
EXEMPT = re.compile(rf"{outputs.ADDRESS.pattern}|{outputs.TRIGGERED.pattern}")  # what no transcript is held to


@lru_cache
def ran(name: str) -> PageRun:
    return run(PROJECT, load(PROJECT, ROOT / name), "cpu", 0)


def mutants(text: str) -> Iterator[str]:
    """The text with one digit changed, for each digit: by one, the last one of a long float by two."""
    exempt = {index for match in EXEMPT.finditer(text) for index in range(*match.span())}
    for number in re.finditer(r"\d", text):
        index = number.start()
        if index not in exempt:
            digit = (int(text[index]) + (2 if index in _last_digits(text) else 1)) % 10
            yield f"{text[:index]}{digit}{text[index + 1 :]}"


def _last_digits(text: str) -> set[int]:
    found = set()
    for number in outputs.NUMBER.finditer(text):
        mantissa = re.split("[eE]", number[0].rstrip("j"))[0]
        if "." in mantissa and outputs.significant_digits(number[0]) > 3:
            found.add(number.start() + len(mantissa.rstrip(".")) - 1)
    return found


def survivors(block: Block, output: Output) -> list[str]:
    """Wrong transcripts of a block that doccheck would accept."""
    assert block.transcript is not None
    shown = output.text(transcripts.shown_error_lines(block, output) or None)
    found = []
    for text in mutants(shown):
        lines = [Line(line, block.transcript.place) for line in text.split("\n")]
        if transcripts.check(replace(block, transcript=replace(block.transcript, lines=lines)), output, "cpu") is None:
            found.append(text)
    return found


@pytest.mark.parametrize("name", PAGES)
def test_every_digit_of_every_transcript(name: str) -> None:
    done = ran(name)
    assert done.first_failure is None, str(done.first_failure)
    for block in done.page.blocks:
        result = done.results[block.id]
        if block.transcript is not None and not block.varies and result.outcome != "needs":
            assert survivors(block, result.output) == [], f"{block.place}"


@pytest.mark.parametrize("name", PAGES)
def test_every_digit_of_every_value(name: str) -> None:
    done = ran(name)
    for value in done.page.steps:
        if isinstance(value, Value):
            found = done.results[value.id].value
            for text in mutants(outputs.value_text(value.text, found)):
                assert not outputs.same_value(text, found), f"{value.place}: {text}"


def backwards(found: Page) -> Iterator[tuple[Block, str, ast.Module]]:
    """Each block with a backward method, and its code with the sign of what that method returns flipped."""
    for block in found.blocks:
        if block.kind != "python" or block.problems:
            continue
        names = [node.name for node in ast.walk(ast.parse(block.fence.text)) if _has_backward(node)]
        for name in names:
            tree = ast.parse(block.fence.text)
            for node in ast.walk(tree):
                if _has_backward(node) and node.name == name:
                    _flip(next(item for item in node.body if _is_backward(item)))
            yield block, name, ast.fix_missing_locations(tree)


def _is_backward(node: ast.AST) -> bool:
    return isinstance(node, ast.FunctionDef) and node.name == "backward"


def _has_backward(node: ast.AST) -> bool:
    return isinstance(node, ast.ClassDef) and any(map(_is_backward, node.body))


def _flip(function: ast.AST) -> None:
    for node in ast.walk(function):
        if isinstance(node, ast.Return) and node.value is not None:
            if isinstance(node.value, ast.Tuple):
                node.value.elts = [_negative(part) for part in node.value.elts]
            else:
                node.value = _negative(node.value)


def _negative(value: ast.expr) -> ast.expr:
    if isinstance(value, ast.Constant) and value.value is None:
        return value
    return ast.UnaryOp(ast.USub(), value)


def flipped(found: Page, block: Block, tree: ast.Module) -> Page:
    """The page with the code of one block replaced."""
    lines = [Line(line, block.place) for line in ast.unparse(tree).split("\n")]
    other = replace(block, fence=replace(block.fence, lines=lines))
    return replace(found, steps=[other if step is block else step for step in found.steps])


def accepted(project: Project, found: Page) -> list[str]:
    """Backward methods of a page whose sign may be wrong without anybody noticing."""
    unseen = []
    for block, name, tree in backwards(found):
        if run(project, flipped(found, block, tree), "cpu", 0).first_failure is None:
            unseen.append(f"{block.place}: {name}.backward")
    return unseen


@pytest.mark.parametrize("name", PAGES)
def test_every_backward_with_a_wrong_sign(name: str) -> None:
    found = load(PROJECT, ROOT / name)
    assert accepted(PROJECT, found) == [], "print a gradient that depends on it"
    shown = [block for block in found.blocks if "def backward(" in block.fence.text]
    assert {block.id for block in shown} <= {block.id for block, _, _ in backwards(found)}


CUBE = """\
```python
import torch


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 3 * x**2 * grad


x = torch.tensor(2.0, requires_grad=True)
Cube.apply(x).backward()
print({shown})
```

```text
12.3456
```
"""


def test_a_comparison_asleep_would_be_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = page(tmp_path, CUBE.format(shown="12.3456"))
    found = load(project, project.docs / "page.md")
    done = run(project, found, "cpu", 0)
    (block,) = found.blocks
    output = done.results[block.id].output
    assert done.first_failure is None and survivors(block, output) == []
    assert accepted(project, found) == ["docs/page.md:1: Cube.backward"]
    monkeypatch.setattr(outputs, "same", lambda shown, printed, device="cpu": len(shown) == len(printed))
    assert len(survivors(block, output)) == 6


def test_a_wrong_sign_is_red_where_the_page_shows_the_gradient(tmp_path: Path) -> None:
    text = CUBE.format(shown="x.grad").replace("12.3456", "tensor(12.)")
    project = page(tmp_path, text)
    found = load(project, project.docs / "page.md")
    assert run(project, found, "cpu", 0).first_failure is None
    assert accepted(project, found) == []
