"""Cells: one table of a record as Markdown."""

from __future__ import annotations

from collections.abc import Callable

from bench.capstone import targets
from bench.capstone.record import Row, Table
from bench.capstone.rounds import Spread

Cell = Callable[[Row], str]
RAISED = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


def markdown(key: str, table: Table, unit: str, times: bool = False) -> str:
    """The table, with the columns that any of its rows fills.

    unit: what the ratios are to. times: whether a column has the times too.
    """
    columns: dict[str, Cell] = {
        f"× {unit}": _ratio,
        "time": _time if times else lambda row: "",
        "products": lambda row: counts(row.products),
        "answer": lambda row: "" if row.value is None else f"{row.value:.4g}",
        "off by": lambda row: small(row.error),
        "residual": lambda row: small(row.residual),
    }
    lines = []
    for name, row in table.rows.items():
        cells = [_name(name, row), *(cell(row) for cell in columns.values()), targets.verdict(key, table, name)]
        lines.append(cells)
    head = ["method", *columns, "target"]
    used = [k for k in range(len(head)) if k == 0 or any(line[k] for line in lines)]
    rows = [[head[k] for k in used], [" --- " if k == 0 else " ---: " for k in used]]
    rows += [[line[k] or "–" for k in used] for line in lines]
    text = ["|" + "|".join(cell if "---" in cell else f" {cell} " for cell in row) + "|" for row in rows]
    return "\n".join(text)


def number(value: float) -> str:
    """Two decimals from 0.1 to 10, no false precision above."""
    if value < 0.1:
        return f"{value:.1g}"
    return f"{value:.{2 if value < 10 else 1 if value < 100 else 0}f}"


def duration(seconds: float) -> str:
    for size, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-6:.2g} µs"


def _name(name: str, row: Row) -> str:
    shown = f"**{name}**" if name.startswith(("tool", "snippets.")) else name
    return f"{shown} ({row.note})" if row.note else shown


def _ratio(row: Row) -> str:
    if row.ratio is None:
        return "–"
    if row.ratio.low == row.ratio.high == 1:
        return "1"
    return f"{number(row.ratio.median)} ({number(row.ratio.low)}–\u2060{number(row.ratio.high)})"  # unbroken


def _time(row: Row) -> str:
    return "" if row.seconds is None else duration(row.seconds.median)


def counts(found: Spread | None) -> str:
    if found is None:
        return ""
    low, high = int(found.low), int(found.high)
    return f"{low}" if low == high else f"{low}–{high}"


def small(value: float | None) -> str:
    if value is None:
        return ""
    if value == 0:
        return "0"
    if value >= 1e-3:
        return f"{100 * value:.2g}\u202f%"
    digit, power = f"{value:.0e}".split("e-")
    return f"{digit}·10⁻" + str(int(power)).translate(RAISED)
