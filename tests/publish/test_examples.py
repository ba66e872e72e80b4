"""The reports of the example models as files of the site: made once, with or without transformers."""

from pathlib import Path

import pytest

from publish import examples
from snippets.capstone import examples as models


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """Names of the reports that were made; none of them is really."""
    names: list[str] = []
    monkeypatch.setattr(examples, "KEPT", tmp_path)
    monkeypatch.setattr(examples, "_made", lambda name: names.append(name) or f"report of {name}")
    return names


def test_each_report_is_made_once(made: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    first = examples.reports()
    assert first == examples.reports() and len(made) == len(set(made)) >= 7
    assert first["capstone/examples/dead.html"] == "report of dead"
    monkeypatch.setattr(examples, "_key", lambda: "another state of the sources")
    examples.reports()
    assert sorted(made) == sorted(2 * list(set(made)))


def test_without_transformers_the_address_says_so(made: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(examples, "find_spec", lambda name: None)
    page = examples.reports()["capstone/examples/gpt2.html"]
    assert "gpt2" not in made and "needs transformers" in page and '<html lang="en">' in page


def test_every_model_of_the_examples_has_a_report() -> None:
    for name, batch in examples.BATCHES.items():
        model, (inputs, targets) = getattr(models, name)(), getattr(models, batch)()
        assert model(inputs).shape == targets.shape


def test_a_report_names_no_path_of_the_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    page = examples._made("masked")
    assert "snippets/capstone/examples.py:" in page and str(examples.ROOT) not in page
