"""Warm: a command runs in a child of a process that has imported torch, and so starts in a tenth of the time.

A child is a process of its own, with its own arguments, folder, environment and output: nothing that it does reaches
another one. Where there is no safe fork, or no torch, a new interpreter starts for each command.

The file is also the program of that process, so it imports the standard library alone. It reads a request from each
line of its input, and answers with the number of the child, then with its exit status.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import runpy
import select
import signal
import subprocess
import sys
import tempfile
import traceback
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn


@dataclass(frozen=True)
class Request:
    """A module to run as `python -m` does, or a function of it to call as an installed command does."""

    module: str
    function: str  # empty: the module itself
    arguments: list[str]  # as in sys.argv
    path: list[str]  # what Python finds modules in first
    folder: str
    environment: dict[str, str]

    def run(self, timeout: float) -> tuple[int, str]:
        """Exit status, and what was printed to stdout and stderr. Raises subprocess.TimeoutExpired."""
        with tempfile.NamedTemporaryFile() as printed:
            process = server()
            status = self._cold(printed, timeout) if process is None else self._warm(process, printed.name, timeout)
            return status, Path(printed.name).read_text("utf-8", errors="replace")

    def _warm(self, process: subprocess.Popen[bytes], printed: str, timeout: float) -> int:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(json.dumps({**asdict(self), "printed": printed}).encode() + b"\n")
        process.stdin.flush()
        child = int(process.stdout.readline())
        answered, _, _ = select.select([process.stdout], [], [], timeout)
        if not answered:
            os.killpg(child, signal.SIGKILL)
        status = int(process.stdout.readline())
        if not answered:
            raise subprocess.TimeoutExpired(self.arguments, timeout)
        return status

    def _cold(self, printed: Any, timeout: float) -> int:
        if self.function:
            code = f"import sys; from {self.module} import {self.function} as main; "
            start = ["-c", f"{code}sys.argv[0] = {self.arguments[0]!r}; sys.exit(main())"]
        else:
            start = ["-m", self.module]
        path = os.pathsep.join(self.path)
        return subprocess.run(
            [sys.executable, *start, *self.arguments[1:]],
            stdout=printed,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            cwd=self.folder,
            env={**self.environment, "PYTHONPATH": path},
            timeout=timeout,
        ).returncode


@cache
def server() -> subprocess.Popen[bytes] | None:
    """The process that forks, one for a whole run of tests; None where there cannot be one."""
    if sys.platform != "linux":
        return None
    process = subprocess.Popen(
        [sys.executable, "-P", __file__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # Ctrl-C is for the tests
    )
    assert process.stdin is not None and process.stdout is not None
    if process.stdout.readline() != b"ready\n":
        process.wait()
        return None
    atexit.register(process.stdin.close)  # it ends at the end of its input
    return process


def serve() -> None:
    importlib.import_module("torch")
    importlib.import_module("torch._dynamo")  # torch imports it under a dispatch mode: a second for each command
    gc.freeze()  # what is there now is shared by all children
    print("ready", flush=True)
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            _become(json.loads(line))
        print(child, flush=True)
        _, ended = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(ended), flush=True)


def _become(request: dict[str, Any]) -> NoReturn:
    """Be a new interpreter as far as a program can tell, run the request, and end."""
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDONLY)
    printed = os.open(request["printed"], os.O_WRONLY | os.O_APPEND)
    for new, old in ((nothing, 0), (printed, 1), (printed, 2)):
        os.dup2(new, old)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.path[:0] = request["path"]
    sys.argv[:] = request["arguments"]
    sys.modules["__main__"] = ModuleType("__main__")
    if "numpy.random" in sys.modules:
        sys.modules["numpy.random"].seed()  # Python's own draws anew after a fork
    status = _status(request["module"], request["function"])
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(status)


def _status(module: str, function: str) -> int:
    try:
        if function:
            sys.exit(getattr(importlib.import_module(module), function)())
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return (end.code or 0) & 0xFF
        print(end.code, file=sys.stderr)
        return 1
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


if __name__ == "__main__":
    serve()
