"""Capture: what a block writes to `sys.stdout` and what it warns of, as one text."""

from __future__ import annotations

import io
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO

from doccheck import outputs


class _Bytes(io.BytesIO):
    """What was written can be read after a page closed its `sys.stdout`."""

    def close(self) -> None:
        pass


class Written:
    """One stream for all of a page: what keeps it, such as a log handler, writes into the block that runs."""

    def __init__(self) -> None:
        self.bytes = _Bytes()
        self.stdout: TextIO = io.TextIOWrapper(self.bytes, "utf-8", newline="\n", write_through=True)
        self.show: Callable[..., None] = self._show

    def _show(self, message: Any, category: type[Warning], *_: Any, **__: Any) -> None:
        self.warn(f"{category.__name__}: {outputs.TRIGGERED.sub('', str(message))}")

    def warn(self, text: str) -> None:
        if self.bytes.getvalue()[-1:] not in (b"", b"\n"):
            self.bytes.write(b"\n")
        self.bytes.write((text.rstrip() + "\n").encode("utf-8", errors="replace"))

    def getvalue(self) -> str:
        return self.bytes.getvalue().decode("utf-8", errors="replace")

    @contextmanager
    def recording(self) -> Iterator[None]:
        """What goes to `sys.stdout` and what warns, in the order in which it happens; what was there before is gone."""
        before: tuple[TextIO, Any] = sys.stdout, warnings.showwarning
        self.bytes.seek(0)
        self.bytes.truncate()
        sys.stdout, warnings.showwarning = self.stdout, self.show
        try:
            yield
        finally:
            self.stdout, self.show = sys.stdout, warnings.showwarning  # a page may put its own there, for all of it
            sys.stdout, warnings.showwarning = before
