"""Printer: the lab's graph printer on chains of 1,000 to 100,000 operations."""

from __future__ import annotations

import time
from pathlib import Path

import torch

from bench import clock
from snippets.labs.graph_printer import as_text, graph_of_deep

COUNTS = (1_000, 10_000, 100_000)
ROUNDS = 5


def main(root: Path) -> None:
    rows = []
    for count in COUNTS:
        walks, prints = [], []
        for _ in range(ROUNDS):
            began = 0.0

            def build(count: int = count) -> torch.Tensor:
                nonlocal began
                y = torch.ones((), requires_grad=True)
                for _ in range(count):
                    y = y + 1
                began = time.perf_counter()  # building the graph is torch's time
                return y

            graph = graph_of_deep(build)
            walks.append(1e6 * (time.perf_counter() - began) / count)
            start = time.perf_counter()
            as_text(graph)
            prints.append(1e3 * (time.perf_counter() - start))
        rows.append([f"{count:,}", clock.spread(walks), clock.spread(prints)])
    head = ["operations", "walk, µs a node", "text of 60 lines, ms"]
    clock.table("Graph printer on a chain, in a thread with a large stack", head, rows)
