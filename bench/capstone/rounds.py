"""Rounds: methods timed in turn, so that what slows the machine for a while slows all of them."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")
Stopwatch = Callable[[], float]  # does its work once, returns the seconds that count


@dataclass(frozen=True)
class Spread:
    """Quartiles: half of the values lie from low to high."""

    low: float
    median: float
    high: float


def spread(values: Sequence[float]) -> Spread:
    if len(values) == 1:
        return Spread(values[0], values[0], values[0])
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return Spread(low, middle, high)


def timed(action: Callable[[], object], times: int = 1) -> Stopwatch:
    """The seconds that one action takes, out of `times` in a row."""

    def watch() -> float:
        start = time.perf_counter()
        for _ in range(times):
            action()
        return (time.perf_counter() - start) / times

    return watch


def timed_on_new(make: Callable[[], T], action: Callable[[T], object]) -> Stopwatch:
    """The seconds of an action on something that is made for it and thrown away, both untimed."""

    def watch() -> float:
        made = make()
        start = time.perf_counter()
        kept = action(made)
        took = time.perf_counter() - start
        del kept, made
        return took

    return watch


def interleaved(methods: Mapping[str, Stopwatch], rounds: int) -> dict[str, list[float]]:
    """Seconds by method, one for each round, after one round that does not count.

    Each round starts with another method: A B C, B C A, C A B, …
    """
    names = list(methods)
    for name in names:
        methods[name]()
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for k in range(rounds):
        turn = k % len(names)
        for name in names[turn:] + names[:turn]:
            gc.collect()  # the rubbish of one method is not the next one's time
            seconds[name].append(methods[name]())
    return seconds


def ratios(seconds: Mapping[str, Sequence[float]], base: str) -> dict[str, Spread]:
    """Quartiles, over the rounds, of a method's seconds divided by those of the base in the same round."""
    return {
        name: spread([own / unit for own, unit in zip(values, seconds[base], strict=True)])
        for name, values in seconds.items()
    }
