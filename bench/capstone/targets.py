"""Targets: the limits that the capstone is held to, and why one may be missed."""

from __future__ import annotations

from dataclasses import dataclass

from bench.capstone import eigenvalues, products, starts, training, walks
from bench.capstone.record import Record, Row, Table

QUIET = 0.9  # of a core: with less, other work was going on


@dataclass(frozen=True)
class Target:
    """A limit for a field of a row: "ratio" and "seconds" by their median, "products" by the most, "value" by sign.

    reason: what is behind a miss that is no noise; "" while there is none.
    """

    row: str
    field: str
    limit: float
    reason: str = ""

    def measured(self, row: Row) -> float | None:
        found = getattr(row, self.field)
        if found is None or isinstance(found, float):
            return found
        return float(found.high if self.field == "products" else found.median)

    def met(self, row: Row) -> bool:
        measured = self.measured(row)
        return measured is not None and measured <= self.limit

    def noisy(self, row: Row) -> bool:
        """The lower quartile is within the limit."""
        found = getattr(row, self.field)
        return found is not None and not isinstance(found, float) and found.low <= self.limit

    @property
    def text(self) -> str:
        if self.field == "value":
            return "negative"
        if self.field == "seconds":
            return f"≤ {1e3 * self.limit:g} ms"
        return f"≤ {self.limit:g}"


TARGETS = {
    "training-gpt-52": Target(training.TOOL, "ratio", 1.04),
    "training-gpt-292": Target(training.TOOL, "ratio", 1.06),
    "product-mlp": Target(products.TOOL, "ratio", 2.2),
    "product-gpt": Target(products.TOOL, "ratio", 2.3),
    "product-cnn": Target(products.TOOL, "ratio", 3.0),
    "eigenvalue-mlp": Target(eigenvalues.BASE, "products", 12),
    "eigenvalue-gpt": Target(eigenvalues.BASE, "products", 12),
    "eigenvalue-negative": Target(eigenvalues.BASE, "value", 0),
    "eigenvalue-diagonal": Target(eigenvalues.BASE, "value", 0),
    "walk-chain": Target(walks.TOOL, "seconds", 0.1),
    "walk-growth": Target("100,000", "ratio", 3.0),
    "import": Target(starts.TOOL, "seconds", 0.05),
}


def verdict(key: str, table: Table, name: str) -> str:
    """What stands in the target column of a row; "" where it has no target."""
    target = TARGETS.get(key)
    if target is None or target.row != name:
        return ""
    return f"{target.text}: {'met' if target.met(table.rows[name]) else '**missed**'}"


def why_missed(key: str, table: Table, share: float) -> str:
    """One sentence for a table whose target is missed, "" where it is met. share: as in the record."""
    target = TARGETS.get(key)
    if target is None or target.met(table.rows[target.row]):
        return ""
    if target.reason:
        return f"The target is missed: {target.reason}"
    if share < QUIET:
        return f"The target is missed on a busy machine: the run had {100 * share:.0f} % of a core."
    if target.noisy(table.rows[target.row]):
        return "The target is missed by less than the spread: the lower quartile is within it."
    return "The target is missed, and the reason is not known."


def count(record: Record) -> tuple[int, int]:
    """Targets met, and all targets."""
    met = [target.met(record.tables[key].rows[target.row]) for key, target in TARGETS.items()]
    return sum(met), len(met)
