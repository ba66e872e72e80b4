"""A command in a warm child: the same status and output as in a new interpreter, and nothing left for the next one."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from doccheck import warm
from doccheck.warm import Request

PROGRAMS = {
    "prints": "print('one', len(sys.argv), sys.argv[1:])",
    "prints-to-both": "print('out', flush=True); print('err', file=sys.stderr)",
    "writes-past-python": "os.write(1, b'raw '); subprocess.run(['echo', 'child'])",
    "ends-with-a-status": "print('no'); sys.exit(3)",
    "ends-with-a-text": "sys.exit('no such file')",
    "ends-well": "sys.exit()",
    "raises": "raise ValueError('bad')",
    "is-killed": "os.kill(os.getpid(), 9)",
    "reads-its-input": "print(repr(sys.stdin.read()))",
    "knows-where-it-is": "print(os.getcwd(), os.environ['COLOUR'], os.environ.get('PYTEST_CURRENT_TEST'))",
    "imports-from-its-folder": "import beside; print(beside.NAME)",
    "says-goodbye": "import atexit; atexit.register(print, 'bye')",
    "has-its-own-main": "print(__name__, sys.modules['__main__'].__dict__.get('serve'))",
    "computes": "import torch; print(torch.arange(6.).reshape(2, 3) @ torch.ones(3))",
    "runs-a-pool": "import torch; x = torch.ones(400, 400).requires_grad_(); (x @ x).sum().backward(); print(x.grad)",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "beside.py").write_text("NAME = 'beside'\n")
    return tmp_path


def request(folder: Path, code: str, function: bool = False) -> Request:
    head = "import os, subprocess, sys\n"
    body = f"def main():\n    {code}\n" if function else f"{code}\n"
    (folder / "program.py").write_text(head + body)
    environment = {"PATH": os.environ["PATH"], "COLOUR": "green"}
    words = ["program", "a", "b c"]
    return Request("program", "main" if function else "", words, [str(folder)], str(folder), environment)


def said(result: tuple[int, str]) -> tuple[int, str]:
    """A traceback begins with the frames of whoever ran the program."""
    status, text = result
    return status, text.strip().splitlines()[-1] if "Traceback" in text else text


@pytest.mark.parametrize("function", [False, True], ids=["module", "function"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_as_in_a_new_interpreter(name: str, function: bool, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = request(folder, PROGRAMS[name], function)
    if warm.server() is None:
        pytest.skip("no fork here")
    got = asked.run(60)
    monkeypatch.setattr(warm, "server", lambda: None)
    assert said(got) == said(asked.run(60))


def test_nothing_is_left_for_the_next_command(folder: Path) -> None:
    assert (
        request(folder, "import beside; beside.NAME = sys.argv[0] = os.environ['COLOUR'] = 'x'; os.chdir('/')").run(60)[
            0
        ]
        == 0
    )
    _, text = request(
        folder, "import beside; print(beside.NAME, os.environ['COLOUR'], os.getcwd() == sys.path[0])"
    ).run(60)
    assert text == "beside green True\n"
    (folder / "beside.py").write_text("NAME = 'edited'\n")  # as while a page is served
    assert request(folder, "import beside; print(beside.NAME)").run(60) == (0, "edited\n")


def test_two_commands_draw_different_numbers(folder: Path) -> None:
    code = "import random, numpy; print(random.random(), numpy.random.rand())"
    drawn = [request(folder, code).run(60)[1].split() for _ in range(2)]
    assert not set(drawn[0]) & set(drawn[1])


def test_a_command_without_an_end_is_stopped_and_the_next_one_runs(folder: Path) -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        request(folder, "import threading; threading.Event().wait()").run(1)
    assert request(folder, "print(1)").run(60) == (0, "1\n")
