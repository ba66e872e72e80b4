"""Limits: what a block may not do to the people and pages that wait behind it."""

from __future__ import annotations

import io
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

BLOCK_SECONDS = 60.0  # a page has a budget of five
AGAIN_SECONDS = 1.0  # a block that catches everything is stopped again


class TooLong(BaseException):
    """A block that would keep everybody waiting."""


class ProcessEnd(BaseException):
    """A block that would end the run, and with it every page that is left."""


class InputAsked(BaseException):
    """No `except Exception` of a page may hide that it asked."""


class NoInput(io.StringIO):
    """A page runs without a person at the keyboard."""

    def read(self, *_: Any) -> str:
        raise InputAsked("a page cannot ask for input")

    readline = read  # type: ignore[assignment]


def no_breakpoint(*_: Any, **__: Any) -> None:
    raise InputAsked("a page cannot stop at a breakpoint")


def kept_alive(name: str, end: Callable[..., Any]) -> Callable[..., Any]:
    """`os._exit` and its like, for the children of this process only: pytest would end with it, and report nothing."""
    process = os.getpid()

    def call(*arguments: Any) -> Any:
        if os.getpid() == process:
            raise ProcessEnd(f"os.{name} ends the process")
        return end(*arguments)

    return call


@contextmanager
def limited(seconds: float = 0) -> Iterator[None]:
    """Stop a block that hangs, say in a pool whose workers cannot start. Only where the system has alarms."""
    seconds = seconds or BLOCK_SECONDS
    if not hasattr(signal, "SIGALRM") or threading.current_thread() is not threading.main_thread():
        yield
        return

    late = TooLong(f"the block ran for more than {seconds:g} s")
    stopped = False

    def stop(number: int, frame: FrameType | None) -> None:
        nonlocal stopped
        stopped = True
        raise late

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds, AGAIN_SECONDS)
    try:
        yield
        if stopped:  # and the block caught it
            raise late
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
