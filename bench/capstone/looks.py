"""Looks: what one report on a batch costs, in units of the run that it watches."""

from __future__ import annotations

import os

import torch
from torch.autograd.graph import saved_tensors_hooks
from torch.profiler import ProfilerActivity, profile

from bench.capstone import record
from bench.capstone.models import Case
from bench.capstone.rounds import interleaved, timed
from snippets.capstone.anomalies import find_anomalies
from snippets.capstone.gradients import profile_gradient_flow
from snippets.capstone.graph import profile_graph

MEMORY_BASE, MEMORY = "plain forward", "tool, profile_graph()"
ANOMALY_BASE, ANOMALY = "plain forward and backward", "tool, find_anomalies()"
FLOW, TORCH = "tool, profile_gradient_flow()", "torch.autograd.detect_anomaly"


def memory(case: Case, rounds: int) -> record.Table:
    """The graph and the bytes that it holds."""
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # or the profiler writes two lines to stderr each time
    held = 0

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        nonlocal held
        held += tensor.nbytes
        return tensor.detach()

    def hooks() -> None:
        with saved_tensors_hooks(pack, lambda tensor: tensor):
            case.loss()

    def profiler() -> None:
        with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as watch:
            case.loss()
        watch.key_averages()

    methods = {
        MEMORY_BASE: case.loss,
        MEMORY: lambda: profile_graph(case.model, case.inputs, case.targets, case.criterion),
        "torch: saved_tensors_hooks, bytes added up": hooks,
        "torch.profiler, profile_memory=True": profiler,
    }
    hooks()
    saved = profile_graph(case.model, case.inputs, case.targets, case.criterion).saved
    if saved is None or saved.referenced != held:
        raise RuntimeError(f"the tool does not count {held} saved bytes")
    return record.table(MEMORY_BASE, interleaved({name: timed(run) for name, run in methods.items()}, rounds))


def anomalies(case: Case, rounds: int) -> record.Table:
    """One forward and one backward of a healthy model, watched."""

    def run() -> None:
        case.model.zero_grad(set_to_none=True)
        case.loss().backward()

    def anomaly_mode() -> None:
        with torch.autograd.detect_anomaly():
            run()

    given = case.model, case.inputs, case.targets, case.criterion
    methods = {
        ANOMALY_BASE: run,
        ANOMALY: lambda: find_anomalies(*given),
        FLOW: lambda: profile_gradient_flow(*given),
        TORCH: anomaly_mode,
    }
    if find_anomalies(*given).found:
        raise RuntimeError("the tool finds an anomaly in a healthy model")
    return record.table(ANOMALY_BASE, interleaved({name: timed(look) for name, look in methods.items()}, rounds))
