"""Starts: what an import adds to `import torch`, in fresh processes."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial
from pathlib import Path

from bench.capstone import record, rivals
from bench.capstone.rounds import interleaved

BASE, TOOL = "import torch", "snippets.capstone"
CODE = """
import time
start = time.perf_counter()
import torch
if {module!r} != "torch":
    start = time.perf_counter()
    import {module}
print(time.perf_counter() - start)
"""


def measure(root: Path, rounds: int) -> record.Table:
    """Seconds of the import alone; of all modules but torch, after torch has been imported."""
    modules = {BASE: "torch", TOOL: "snippets.capstone", "torch._dynamo": "torch._dynamo"}
    missing = rivals.missing()
    modules |= {package: module for module, package in rivals.MODULES.items() if package not in missing}
    seconds = interleaved({name: partial(_seconds, module, root) for name, module in modules.items()}, rounds)
    return record.table(BASE, seconds, {package: {"note": "not installed"} for package in missing})


def _seconds(module: str, root: Path) -> float:
    environment = {**os.environ, "PYTHONPATH": str(root)}
    command = [sys.executable, "-W", "ignore", "-c", CODE.format(module=module)]
    return float(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)
