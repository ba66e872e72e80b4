"""Record: everything that one run measured, as JSON."""

from __future__ import annotations

import datetime
import importlib.metadata
import json
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from bench.capstone.rounds import Spread, ratios, spread

PACKAGES = ("torch", "numpy", "scipy", "PyHessian", "curvlinops-for-pytorch", "torchviz")


@dataclass(frozen=True)
class Row:
    """What one method took and, where that can be said, what it answered.

    ratio, seconds: None where the method could not run; the note then says why.
    products: Hessian-vector products: fewest, median, most.
    value: its answer. error: how far it is from the right one, relative to that.
    residual: ‖Hx − λx‖ / |λ| of its eigenvector, the worst of all rounds.
    """

    ratio: Spread | None = None
    seconds: Spread | None = None
    products: Spread | None = None
    value: float | None = None
    error: float | None = None
    residual: float | None = None
    note: str = ""


@dataclass(frozen=True)
class Table:
    """Rows by name; the ratios are to the row `base`."""

    base: str
    rounds: int
    rows: dict[str, Row]


@dataclass(frozen=True)
class Record:
    """share: of a core that the run had, from 0 to 1; little where the machine had other work to do."""

    date: str
    machine: str
    threads: int
    minutes: float
    share: float
    versions: dict[str, str]
    models: dict[str, str]  # their sizes
    tables: dict[str, Table]

    def to_json(self) -> str:
        """Short lines, four significant digits: more would be noise."""
        return json.dumps(_rounded(asdict(self)), indent=1, ensure_ascii=False) + "\n"


def load(text: str) -> Record:
    data = json.loads(text)
    tables = {
        key: Table(table["base"], table["rounds"], {name: _row(row) for name, row in table["rows"].items()})
        for key, table in data.pop("tables").items()
    }
    return Record(**data, tables=tables)


def table(
    base: str, seconds: Mapping[str, Sequence[float]], more: Mapping[str, Mapping[str, Any]] | None = None
) -> Table:
    """The table of one interleaved measurement.

    more: fields of a row besides its times. A row that is only here could not run.
    """
    more = more or {}
    found = ratios(seconds, base)
    rows = {}
    for name in [*seconds, *(name for name in more if name not in seconds)]:
        times = spread(seconds[name]) if name in seconds else None
        rows[name] = Row(ratio=found.get(name), seconds=times, **more.get(name, {}))
    return Table(base, len(seconds[base]), rows)


def of(tables: dict[str, Table], models: dict[str, str], seconds: float, share: float) -> Record:
    """The record of a run that ends now and took so many seconds."""
    return Record(
        date=datetime.datetime.now(datetime.UTC).date().isoformat(),
        machine=machine(),
        threads=torch.get_num_threads(),
        minutes=seconds / 60,
        share=share,
        versions={"Python": platform.python_version(), **{name: version(name) for name in PACKAGES}},
        models=models,
        tables=tables,
    )


def version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def machine() -> str:
    """The class of the machine, never its name: cores, architecture, kind of processor."""
    kind = platform.processor()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        lines = cpuinfo.read_text("utf-8").splitlines()
        kind = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), kind)
    return ", ".join(filter(None, [f"{os.cpu_count()} cores", platform.machine(), kind]))


def _row(data: dict[str, Any]) -> Row:
    spreads = {name: Spread(**data[name]) for name in ("ratio", "seconds", "products") if data.get(name)}
    return Row(**{**data, **spreads})


def _rounded(data: Any) -> Any:
    if isinstance(data, dict):
        return {key: _rounded(value) for key, value in data.items() if value is not None and value != ""}
    if isinstance(data, float):
        return float(f"{data:.4g}")
    return data
