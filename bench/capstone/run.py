"""Run: measure everything, print the tables, and keep record and page if asked."""

from __future__ import annotations

import sys
import time
import warnings
from pathlib import Path

import torch

from bench.capstone import eigenvalues, looks, models, page, products, record, rivals, starts, training, walks

RECORD, PAGE = Path("docs/benchmarks/capstone.json"), Path("docs/benchmarks/capstone.md")
THREADS = 1  # ratios on one core depend less on what else the machine does


def main(root: Path) -> None:
    """Measure and print."""
    print(page.tables(measure(root)))


def write(root: Path) -> int:
    """Measure, print, and keep the record and the page. Exit status 2 where a package to compare with is missing."""
    if missing := rivals.missing():
        print(f"bench: --write needs {', '.join(missing)}: run it with nox -s bench", file=sys.stderr)
        return 2
    text = measure(root).to_json()
    made = record.load(text)
    print(page.tables(made))
    (root / RECORD).parent.mkdir(exist_ok=True)
    (root / RECORD).write_text(text, "utf-8")
    (root / PAGE).write_text(page.render(made), "utf-8")
    print(f"\nwritten: {RECORD}, {PAGE}")
    return 0


def measure(root: Path, scale: float = 1.0) -> record.Record:
    """scale: of the number of rounds; below 1 for a quick look."""

    def rounds(count: int) -> int:
        return max(1, round(scale * count))

    before = torch.get_num_threads()
    torch.set_num_threads(THREADS)
    start, worked = time.perf_counter(), time.process_time()
    tables: dict[str, record.Table] = {}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # anomaly mode and the other packages warn at every call
            for key, make in training.CASES.items():
                tables[f"training-{key}"] = training.measure(make(), rounds(17))
            _say("training steps", start)
            for key, make in products.CASES.items():
                tables[f"product-{key}"] = products.measure(make(), rounds(9))
            _say("products", start)
            for key, make in eigenvalues.CASES.items():
                tables[f"eigenvalue-{key}"] = eigenvalues.measure(make(), rounds(4))
            _say("eigenvalues", start)
            tables |= walks.measure(rounds(7))
            _say("walks", start)
            tables["memory"] = looks.memory(models.gpt(), rounds(11))
            tables["anomalies"] = looks.anomalies(models.gpt(), rounds(11))
            _say("looks", start)
            share = (time.process_time() - worked) / (time.perf_counter() - start)
            tables["import"] = starts.measure(root, rounds(5))
            _say("imports", start)
        made = record.of(tables, models.described(), time.perf_counter() - start, share)
    finally:
        torch.set_num_threads(before)
    return made


def _say(what: str, start: float) -> None:
    """On stderr, so that the tables stay clean."""
    print(f"{what}: done after {time.perf_counter() - start:.0f} s", file=sys.stderr, flush=True)
