"""Training: what it costs to look at all gradients at every step, and to run in anomaly mode."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from bench.capstone import models, record
from bench.capstone.models import Case
from bench.capstone.rounds import Stopwatch, interleaved, timed
from snippets.capstone.gradients import read_gradients
from snippets.capstone.monitor import monitor

CASES = {"gpt-52": models.gpt, "gpt-292": models.gpt_deep}
BASE, TOOL = "plain step", "tool, monitor()"
TABLE, ANOMALY = "tool, read_gradients()", "torch.autograd.detect_anomaly"
STEPS = 2  # of each method in one round
Read = Callable[[], object]


def measure(case: Case, rounds: int) -> record.Table:
    """Training steps with AdamW, each method on the same model; read: what is looked at after backward."""
    model, parameters = case.model, case.parameters
    optimizer = torch.optim.AdamW(parameters, lr=1e-4)

    def step(read: Read | None = None) -> None:
        optimizer.zero_grad()
        case.loss().backward()
        if read is not None:
            read()
        optimizer.step()

    def total() -> float:
        return float(torch.nn.utils.get_total_norm([p.grad for p in parameters if p.grad is not None]))

    def clipped() -> float:
        return float(torch.nn.utils.clip_grad_norm_(parameters, math.inf))

    def one_by_one() -> list[float]:
        return [p.grad.norm().item() for p in parameters if p.grad is not None]

    def with_anomaly_mode() -> None:
        with torch.autograd.detect_anomaly():
            step()

    def with_monitor() -> float:
        with monitor(model):
            return timed(step, STEPS)()

    reads: dict[str, Read] = {
        TABLE: lambda: read_gradients(model),
        "torch: get_total_norm, one number": total,
        "torch: clip_grad_norm_(inf), one number": clipped,
        "torch: .norm().item() of each": one_by_one,
    }
    watches: dict[str, Stopwatch] = {BASE: timed(step, STEPS), TOOL: with_monitor}
    watches |= {name: timed(lambda read=read: step(read), STEPS) for name, read in reads.items()}  # type: ignore[misc]
    watches[ANOMALY] = timed(with_anomaly_mode, STEPS)
    errors = _errors(case, one_by_one, {TOOL: _monitored(case), **reads})
    return record.table(BASE, interleaved(watches, rounds), errors)


def _monitored(case: Case) -> Read:
    """The monitor's norms, read by hand from what is in `.grad`."""

    def read() -> list[float]:
        with monitor(case.model) as watch:
            watch.step()
        return list(watch.report().last.values())

    return read


def _errors(case: Case, one_by_one: Callable[[], list[float]], reads: dict[str, Read]) -> dict[str, dict[str, float]]:
    """How far each total norm is from that of all norms in float64, relative; raises where it is not the same."""
    case.loss().backward()
    right = math.hypot(*(p.grad.double().norm().item() for p in case.parameters if p.grad is not None))
    found = {}
    for name, read in reads.items():
        value = read()
        if isinstance(value, list):
            value = math.hypot(*value)
        elif not isinstance(value, float):
            value = value.total_norm  # type: ignore[attr-defined]
        found[name] = {"error": abs(value - right) / right}
        if found[name]["error"] > 1e-5:
            raise RuntimeError(f"'{name}' gives a total norm of {value}, not {right}")
    case.model.zero_grad(set_to_none=True)
    return found
