"""Page: docs/benchmarks/capstone.md, rendered wholly from a record and the prose in page.md."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from bench.capstone import cells, eigenvalues, products, targets, training
from bench.capstone.record import Record, Row

PROSE = Path(__file__).with_name("page.md")


@dataclass(frozen=True)
class Shown:
    """A table of the record: its title, what its ratios are to, and whether times are shown too."""

    title: str
    unit: str
    times: bool = False


SHOWN = {
    "training-gpt-52": Shown("GPT-52", "plain step"),
    "training-gpt-292": Shown("GPT-292", "plain step"),
    "product-mlp": Shown("MLP", "one gradient"),
    "product-gpt": Shown("GPT-52", "one gradient"),
    "product-cnn": Shown("CNN", "one gradient"),
    "eigenvalue-mlp": Shown("MLP after 50 steps of training", "tool"),
    "eigenvalue-gpt": Shown("GPT-52 after 50 steps of training", "tool"),
    "eigenvalue-new-mlp": Shown("MLP as it was made", "tool"),
    "eigenvalue-negative": Shown("Negative: minus the squared error", "tool"),
    "eigenvalue-diagonal": Shown("Diagonal: H = diag(3, 1, −5, 0.5)", "tool"),
    "walk-gpt": Shown("The graph of GPT-52", "torch's loop", times=True),
    "walk-chain": Shown("A chain of 20,000 operations", "torch's loop", times=True),
    "walk-growth": Shown("`read_graph()`, time for one node of a chain", "1,000 operations", times=True),
    "memory": Shown("The graph and the bytes that it holds", "plain forward"),
    "anomalies": Shown("A healthy model, watched", "forward and backward"),
    "import": Shown("What an import adds", "import torch", times=True),
}
ROWS = {
    "monitor": training.TOOL,
    "anomaly": training.ANOMALY,
    "kept": products.TOOL,
    "fresh": products.FRESH,
    "tool": eigenvalues.BASE,
    "power": eigenvalues.POWER,
}
MODELS = {
    "GPT-52": "Pre-norm transformer: 4 layers, width 128, 4 heads, tied head; next-word cross-entropy",
    "GPT-292": "The same with 24 layers, width 64",
    "MLP": "784–256–256–10, ReLU; cross-entropy",
    "CNN": "3×3 convolutions to 16, 32, 64 channels, ReLU, max pooling, one linear layer; cross-entropy",
    "Negative": "16–32–32–4, tanh; minus the squared error",
    "Diagonal": "½ Σ dᵢ θᵢ² with d = (3, 1, −5, 0.5)",
}


def render(record: Record) -> str:
    """The page. A word of page.md in double braces that this does not know raises KeyError."""
    return re.sub(r"\{\{(.+?)\}\}", lambda found: _filled(found[1].split(" "), record), PROSE.read_text("utf-8"))


def tables(record: Record) -> str:
    """All tables, and how many targets are met, for a terminal."""
    met, count = targets.count(record)
    found = [_table(key, record) for key in SHOWN]
    return "\n\n".join([*found, f"{met} of {count} targets met in {record.minutes:.1f} minutes, {record.machine}"])


def _filled(words: list[str], record: Record) -> str:
    kind, *more = words
    if kind == "table":
        return _table(more[0], record)
    if kind == "version":
        return record.versions[more[0]].partition("+")[0]
    if kind in ("ratio", "products"):
        row = record.tables[more[0]].rows[ROWS[more[1]]]
        return _median(row) if kind == "ratio" else cells.counts(row.products)
    met, count = targets.count(record)
    threads = f"{record.threads} thread" + "s" * (record.threads > 1)
    return {
        "met": str(met),
        "targets": str(count),
        "date": record.date,
        "machine": record.machine,
        "threads": threads,
        "share": f"{100 * record.share:.0f}",
        "minutes": f"{record.minutes:.0f}",
        "models": _models(record),
    }[kind]


def _table(key: str, record: Record) -> str:
    shown, table = SHOWN[key], record.tables[key]
    title = f"**{shown.title}**, {table.rounds} round{'s' * (table.rounds > 1)}"
    parts = [title, cells.markdown(key, table, shown.unit, shown.times), targets.why_missed(key, table, record.share)]
    return "\n\n".join(filter(None, parts))


def _median(row: Row) -> str:
    return "–" if row.ratio is None else cells.number(row.ratio.median)


def _models(record: Record) -> str:
    lines = ["| name | model and loss | size |", "| --- | --- | --- |"]
    return "\n".join([*lines, *(f"| {name} | {MODELS[name]} | {size} |" for name, size in record.models.items())])
