"""The page of ratios says what the record says, and the measuring is fair."""

import dataclasses
import json
import platform
import re
import tomllib
from pathlib import Path

import pytest
import torch

from bench.capstone import cells, eigenvalues, models, page, products, record, rounds, run, targets, training, walks
from bench.capstone.record import Row, Table
from bench.capstone.rounds import Spread

ROOT = Path(__file__).parents[1]
RECORD = record.load((ROOT / run.RECORD).read_text("utf-8"))


def test_the_committed_page_is_what_the_committed_record_gives() -> None:
    assert page.render(RECORD) == (ROOT / run.PAGE).read_text("utf-8")


def test_a_record_survives_being_written() -> None:
    assert record.load(RECORD.to_json()) == RECORD
    assert RECORD.to_json() == (ROOT / run.RECORD).read_text("utf-8")


def test_every_table_is_shown_and_every_target_has_its_row() -> None:
    assert set(page.SHOWN) == set(RECORD.tables)
    shown = page.PROSE.read_text("utf-8")
    assert set(re.findall(r"\{\{table (\S+)\}\}", shown)) == set(page.SHOWN)
    for key, target in targets.TARGETS.items():
        assert target.measured(RECORD.tables[key].rows[target.row]) is not None, key


def test_every_target_that_is_missed_has_its_reason() -> None:
    told = {key: targets.why_missed(key, RECORD.tables[key], RECORD.share) for key in targets.TARGETS}
    assert not [key for key, text in told.items() if "not known" in text]


def test_all_that_is_compared_was_there() -> None:
    assert "not installed" not in (ROOT / run.RECORD).read_text("utf-8")


def test_the_machine_is_a_class_and_no_name() -> None:
    text = record.machine()
    assert re.match(r"\d+ cores, ", text)
    assert platform.node() not in text
    assert str(ROOT) not in (ROOT / run.RECORD).read_text("utf-8")


def test_methods_take_turns_and_each_round_starts_with_another() -> None:
    calls: list[str] = []

    def method(name: str) -> rounds.Stopwatch:
        return lambda: calls.append(name) or 1.0  # type: ignore[func-returns-value]

    seconds = rounds.interleaved({name: method(name) for name in "ABC"}, 4)
    assert "".join(calls) == "ABC" + "ABC" + "BCA" + "CAB" + "ABC"
    assert all(len(values) == 4 for values in seconds.values())


def test_a_ratio_is_taken_within_each_round() -> None:
    found = rounds.ratios({"base": [1.0, 10.0, 2.0], "other": [2.0, 20.0, 4.0]}, "base")
    assert found["other"] == Spread(2.0, 2.0, 2.0)


def test_the_untimed_part_is_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("time.perf_counter", lambda: now[0])

    def make() -> str:
        now[0] += 100
        return "made"

    def action(made: str) -> None:
        assert made == "made"
        now[0] += 3

    assert rounds.timed_on_new(make, action)() == 3


@pytest.mark.parametrize(
    ("row", "met", "why"),
    [
        (Row(ratio=Spread(1.0, 1.02, 1.05)), "met", ""),
        (Row(ratio=Spread(1.03, 1.05, 1.09)), "missed", "less than the spread"),
        (Row(ratio=Spread(1.06, 1.08, 1.09)), "missed", "not known"),
    ],
)
def test_a_target_is_held_against_the_median(row: Row, met: str, why: str) -> None:
    table = Table("plain step", 3, {training.TOOL: row})
    assert met in targets.verdict("training-gpt-52", table, training.TOOL)
    assert why in targets.why_missed("training-gpt-52", table, 0.99)
    assert ("had 50 % of a core" in targets.why_missed("training-gpt-52", table, 0.5)) == (met == "missed")


def test_products_are_held_against_the_most_and_an_answer_against_its_sign() -> None:
    count = targets.TARGETS["eigenvalue-mlp"]
    assert count.met(Row(products=Spread(5, 6, 12)))
    assert not count.met(Row(products=Spread(5, 6, 13)))
    assert not targets.TARGETS["eigenvalue-diagonal"].met(Row(value=5.0))


def test_numbers_are_shown_without_false_precision() -> None:
    assert [cells.number(x) for x in (0.00257, 1.0249, 12.34, 123.4)] == ["0.003", "1.02", "12.3", "123"]
    assert [cells.small(x) for x in (None, 0, 2e-7, 0.0123)] == ["", "0", "2·10⁻⁷", "1.2\u202f%"]
    assert [cells.duration(x) for x in (1.234, 0.01234, 4.37e-6)] == ["1.23 s", "12.3 ms", "4.37 µs"]


def test_the_models_have_the_tensors_that_the_contract_names() -> None:
    assert len(models.gpt().parameters) == 52
    assert len(models.gpt_deep().parameters) == 292
    assert sorted(RECORD.models) == sorted(page.MODELS) == sorted(models.described())


def small() -> models.Case:
    return models.gpt(layers=1, width=16, batch=2, length=8)


def test_training_is_measured_and_the_norms_are_the_same() -> None:
    table = training.measure(small(), 1)
    assert all(row.ratio is not None for row in table.rows.values())
    error = table.rows[training.TOOL].error
    assert error is not None
    assert error < 1e-6


def test_products_agree_and_one_that_does_not_stops_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    table = products.measure(small(), 1)
    assert table.rows[products.TOOL].error == 0
    monkeypatch.setattr(torch.autograd.functional, "hvp", lambda loss, p, v: (None, tuple(2 * w for w in v)))
    with pytest.raises(RuntimeError, match=r"'torch.autograd.functional.hvp' differs from the tool by"):
        products.measure(small(), 1)


def test_the_diagonal_has_its_negative_eigenvalue_in_four_products() -> None:
    row = eigenvalues.measure(models.diagonal(), 1).rows[eigenvalues.BASE]
    assert row.value == pytest.approx(-5)
    assert row.products == Spread(4, 4, 4)


def test_a_walk_is_compared_on_graphs_that_are_new() -> None:
    made = []

    def make() -> torch.Tensor:
        made.append(walks.chain(20))
        return made[-1]

    rows = walks.compare(make, 2).rows
    assert rows[walks.BASE].ratio == Spread(1, 1, 1)
    assert len({id(output.grad_fn) for output in made}) == len(made)


def test_a_page_is_not_written_without_the_packages(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("bench.capstone.rivals.missing", lambda: ["PyHessian"])
    assert run.write(tmp_path) == 2
    assert capsys.readouterr().err == "bench: --write needs PyHessian: run it with nox -s bench\n"
    assert not list(tmp_path.iterdir())


def test_an_unknown_word_of_the_prose_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    prose = tmp_path / "page.md"
    prose.write_text("{{nonsense}}", "utf-8")
    monkeypatch.setattr(page, "PROSE", prose)
    with pytest.raises(KeyError):
        page.render(RECORD)


def test_the_record_is_plain_json_with_short_numbers() -> None:
    data = json.loads(RECORD.to_json())
    assert data["tables"]["walk-chain"]["rows"][walks.TOOL]["seconds"]["median"] > 0
    longer = dataclasses.replace(RECORD, minutes=1.23456)
    assert json.loads(longer.to_json())["minutes"] == 1.235


def test_what_is_compared_is_installed_for_the_bench_alone() -> None:
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["dependency-groups"]
    shared = re.search(r"^GROUPS = \((.*)\)$", (ROOT / "noxfile.py").read_text("utf-8"), re.M)
    assert shared is not None
    assert '"bench"' not in shared[1]
    for package in ("pyhessian", "curvlinops", "torchviz"):
        assert [name for name, lines in groups.items() if package in str(lines)] == ["bench"]
