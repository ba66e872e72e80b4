"""Update: wrong transcripts and values rewritten in place, with the smallest difference that makes them right."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from doccheck import outputs, record, transcripts
from doccheck.failures import Failure
from doccheck.page import Block, Page, Value, load
from doccheck.places import Place
from doccheck.project import Project
from doccheck.run import PageRun, run

ROUNDS = 20  # an update shows what stood behind it; each round mends all that one run reached


@dataclass
class Outcome:
    """What an update did with a page. Where it refused, the page is as it was."""

    changed: list[Place] = field(default_factory=list)
    refused: Failure | None = None


@dataclass
class _Edit:
    """Lines `start` to `end` (from 1, end not included) of the page become `lines`."""

    start: int
    end: int
    lines: list[str]


def update(project: Project, path: Path, device: str, seed: int) -> Outcome:
    """Bring a page's transcripts and values up to date. Nothing is written unless the whole page then passes.

    It refuses where a block fails without an expected error, where the page itself is wrong, and where a transcript
    depends on the seed: a second run would print something else.
    """
    original = path.read_bytes()
    raw = original.decode("utf-8-sig", errors="replace")
    ends = "\r\n" if "\r\n" in raw else "\n"
    bom = "\ufeff" if original.startswith(b"\xef\xbb\xbf") else ""
    outcome = Outcome()
    page = load(project, path)
    problems = page.fatal + [p for p in page.problems if p.place.path == page.name and "transcript" in p.message]
    if problems:
        outcome.refused = Failure.of(problems[0])
        return outcome
    first = run_through(project, page, device, seed)
    second = run_through(project, page, device, seed + 1)
    outcome.refused = _refusal(page, first) or _unstable(page, first, second)
    if outcome.refused:
        return outcome
    edits = [edit for block in page.blocks if (edit := _edit(block, page, first)) is not None]
    edits += _value_edits(page, first)
    if not edits:
        return outcome
    lines = page.source.split("\n")
    for edit in sorted(edits, key=lambda edit: edit.start, reverse=True):
        lines[edit.start - 1 : edit.end - 1] = edit.lines
    text = bom + ends.join(lines)
    record.write(path, text)
    outcome.changed = sorted(Place(page.name, edit.start) for edit in edits)
    return outcome


def run_through(project: Project, page: Page, device: str, seed: int) -> PageRun:
    """Run all of a page: a wrong transcript does not stop it, since it is what is to be mended."""
    return run(project, page, device, seed, mend=True)


def _refusal(page: Page, done: PageRun) -> Failure | None:
    """The first failure that is no wrong transcript or value."""
    for step in page.steps:
        failure = done.results[step.id].failure
        if failure is not None and not failure.mendable:
            if not failure.hint or "```text" in failure.hint:
                failure.hint = "mend the code; if the error is meant, add a ```text fence that names it under the block"
            return failure
        if failure is not None and step.place.path != page.name:
            failure.hint = f"{page.name} includes it from {step.place.path}: edit it there"
            return failure
    return None


def _unstable(page: Page, first: PageRun, second: PageRun) -> Failure | None:
    """The first block or value that a second run, with another seed, would show differently."""
    for step in page.steps:
        one, other = first.results[step.id], second.results[step.id]
        if isinstance(step, Value):
            if one.outcome != "needs" and not outputs.same_value(outputs.value_text(step.text, one.value), other.value):
                return Failure(step.place, f"{step.expression} is {one.value}, then {other.value}", [], STABLE)
            continue
        same = outputs.same_shape if step.varies else outputs.same
        if not same(one.output.text(), other.output.text(), first.device):
            details = outputs.diff(one.output.text(), other.output.text())
            return Failure(step.place, "two runs with two seeds print different things", details, STABLE)
    return None


STABLE = 'make it independent of the draw, or say why it varies: ``` { .text data-varies="why" }'


def _value_edits(page: Page, done: PageRun) -> list[_Edit]:
    """The lines of prose with wrong values; a line may have several."""
    lines = page.source.split("\n")
    edits: dict[int, _Edit] = {}
    values = [step for step in page.steps if isinstance(step, Value) and done.results[step.id].failure]
    for value in reversed(values):  # from the right, so that columns stay true
        number = value.place.line
        edit = edits.setdefault(number, _Edit(number, number + 1, [lines[number - 1]]))
        (line,) = edit.lines
        start = line.index(value.text, value.column)
        new = outputs.value_text(value.text, done.results[value.id].value)
        edit.lines = [line[:start] + new + line[start + len(value.text) :]]
    return list(edits.values())


def _edit(step: Block, page: Page, done: PageRun) -> _Edit | None:
    result = done.results[step.id]
    if result.failure is None or not result.failure.mendable:
        return None
    printed = result.output.text(transcripts.shown_error_lines(step, result.output) or None).strip("\n")
    opening = page.source.split("\n")[step.place.line - 1]
    indent = _indent(opening)
    lines = printed.split("\n") if printed else []
    if step.transcript is None:
        fence = _longer_fence(lines)
        after = step.fence.end.line + 1
        inserted = ["", f"{fence}text", *lines, fence]
        return _Edit(after, after, [(indent + text).rstrip() for text in inserted])
    first, last = step.transcript.place.line, step.transcript.end.line
    if not lines:
        before = page.source.split("\n")[first - 2].strip(" >") if first > 1 else "x"
        return _Edit(first - (not before), last + 1, [])
    indent = _indent(page.source.split("\n")[first - 1])
    kept = _merge("\n".join(step.transcript.lines), printed, done.device)
    return _Edit(first + 1, last, [(indent + text).rstrip() for text in kept])


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip("> \t"))]


def _longer_fence(lines: list[str]) -> str:
    longest = max((len(match[0]) for line in lines for match in [re.match(r"\s*(`{3,})", line)] if match), default=2)
    return "`" * max(3, longest + 1)


def _merge(shown: str, printed: str, device: str) -> list[str]:
    """The printed lines; where the page says the same, as the page says it."""
    kept: list[str] = []
    for old, new in outputs.merge(shown, printed, device):
        if new == outputs.MISSING:
            continue
        alike = old != outputs.MISSING and outputs.same(old, new, device)
        kept += (old if alike else new).split("\n")
    return kept
