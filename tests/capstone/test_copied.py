"""The folder, copied under another name into another project: it needs torch and the standard library alone."""

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "snippets" / "capstone"
PROJECT = """\
import torch
from torch import nn


def model():
    return nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1))


def batch():
    return torch.ones(3, 4), torch.zeros(3, 1)
"""
USE = """\
import sys

from my_project import batch, model
from tools.grad_debugger import AutogradDebuggerSuite
from tools.grad_debugger.monitor import monitor
from torch import nn

flow = AutogradDebuggerSuite(model(), nn.MSELoss()).profile_gradient_flow(*batch())
with monitor(model()) as watch:
    pass
print(flow.row("0.weight").status, watch.report().steps)
print(sorted({name.partition(".")[0] for name in sys.modules} & {"snippets", "doccheck", "publish"}))
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    shutil.copytree(FOLDER, tmp_path / "tools" / "grad_debugger", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "my_project.py").write_text(PROJECT)
    (tmp_path / "use.py").write_text(USE)
    return tmp_path


def run(project: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Python in the project, which does not see this repository."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    return subprocess.run(
        [sys.executable, *arguments], cwd=project, env=environment, capture_output=True, text=True, timeout=120
    )


def test_its_command_makes_the_whole_report(project: Path) -> None:
    own = ["--model", "my_project:model", "--batch", "my_project:batch", "--loss", "torch.nn:MSELoss"]
    done = run(project, "-m", "tools.grad_debugger", "report", *own, "--html", "report.html", "--json", "report.json")
    assert done.returncode == 0 and not done.stderr
    assert done.stdout.startswith("Sequential: healthy")
    assert (project / "report.html").stat().st_size and (project / "report.json").stat().st_size


def test_its_methods_work_without_this_repository(project: Path) -> None:
    done = run(project, "use.py")
    assert done.stdout == "ok 0\n[]\n" and not done.stderr


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda path: path.name)
def test_each_file_is_0bsd_and_imports_nothing_else(path: Path) -> None:
    text = path.read_text("utf-8")
    assert text.startswith("# SPDX-License-Identifier: 0BSD\n")
    allowed = {*sys.stdlib_module_names, "torch"}
    for node in ast.walk(ast.parse(text)):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.level == 0:
            names = [node.module or ""]
        assert {name.partition(".")[0] for name in names} <= allowed
        assert not isinstance(node, ast.ImportFrom) or node.level <= 1
