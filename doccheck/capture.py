"""Capture: what a block writes to `sys.stdout` and what it warns of, as one text."""

from __future__ import annotations

import io
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO

from doccheck import outputs


class Written:
    def __init__(self) -> None:
        self.bytes = io.BytesIO()
        self.stream = io.TextIOWrapper(self.bytes, "utf-8", newline="\n", write_through=True)

    def warn(self, text: str) -> None:
        if self.bytes.getvalue()[-1:] not in (b"", b"\n"):
            self.stream.write("\n")
        self.stream.write(text.rstrip() + "\n")

    def getvalue(self) -> str:
        return self.bytes.getvalue().decode("utf-8", errors="replace")


@contextmanager
def recorded() -> Iterator[Written]:
    """What goes to `sys.stdout` and what warns, in the order in which it happens."""
    before: TextIO = sys.stdout
    show = warnings.showwarning
    written = Written()
    sys.stdout = written.stream

    def showwarning(message: Any, category: type[Warning], *_: Any, **__: Any) -> None:
        written.warn(f"{category.__name__}: {outputs.TRIGGERED.sub('', str(message))}")

    warnings.showwarning = showwarning
    try:
        yield written
    finally:
        sys.stdout = before
        warnings.showwarning = show
