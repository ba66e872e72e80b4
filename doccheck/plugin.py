"""Plugin: pytest collects pages and snippet files through Sybil, one item for each thing that can be wrong."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from _pytest._code.code import TerminalRepr
from _pytest._io import TerminalWriter
from sybil import Document, Example, Region, Sybil
from sybil.integration.pytest import SybilFile, SybilItem

from doccheck import checks
from doccheck.docstrings import Docstring
from doccheck.docstrings import run as run_docstring
from doccheck.failures import Failure
from doccheck.page import Block, Page, Value
from doccheck.places import Place, Problem
from doccheck.project import Project

if TYPE_CHECKING:
    from doccheck.run import PageRun  # imports torch: only where something runs

STATE = pytest.StashKey["State"]()


class Failed(Exception):
    """An item that failed, with all that a contributor needs to mend it."""

    def __init__(self, *failures: Failure | Problem) -> None:
        super().__init__("\n".join(map(str, failures)))


@dataclass
class State:
    """One session: which device and seed, and the runs of pages so far."""

    project: Project
    device: str
    seed: int
    selected: dict[Path, set[str]] = field(default_factory=dict)
    runs: dict[Path, PageRun] = field(default_factory=dict)

    def result(self, page: Page, step: Block | Value) -> None:
        """Run the page once, through its last selected step, and say what became of this one."""
        if page.path not in self.runs:
            from doccheck.run import run

            chosen = self.selected.get(page.path, set())
            indices = [i for i, known in enumerate(page.steps) if known.id in chosen or not chosen]
            self.runs[page.path] = run(self.project, page, self.device, self.seed, max(indices, default=None))
        done = self.runs[page.path]
        result = done.results[step.id]
        if result.failure is not None:
            raise Failed(result.failure)
        if result.outcome == "needs":
            raise _skipped(result.reason)
        if result.outcome == "not-run":
            culprit = next((id for id, other in done.results.items() if other.failure), None)
            if culprit is not None and culprit not in self.selected.get(page.path, {culprit}):
                raise Failed(done.results[culprit].failure)  # type: ignore[arg-type]
            raise _skipped(f"not run: {result.reason}")


def _skipped(reason: str) -> BaseException:
    """A skip that pytest lists with the line of the page, not with ours."""
    return pytest.skip.Exception(reason, _use_item_location=True)


class _Pages(Sybil):
    """Items are named by what they check, so that ids survive edits above them."""

    def identify(self, example: Example) -> str:
        return str(example.parsed[0])


class _Text(Document):
    """A document of any encoding: what is wrong with it is said by its items, and stops nothing."""

    @classmethod
    def parse(cls, path: str, *parsers: Callable[[Document], Any], encoding: str = "utf-8") -> Document:
        text = Path(path).read_bytes().decode("utf-8-sig", errors="replace")
        document = cls(text.replace("\r\n", "\n").replace("\r", "\n"), path)
        for parser in parsers:
            for region in parser(document):
                document.regions.append((region.start, region))  # `add` turns those with the same start around
        return document


def _page_regions(state: State, document: Document) -> Iterator[Region]:
    page = checks.load(state.project, Path(document.path))
    starts = [0]
    for line in document.text.split("\n"):
        starts.append(starts[-1] + len(line) + 1)

    def offset(place: Place) -> int:
        return starts[place.line - 1] if place.path == page.name else 0

    last = 0  # what an included file brings stands where the page was before it
    yield Region(0, 0, ("page", None), lambda example: _raise(checks.page_problems(state.project, page)))
    for step in page.steps:
        last = max(last, offset(step.place))
        yield Region(last, last, (step.id, step), lambda example: state.result(page, example.parsed[1]))


def _snippet_regions(state: State, document: Document) -> Iterator[Region]:
    path = Path(document.path)
    for name, check in checks.snippet_checks(state.project, path):
        yield Region(0, 0, (name, None), partial(_check, check))
    try:
        found = list(checks.docstrings.find(state.project, path))
    except (SyntaxError, UnicodeDecodeError):
        return  # said by the `syntax` item
    for docstring in found:
        yield Region(0, 0, (docstring.name, docstring), lambda example: _docstring(state, path, example.parsed[1]))


def _check(check: Callable[[], list[Problem]], example: Example) -> None:
    _raise(check())


def _docstring(state: State, path: Path, docstring: Docstring) -> None:
    failure = run_docstring(state.project, path, docstring, state.device, state.seed)
    if failure is not None:
        raise Failed(failure)


def _raise(problems: list[Problem]) -> None:
    if problems:
        raise Failed(*problems)


class _Report(TerminalRepr):
    """The failure, and nothing of the machinery."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.reprcrash = type("Crash", (), {"message": text.split("\n")[0]})()  # for pytest's short summary

    def toterminal(self, tw: TerminalWriter) -> None:
        tw.line()
        for line in self.text.split("\n"):
            tw.line(line, red=line.lstrip().startswith("- "), green=line.lstrip().startswith("+ "))


class _Item(SybilItem):
    def reportinfo(self) -> tuple[Path, int | None, str]:
        # With the bare id as its name, pytest would show the dots of `page.md` as `::`.
        return self.path, self.example.line - 1, f"{self.nodeid}:"

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        if isinstance(excinfo.value, Failed):
            return _Report(str(excinfo.value))
        return super(SybilItem, self).repr_failure(excinfo, style)

    def _traceback_filter(self, excinfo: pytest.ExceptionInfo[BaseException]) -> Any:
        return excinfo.traceback


class _File(SybilFile):
    def collect(self) -> Iterator[_Item]:
        for sybil in self.sybils:
            document = sybil.parse(self.path)
            self.documents.append(document)
            for example in document.examples():
                yield _Item.from_parent(self, sybil=sybil, example=example)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("doccheck")
    group.addoption("--device", choices=["cpu", "cuda"], default="cpu", help="where the pages run")
    group.addoption("--seed", type=int, default=None, help="repeat a run: every page draws its own seed from this one")


def pytest_configure(config: pytest.Config) -> None:
    seed = config.getoption("--seed")
    config.stash[STATE] = State(
        Project.load(config.rootpath),
        config.getoption("--device"),
        secrets.randbelow(2**31) if seed is None else seed,
    )


def pytest_sessionstart(session: pytest.Session) -> None:
    if session.config.stash[STATE].device == "cuda":
        import torch

        if not torch.cuda.is_available():
            message = f"torch {torch.__version__} sees no CUDA device; run this on a machine with an NVIDIA GPU."
            pytest.exit(message, returncode=3)


def pytest_report_header(config: pytest.Config) -> str:
    state = config.stash[STATE]
    return f"doccheck: device {state.device}, seed {state.seed}"


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> _File | None:
    state = parent.config.stash[STATE]
    if state.project.is_page(file_path):
        regions = _page_regions
    elif state.project.is_snippet(file_path):
        regions = _snippet_regions
    else:
        return None
    sybil = _Pages([partial(regions, state)], patterns=["*"], document_types={None: _Text, ".py": _Text})
    return _File.from_parent(parent, path=file_path, sybils=[sybil])


def pytest_collection_finish(session: pytest.Session) -> None:
    state = session.config.stash[STATE]
    for item in session.items:
        if isinstance(item, _Item) and isinstance(item.example.parsed[1], Block | Value):
            state.selected.setdefault(item.path, set()).add(item.name)


def pytest_sessionfinish(session: pytest.Session) -> None:
    state = session.config.stash[STATE]
    if state.runs:
        from doccheck import record

        record.update(state.project, state.device, list(state.runs.values()))


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    state = config.stash[STATE]
    varying = [block for done in state.runs.values() for block in done.page.blocks if block.varies]
    if varying:
        terminalreporter.section(f"{len(varying)} outputs vary from run to run", sep="-")
        for block in varying:
            terminalreporter.line(f"{block.place}: {block.varies}")
    if any(done.first_failure for done in state.runs.values()):
        terminalreporter.line(f"pages drew their numbers from seed {state.seed}; repeat with: --seed {state.seed}")
