"""Run: a page's blocks, in order, in one module that is its script."""

from __future__ import annotations
import __future__ as futures

import builtins
import hashlib
import os
import pdb
import signal
import sys
import tempfile
import threading
import time
import traceback
from concurrent.futures import thread as pools
from dataclasses import dataclass, field
from pathlib import Path
from shlex import quote
from types import CodeType, FrameType, ModuleType
from typing import Any

from doccheck import console, names, outputs, script, transcripts
from doccheck.capture import Written
from doccheck.failures import Failure, Reader
from doccheck.isolation import fresh
from doccheck.limits import InputAsked, NoInput, ProcessEnd, TooLong, kept_alive, limited, no_breakpoint
from doccheck.page import Block, Page, Value
from doccheck.places import Place, Problem
from doccheck.project import Project
from doccheck.transcripts import Output

FUTURE_FLAGS = 0
for _name in futures.all_feature_names:
    FUTURE_FLAGS |= getattr(futures, _name).compiler_flag
THREAD_SECONDS = 2.0  # for a thread that is about to end
FORBIDDEN_CALLS = {"set_num_interop_threads": "it cannot be undone for the pages that follow"}


@dataclass
class Result:
    """What became of a block or value."""

    outcome: str = "not-run"  # ran, raised (as shown), needs, failed, not-run
    reason: str = ""
    failure: Failure | None = None
    output: Output = field(default_factory=Output)
    value: Any = None
    seconds: float = 0.0


@dataclass
class PageRun:
    """The results of one run of a page, by the id of the step."""

    page: Page
    device: str
    seed: int
    results: dict[str, Result] = field(default_factory=dict)
    whole: bool = False  # every step was asked to run

    @property
    def first_failure(self) -> Failure | None:
        return next((result.failure for result in self.results.values() if result.failure), None)


def page_seed(base: int, name: str) -> int:
    """The seed of a page in a run: other pages do not change it."""
    return int.from_bytes(hashlib.sha256(f"{base}:{name}".encode()).digest()[:4], "big")


def run(
    project: Project, page: Page, device: str, base_seed: int, last: int | None = None, mend: bool = False
) -> PageRun:
    """Run the steps of a page up to index `last` (all by default). After a failure the rest is not run.

    With `mend`, a wrong transcript or value does not stop the page: it is about to be rewritten.
    """
    steps = page.steps if last is None else page.steps[: last + 1]
    done = PageRun(page, device, page_seed(base_seed, page.name), whole=len(steps) == len(page.steps))
    if page.fatal:
        done.results = {step.id: Result(reason=f"{page.fatal[0].place} comes first") for step in steps}
        return done
    edition = script.write(page)
    with tempfile.TemporaryDirectory(prefix="script-") as folder:
        path = Path(folder).resolve() / (Path(page.name).stem + ".py")
        with fresh(device, done.seed, [str(path)]):
            _Runner(project, page, device, edition, path).run(steps, done.results, mend)
    return done


class _Runner:
    """One page, while it runs."""

    def __init__(self, project: Project, page: Page, device: str, edition: script.Script, path: Path) -> None:
        self.project = project
        self.page = page
        self.device = device
        self.edition = edition
        self.path = path
        self.reader = Reader(project, edition, path)
        self.place = Place(page.name, 1)  # of the step that runs
        self.written = Written()
        self.lost: list[Failure] = []  # errors that no block can catch: in threads and finalisers
        self.flags = 0
        self.interrupted = False

    def module(self) -> ModuleType:
        """An empty `__main__` whose file is the page's script."""
        module = ModuleType("__main__")
        module.__file__ = str(self.path)
        vars(module)["__builtins__"] = builtins
        return module

    def run(self, steps: list[Block | Value], results: dict[str, Result], mend: bool) -> None:
        sys.path.insert(0, str(self.project.root))
        sys.stdin = NoInput()
        sys.breakpointhook = pdb.set_trace = no_breakpoint
        sys.unraisablehook = threading.excepthook = self._lose
        for name in ("_exit", "execv", "execve", "abort"):
            setattr(os, name, kept_alive(name, getattr(os, name)))
        process, threads = os.getpid(), set(threading.enumerate())
        main = self.module()
        sys.modules["__main__"] = main
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, self._interrupt)
        failed: Failure | None = None
        for step in steps:
            if failed is not None:
                results[step.id] = Result(reason=f"{failed.place} failed first")
                continue
            start = time.perf_counter()
            result = self._step(step, main)
            if os.getpid() != process:
                os._exit(0)  # a child that the block forked, and that has run to the block's end
            if step is self.page.steps[-1] and result.failure is None:
                result.failure = self._unfinished(step, threads)
                result.outcome = "failed" if result.failure else result.outcome
            result.seconds = time.perf_counter() - start
            results[step.id] = result
            if result.failure is not None and not (mend and result.failure.mendable):
                failed = result.failure
            if self.interrupted:
                raise KeyboardInterrupt
        main.__dict__.clear()

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        self.interrupted = True
        raise KeyboardInterrupt

    def _lose(self, lost: Any) -> None:
        """Take an error of a thread or a finaliser, which Python would print and forget."""
        if lost.exc_value is None or isinstance(lost.exc_value, SystemExit):
            return
        failure = self.reader.failure(lost.exc_value, self.place)
        failure.message = f"an error that nothing catches, in a thread or a finaliser: {failure.message}"
        failure.hint = "mend the code; it must not fail where the reader does not see it"
        self.lost.append(failure)

    def _unfinished(self, step: Block | Value, known: set[threading.Thread]) -> Failure | None:
        """A thread that would keep the process waiting after the last page."""
        for thread in set(threading.enumerate()) - known:
            if thread.daemon or thread in pools._threads_queues:  # those of a pool end with the process
                continue
            thread.join(THREAD_SECONDS)
            if thread.is_alive():
                message = f"a thread of this page still runs at its end: {thread.name}"
                return Failure(step.place, message, [], "join it where it was started, or make it with daemon=True")
        return None

    def _step(self, step: Block | Value, main: ModuleType) -> Result:
        self.place = step.place
        if step.problems:
            return Result("failed", failure=Failure.of(step.problems[0]))
        if isinstance(step, Value):
            return self._value(step, main)
        if step.needs is not None and (missing := step.needs.missing(self.device)):
            return Result("needs", f"needs {missing}: {step.needs.reason}")
        result = self._console(step) if step.kind == "console" else self._python(step, main)
        if result.failure is None:
            result.failure = transcripts.check(step, result.output, self.device)
        if result.failure is None and step.alone:
            result.failure = self._alone(step, main)
        if result.failure is None and self.lost:
            result.failure = self.lost[0]
        result.outcome = "failed" if result.failure else "raised" if result.output.error else "ran"
        return result

    def _console(self, block: Block) -> Result:
        output, problem = console.run(self.project, block)
        return Result(output=output, failure=Failure.of(problem) if problem else None)

    def _python(self, block: Block, main: ModuleType) -> Result:
        result = Result()
        try:
            code = self._compile(block)
        except SyntaxError as error:
            result.failure = self.reader.failure(error, block.place)
            return result
        if problem := self._refused(block, code):
            result.failure = Failure.of(problem)
            return result
        self.path.write_text(self.edition.through(block.id), "utf-8")
        if block.file:  # beside the page, so that the commands below find it
            Path(block.file).parent.mkdir(parents=True, exist_ok=True)
            Path(block.file).write_text(f"{block.fence.text}\n", "utf-8")
        with self.written.recording():
            try:
                with limited():
                    exec(code, vars(main))
            except (KeyboardInterrupt, SystemExit, InputAsked, ProcessEnd, TooLong) as error:
                if self.interrupted:
                    raise
                result.failure = self.reader.failure(error, block.place)
                name = f"{type(error).__module__}.{type(error).__qualname__}: "  # of ours: nothing a reader knows
                result.failure.message = result.failure.message.replace(name, "")
                result.failure.hint = "a block must run to its end by itself: no exit, no interrupt, no input"
            except BaseException as error:
                result.output.error = outputs.TRIGGERED.sub("", self.reader.plain(_said(error))).split("\n")
                result.output.raised = self.reader.failure(error, block.place)
        result.output.printed = self.written.getvalue().replace(f'File "{self.path}"', f'File "{self.path.name}"')
        if result.output.raised is not None and not transcripts.expects(block, result.output.error):
            result.failure = result.output.raised
        return result

    def _compile(self, block: Block) -> CodeType:
        """The block's code at its own lines of the script, with the page's future imports and no others."""
        source = "\n" * (self.edition.first[block.id] - 1) + block.fence.text + "\n"
        code: CodeType = compile(source, str(self.path), "exec", self.flags, dont_inherit=True)
        if block is self.page.blocks[0]:
            self.flags = code.co_flags & FUTURE_FLAGS
        return code

    def _refused(self, block: Block, code: CodeType) -> Problem | None:
        if block is not self.page.blocks[0] and code.co_flags & FUTURE_FLAGS & ~self.flags:
            hint = "include a section without it, or put it in the first block of the page"
            return Problem(block.place, "a `from __future__` import below the first block", hint)
        for _, name, line in names.uses(code):
            if name in FORBIDDEN_CALLS:
                place = self.edition.places.get(line, block.place)
                return Problem(place, f"{name} is not for a page: {FORBIDDEN_CALLS[name]}", "leave it out")
        return None

    def _alone(self, block: Block, main: ModuleType) -> Failure | None:
        """Under "Copy this": the block by itself must run, and name nothing that it does not bring along."""
        module = self.module()
        sys.modules["__main__"] = module
        hint = "what is copied must bring its own imports: put them inside the section"
        try:
            code = self._compile(block)
            with self.written.recording(), limited():
                exec(code, vars(module))
        except BaseException as error:
            if self.interrupted:
                raise
            failure = self.reader.failure(error, block.place)
            failure.message = f"does not run in an empty module: {failure.message}"
            failure.hint = hint
            return failure
        finally:
            sys.modules["__main__"] = main
        for name, line in sorted(names.outside(code).items(), key=lambda use: use[1]):
            if name not in vars(module) and not hasattr(builtins, name):
                place = self.edition.places.get(line, block.place)
                return Failure(place, f"uses '{name}' and does not define or import it", [], hint)
        return None

    def _value(self, value: Value, main: ModuleType) -> Result:
        try:
            with self.written.recording(), limited():
                found = eval(compile(value.expression, "value", "eval", dont_inherit=True), vars(main))
                same = outputs.same_value(value.text, found)
                new, said = outputs.value_text(value.text, found), outputs.brief(str(found))
        except BaseException as error:
            if self.interrupted:
                raise
            failure = self.reader.failure(error, value.place)  # in a snippet or a block above, if it failed there
            called = [f"called from {value.place}: {value.expression}"] if failure.place != value.place else []
            message = f"data-value '{value.expression}' fails: {failure.message}"
            hint = failure.hint if called else "use names from the blocks above"
            return Result("failed", failure=Failure(failure.place, message, failure.details + called, hint))
        if self.written.getvalue():
            message = f"data-value '{value.expression}' prints or warns"
            return Result("failed", failure=Failure(value.place, message, [], "compute it in a block, print nothing"))
        if not same:
            failure = Failure(value.place, f"the page says {value.text}, and {value.expression} is {said}")
            failure.mendable = bool(new.strip()) and not set(new) & set("`\n\r\t") and len(new) <= outputs.WIDTH
            failure.hint = f"write {new}, or run: nox -s update -- {quote(self.page.name)}"
            if not failure.mendable:
                failure.hint = "show it in a transcript, or name something that fits into a line of text"
            return Result("failed", failure=failure, value=found)
        return Result("ran", value=found)


def _said(error: BaseException) -> str:
    return "".join(traceback.format_exception_only(error)).rstrip("\n")
