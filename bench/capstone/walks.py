"""Walks: how long it takes to read the graph behind a loss, and how that grows.

All of it runs in a thread with a large stack, because on torch 2.13 a deep graph that Python has walked is freed by
calls within calls. Each measurement walks a graph that nobody has walked before.
"""

from __future__ import annotations

import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from bench.capstone import models, record, rivals
from bench.capstone.rounds import Stopwatch, interleaved, timed_on_new
from snippets.capstone.graph import GraphReport, read_graph

STACK = 512 << 20  # bytes
BASE, TOOL, VIZ = "torch: nodes counted", "tool, read_graph()", "torchviz, make_dot()"
COUNTS = (1_000, 10_000, 20_000, 100_000)


def chain(operations: int) -> Tensor:
    """A graph of so many operations in a row, and one leaf."""
    y = torch.ones((), requires_grad=True)
    for _ in range(operations):
        y = y + 1
    return y


def walk(output: Tensor) -> GraphReport:
    return read_graph(output, max_depth=1_000_000)


def count(output: Tensor) -> int:
    """The breadth-first loop that torch has in `torch.autograd.graph`, written out."""
    roots: list[Any] = [output.grad_fn]
    seen = set(roots)
    waiting = deque(roots)
    while waiting:
        for child, _ in waiting.popleft().next_functions:
            if child is not None and child not in seen:
                seen.add(child)
                waiting.append(child)
    return len(seen)


def compare(make: Callable[[], Tensor], rounds: int) -> record.Table:
    """The tool, torch's own loop and torchviz on one graph."""
    watches: dict[str, Stopwatch] = {BASE: timed_on_new(make, count), TOOL: timed_on_new(make, walk)}
    note = "not installed"
    if "torchviz" not in rivals.missing():
        from torchviz import make_dot

        note = _as_it_comes(make, make_dot)
        watches[VIZ] = timed_on_new(make, make_dot)
    if walk(make()).nodes != count(make()):
        raise RuntimeError("the tool and torch's own loop count different nodes")
    with _deep_recursion():
        return record.table(BASE, interleaved(watches, rounds), {VIZ: {"note": note}})


def growth(rounds: int) -> record.Table:
    """Seconds for one node of chains of 1,000 to 100,000 operations."""

    def of_one(operations: int) -> Stopwatch:
        whole = timed_on_new(lambda: chain(operations), walk)
        return lambda: whole() / operations

    seconds = interleaved({f"{n:,}": of_one(n) for n in COUNTS}, rounds)
    return record.table(f"{COUNTS[0]:,}", seconds)


def measure(rounds: int) -> dict[str, record.Table]:
    """All tables of this module, made in a thread with a large stack."""
    found: dict[str, record.Table] = {}
    raised: list[Exception] = []

    def job() -> None:
        try:
            found["walk-gpt"] = compare(models.gpt().loss, rounds)
            found["walk-chain"] = compare(lambda: chain(20_000), rounds)
            found["walk-growth"] = growth(rounds)
        except Exception as error:
            raised.append(error)

    before = threading.stack_size(STACK)
    try:
        thread = threading.Thread(target=job)
        thread.start()
    finally:
        threading.stack_size(before)
    thread.join()
    if raised:
        raise raised[0]
    return found


@contextmanager
def _deep_recursion() -> Iterator[None]:
    """torchviz calls itself once for each node on the way down."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(1_000_000)
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


def _as_it_comes(make: Callable[[], Tensor], make_dot: Callable[[Tensor], object]) -> str:
    try:
        make_dot(make())
    except RecursionError:
        return "RecursionError as it comes; timed with a higher recursion limit"
    return ""
