"""Update: wrong transcripts and values rewritten in place, with the smallest difference that makes them right."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from doccheck import outputs, record, transcripts
from doccheck.failures import Failure
from doccheck.page import Block, Page, Value, parse
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
    outcome = Outcome()
    page = parse(project, path, original)
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
    text = _edited(original.decode("utf-8"), edits)
    outcome.refused = _unreadable(page, first, parse(project, path, text.encode("utf-8")))
    if outcome.refused:
        return outcome
    record.write(path, text)
    outcome.changed = sorted(Place(page.name, edit.start) for edit in edits)
    return outcome


def _edited(text: str, edits: list[_Edit]) -> str:
    """The text with the edits, and every other line with the end that it has."""
    parts = re.split(r"(\r\n|\r|\n)", text)
    lines, ends = parts[::2], [*parts[1::2], ""]
    for edit in sorted(edits, key=lambda edit: edit.start, reverse=True):
        where = slice(edit.start - 1, edit.end - 1)
        usual = ends[max(edit.start - 2, 0)] or ends[0]
        kept = ends[where][-1:] if edit.lines and edit.end > edit.start else []
        ends[where] = [usual] * (len(edit.lines) - len(kept)) + kept
        lines[where] = edit.lines
    return "".join(line + end for line, end in zip(lines, ends, strict=True))


def _unreadable(page: Page, done: PageRun, new: Page) -> Failure | None:
    """The first step of which the page would still say something else: what it prints cannot stand on a page."""
    if len(new.steps) == len(page.steps) and not new.fatal and len(new.problems) <= len(page.problems):
        wrong = None
        for old, step in zip(page.steps, new.steps, strict=True):
            result = done.results[old.id]
            if result.outcome == "needs":
                continue
            if isinstance(step, Value):
                wrong = None if outputs.same_value(step.text, result.value) else old
            elif not transcripts.matches(step, result.output, done.device):
                wrong = old
            if wrong is not None:
                break
        else:
            return None
    else:
        wrong = next(step for step in page.steps if done.results[step.id].failure)
    hint = "print it with repr(), or without what Markdown takes for its own: carriage returns, control signs, includes"
    return Failure(wrong.place, "what this gives cannot be written on a page as it is", [], hint)


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
    opening = page.source.split("\n")[first - 1]
    indent = _indent(opening)
    kept = _merge("\n".join(step.transcript.lines), printed, done.device)
    new = [(indent + text).rstrip() for text in kept]
    fence = opening[len(indent) :][: len(opening[len(indent) :]) - len(opening[len(indent) :].lstrip("`~"))]
    longer = _longer_fence(kept, fence[0])
    if len(longer) <= len(fence):
        return _Edit(first + 1, last, new)
    return _Edit(first, last + 1, [opening.replace(fence, longer, 1), *new, indent + longer])


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip("> \t"))]


def _longer_fence(lines: list[str], sign: str = "`") -> str:
    """A fence that no line of these ends."""
    found = [re.match(rf"\s*({sign}{{3,}})", line) for line in lines]
    return sign * max([3, *(len(match[1]) + 1 for match in found if match)])


def _merge(shown: str, printed: str, device: str) -> list[str]:
    """The printed lines; where the page says the same, as the page says it."""
    kept: list[str] = []
    for old, new in outputs.merge(shown, printed, device):
        if new == outputs.MISSING:
            continue
        alike = old != outputs.MISSING and outputs.same(old, new, device)
        kept += (old if alike else new).split("\n")
    return kept
