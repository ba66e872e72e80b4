"""Gallery: the figure functions of `snippets/figures`, by page and name, called once for each state of the source."""

import difflib
import functools
import hashlib
import importlib
import inspect
import json
import os
import sys
import traceback
from collections.abc import Callable
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import ModuleType
from typing import Any

from publish.art import NotArt, Panel, Sheet, Step, steps_of

ROOT = Path(__file__).resolve().parents[1]
SNIPPETS = ROOT / "snippets"
SOURCE, QUIZ = SNIPPETS / "figures", SNIPPETS / "quiz"
KEPT = ROOT / ".cache" / "figures"  # outside docs/ and snippets/, where writing would start the next build
PACKAGE = "snippets.figures"
RETURNS = ("Drawing", "Graph", "Picture", "Figure", "Player")

_state = {"digest": ""}
_drawn: dict[tuple[str, str, str], tuple[Step, ...]] = {}


class FigureError(Exception):
    """There is no such figure, or it failed: one line, with what to do."""


def digest() -> str:
    """Of all snippets: figures import each other, and a lab's figure imports the lab."""
    found = hashlib.sha256()
    for path in sorted(SNIPPETS.rglob("*.py")):
        if QUIZ not in path.parents:
            found.update(path.name.encode() + path.read_bytes())
    return found.hexdigest()


def fresh() -> str:
    """The digest of the sources, with modules of an older state forgotten."""
    now = digest()
    if _state["digest"] not in ("", now):
        family = PACKAGE.partition(".")[0]
        for name in [name for name in sys.modules if name.startswith(f"{family}.")]:
            if not name.startswith(f"{family}.quiz"):  # publish.quiz looks after its own
                del sys.modules[name]
        importlib.invalidate_caches()
        _drawn.clear()
    _state["digest"] = now
    return now


def functions(module: ModuleType) -> dict[str, Callable[[], Any]]:
    """The figure functions of a module: public, without arguments, and said to return something that can be drawn."""
    found = {}
    for name, thing in vars(module).items():
        if name.startswith("_") or not inspect.isfunction(inspect.unwrap(thing) if callable(thing) else thing):
            continue
        returns = inspect.signature(thing).return_annotation
        returns = returns if isinstance(returns, str) else getattr(returns, "__name__", "")
        drawable = returns.rpartition(".")[2] in RETURNS and not inspect.signature(thing).parameters
        if drawable and inspect.unwrap(thing).__module__ == module.__name__:
            found[name] = thing
    return found


def kind_of(function: Callable[[], Any]) -> str:
    returns = inspect.signature(function).return_annotation
    return "player" if str(getattr(returns, "__name__", returns)).endswith("Player") else "figure"


def pages() -> list[str]:
    """Modules that a page may name. Which of them have figures is known once they are imported."""
    return sorted(path.stem for path in SOURCE.glob("*.py") if path.stem != "__init__")


def module(page: str) -> ModuleType:
    name = page.replace("-", "_")
    if name not in pages():
        raise FigureError(f"there is no {relative(str(SOURCE))}/{name}.py{meant(name, pages())}")
    if str(ROOT) not in sys.path:
        sys.path.insert(0, str(ROOT))  # MkDocs takes away what it added for the hooks
    try:
        return importlib.import_module(f"{PACKAGE}.{name}")
    except (Exception, SystemExit) as error:
        raise FigureError(f"{relative(str(SOURCE))}/{name}.py cannot be imported: {told(error)}") from error


def find(kind: str, page: str, name: str) -> Callable[[], Any]:
    """The function behind `figure:page/name`. Raises FigureError."""
    fresh()
    known = functions(module(page))
    function = known.get(name.replace("-", "_"))
    if function is None:
        file = f"{relative(str(SOURCE))}/{page.replace('-', '_')}.py"
        raise FigureError(f"{file} has none of that name{meant(name, [*known])}")
    if kind_of(function) != kind:
        raise FigureError(f"it is a {kind_of(function)}: write {kind_of(function)}:{page}/{name}")
    return function


def show(kind: str, page: str, name: str) -> tuple[Step, ...]:
    """The frames of a player, or the one picture of a figure. Raises FigureError."""
    function = find(kind, page, name)
    key = (page.replace("-", "_"), name.replace("-", "_"), _state["digest"])
    if key not in _drawn:
        kept = KEPT / f"{key[0]}-{key[1]}-{measure_key()[:16]}.json" if getattr(function, "measured", False) else None
        if kept and kept.exists():
            _drawn[key] = thaw(kept.read_text(encoding="utf-8"))
        else:
            _drawn[key] = drawn(function)
            if kept:
                kept.parent.mkdir(parents=True, exist_ok=True)
                part = kept.with_suffix(f".{os.getpid()}.part")
                part.write_text(json.dumps([asdict(step) for step in _drawn[key]]), encoding="utf-8")
                part.replace(kept)
    return _drawn[key]


def drawn(function: Callable[[], Any]) -> tuple[Step, ...]:
    try:
        return steps_of(function())
    except NotArt as error:
        raise FigureError(f"{place(inspect.unwrap(function))}: {error}") from error
    except (Exception, SystemExit) as error:
        raise FigureError(told(error)) from error


def measure_key() -> str:
    """What a measured figure depends on: its sources, how it is drawn, and torch."""
    found = hashlib.sha256(_state["digest"].encode())
    for path in sorted(Path(__file__).parent.glob("*.py")):
        found.update(path.read_bytes())
    try:
        found.update(version("torch").encode())
    except PackageNotFoundError:
        found.update(b"no torch")
    return found.hexdigest()


def thaw(text: str) -> tuple[Step, ...]:
    def sheet(kept: dict[str, Any] | None) -> Sheet | None:
        return Sheet(**kept) if kept else None

    steps = []
    for kept in json.loads(text):
        panels = tuple(Panel(Sheet(**each["wide"]), sheet(each["tall"])) for each in kept.pop("panels"))
        steps.append(Step(panels, **kept))
    return tuple(steps)


def told(error: BaseException) -> str:
    """`snippets/figures/vjp.py:41: ZeroDivisionError: division by zero`: the innermost line of ours."""
    said = "".join(traceback.format_exception_only(error)).strip().splitlines()[-1]
    if isinstance(error, SyntaxError) and error.filename:
        return f"{relative(error.filename)}:{error.lineno}: {said}"
    lines = [
        f"{relative(frame.filename)}:{frame.lineno}"
        for frame in traceback.extract_tb(error.__traceback__)
        if Path(frame.filename).is_relative_to(SNIPPETS)
    ]
    return f"{lines[-1]}: {said}" if lines else said


def place(function: Callable[..., Any]) -> str:
    return f"{relative(function.__code__.co_filename)}:{function.__code__.co_firstlineno}"


def relative(file: str) -> str:
    path = Path(file)
    return path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else path.name


@functools.cache
def _spelled(name: str, known: tuple[str, ...]) -> str:
    near = difflib.get_close_matches(name, known, 1)
    return f"; did you mean {near[0]}?" if near else ""


def meant(name: str, known: list[str]) -> str:
    """What may have been meant, and what there is."""
    near = _spelled(name.replace("-", "_"), tuple(known))
    there = ", ".join(each.replace("_", "-") for each in known) or "none"
    return near or f"; there are: {there}"
