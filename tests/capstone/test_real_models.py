"""Real language models: every method on each of them, the numbers against plain torch, and the model as it was.

And what a new user does: one command, whose first finding names the fault that was planted in a GPT-2.
"""

import inspect
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from snippets.capstone import AutogradDebuggerSuite
from snippets.capstone.activity import find_dead_relus
from snippets.capstone.cli import main
from snippets.capstone.diagnosis import diagnose
from snippets.capstone.hvp import flatten, twice_differentiable, unflatten
from snippets.capstone.loading import assemble, load
from snippets.capstone.naming import named_parameters
from snippets.capstone.outputs import scalar_loss
from tests.capstone import real
from tests.capstone.models import CASES
from tests.capstone.same import bits, differences, photo

ROOT = Path(__file__).parents[2]
LANGUAGE: dict[str, tuple[Callable[..., nn.Module], Callable[[], Any]]] = {
    "gpt2": (real.small, real.words),
    "bert": (real.bert, real.padded),
    "classifier": (real.classifier, real.sentences),
}
OTHERS = ("resnet", "tagger", "bag", "vae")


def case(name: str, **options: Any) -> tuple[nn.Module, Any, Any, Any]:
    """Model, inputs, targets, criterion."""
    if name in CASES:
        return CASES[name]()
    make, batch = LANGUAGE[name]
    torch.manual_seed(0)
    return make(**options), batch(), None, None


def plain(model: nn.Module, *batch: Any) -> tuple[float, list[Tensor | None]]:
    """The loss and the gradients by torch alone, from seed 1."""
    torch.manual_seed(1)
    loss = scalar_loss(model, *batch)
    loss.backward()
    gradients = [row.tensor.grad for row in named_parameters(model)]
    model.zero_grad()
    return loss.item(), gradients


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("name", LANGUAGE)
def test_gradients_of_a_language_model_are_those_of_torch(name: str, attention: str) -> None:
    model, *batch = case(name, attn_implementation=attention)
    assert model.training  # with dropout
    loss, gradients = plain(model, *batch)
    torch.manual_seed(1)
    before = photo(model, *batch)
    report = AutogradDebuggerSuite(model).profile_gradient_flow(*batch)
    assert differences(before, photo(model, *batch)) == []
    known = [g for g in gradients if g is not None]
    assert report.loss == loss
    expected = torch.cat([g.flatten() for g in known]).double().norm().item()
    assert report.total_norm == pytest.approx(expected, rel=1e-6)
    for row, gradient in zip(report.rows, gradients, strict=True):
        assert (row.norm is None) == (gradient is None)
        if gradient is not None:
            assert row.norm == pytest.approx(gradient.norm().item(), rel=1e-5, abs=1e-12)
            assert row.mean == pytest.approx(gradient.double().mean().item(), rel=1e-9, abs=1e-18)
            assert row.max_abs == gradient.abs().max().item()
    again = plain(model, *batch)[1]
    assert [bits(g) for g in again] == [bits(g) for g in gradients]


@pytest.mark.parametrize("name", [*LANGUAGE, *OTHERS])
def test_the_graph_has_each_parameter_once_and_holds_what_it_saved(name: str) -> None:
    model, *batch = case(name)
    gradients = plain(model, *batch)[1]
    before = photo(model, *batch)
    report = AutogradDebuggerSuite(model, batch[2]).profile_graph(*batch[:2])
    assert differences(before, photo(model, *batch)) == []
    assert len(report.leaves) == sum(g is not None for g in gradients) == report.ops["AccumulateGrad"]
    held, saved = {}, report.saved
    torch.manual_seed(1)
    with torch.autograd.graph.saved_tensors_hooks(lambda t: held.setdefault(id(t), t), lambda t: t):
        scalar_loss(model, *batch)
    blocks = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in held.values()}
    own = {t.untyped_storage().data_ptr() for t in [*model.parameters(), *model.buffers()]}
    expected = sum(size for at, size in blocks.items() if at not in own)
    assert saved is not None and saved.held == expected and saved.held <= saved.referenced + 8 * saved.tensors
    assert saved.parameters == sum(size for at, size in blocks.items() if at in own) - saved.buffers


def test_tied_embeddings_are_one_row_with_two_names() -> None:
    model, *batch = case("gpt2")
    report = AutogradDebuggerSuite(model).profile_gradient_flow(*batch)
    assert report.rows[0].aliases == ("lm_head.weight",) and report.row("lm_head.weight") == report.rows[0]
    assert len(report.rows) == len(list(model.parameters()))
    leaf = AutogradDebuggerSuite(model).profile_graph(*batch).leaves[0]
    assert (leaf.name, leaf.aliases, leaf.uses) == ("transformer.wte.weight", ("lm_head.weight",), 2)


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("name", LANGUAGE)
def test_hessian_products_are_those_of_a_double_backward_in_float64(name: str, attention: str) -> None:
    model, *batch = case(name, attn_implementation=attention)
    model.eval()
    suite = AutogradDebuggerSuite(model)
    parameters = [p for p in model.parameters() if p.requires_grad]
    draws = torch.Generator().manual_seed(2)
    v = [torch.randn(p.shape, generator=draws) for p in parameters]
    before = photo(model, *batch)
    with twice_differentiable(model):
        found = flatten(suite.compute_hvp(scalar_loss(model, *batch), v)).double()
    assert differences(before, photo(model, *batch)) == []
    model.double()

    def gradient(h: float) -> Tensor:
        with torch.no_grad():
            for p, w in zip(parameters, v, strict=True):
                p.add_(w.double(), alpha=h)
        parts = torch.autograd.grad(scalar_loss(model, *batch), parameters, allow_unused=True, materialize_grads=True)
        with torch.no_grad():
            for p, w in zip(parameters, v, strict=True):
                p.sub_(w.double(), alpha=h)
        return flatten(parts)

    for row in real.padding(model):  # it has no gradient, so differences see more than backward
        v[[id(p) for p in parameters].index(id(row))][0] = 0
    with twice_differentiable(model):
        second = flatten(AutogradDebuggerSuite(model).compute_hvp(scalar_loss(model, *batch), [w.double() for w in v]))
    difference = (gradient(1e-4) - gradient(-1e-4)) / 2e-4
    assert (second - difference).norm() < 1e-3 * second.norm()  # the loss is computed in float32 by the library
    if not list(real.padding(model)):
        assert (found - second).norm() < 1e-4 * second.norm()


def test_the_top_eigenvalue_is_that_of_the_dense_hessian() -> None:
    torch.manual_seed(0)
    model = real.gpt2(vocab_size=6, n_positions=4, n_embd=4, n_layer=1, n_head=2).eval()
    tokens = torch.tensor([[1, 4, 2, 5]])
    batch = {"input_ids": tokens, "labels": tokens}
    parameters = list(model.parameters())
    with twice_differentiable(model):
        loss = scalar_loss(model, batch)
        suite = AutogradDebuggerSuite(model)
        n = sum(p.numel() for p in parameters)
        hessian = torch.stack([flatten(suite.compute_hvp(loss, unflatten(e, parameters))) for e in torch.eye(n)])
    exact = torch.linalg.eigvalsh(hessian.double())
    for which, value in {"largest": exact[-1], "smallest": exact[0], "magnitude": exact[exact.abs().argmax()]}.items():
        report = suite.verify_curvature(batch, which=which, tolerance=1e-4, samples=0, verify=False)
        assert report.eigenvalue == pytest.approx(value.item(), rel=1e-3) and report.converged
    many = suite.verify_curvature(batch, samples=100, max_products=1, verify=False)
    assert abs(many.trace - hessian.trace().item()) < 3 * many.trace_error


def test_a_bias_before_a_normalisation_is_a_note_and_a_vanishing_weight_is_not() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(16, 2))
    batch = torch.randn(8, 3, 4, 4), torch.randn(8, 2)
    (found,) = diagnose(assemble(model, batch, nn.MSELoss(), ("", "", "")), "gradients").findings
    assert (found.level, found.title, found.where) == ("note", "Parameters without effect", ("0.bias",))
    model[1] = nn.Identity()
    with torch.no_grad():
        model[3].weight.mul_(1e-9)
    (found,) = diagnose(assemble(model, batch, nn.MSELoss(), ("", "", "")), "gradients").findings
    assert (found.level, found.title, found.where) == ("warning", "Vanishing gradients", ("0",))


@pytest.mark.parametrize("name", [*LANGUAGE, "resnet", "tagger", "vae"])
def test_curvature_agrees_with_itself_with_dropout_too(name: str) -> None:
    model, *batch = case(name)
    before = photo(model, *batch)
    report = AutogradDebuggerSuite(model, batch[2]).verify_curvature(*batch[:2])
    assert differences(before, photo(model, *batch)) == []
    assert report.check.verdict == "agrees" and report.check.error < 1e-5 and report.converged


@pytest.mark.parametrize("name", [*LANGUAGE, *OTHERS])
def test_no_anomaly_and_right_derivatives(name: str) -> None:
    model, *batch = case(name)
    loss = plain(model, *batch)[0]
    model.train(name == "vae")
    torch.manual_seed(1)
    before = photo(model, *batch)
    suite = AutogradDebuggerSuite(model, batch[2])
    found = suite.find_anomalies(*batch[:2])
    report = suite.check_derivatives(model, batch[0], points=1, second=False)
    assert differences(before, photo(model, *batch)) == []
    assert not found.found and found.loss == pytest.approx(loss, rel=0.2)
    assert report.first_order == ("not deterministic" if name == "vae" else "right")  # it draws
    assert report.dtype == ("" if name == "vae" else "float64")


@pytest.mark.parametrize("name", LANGUAGE)
def test_activation_checkpoints_change_nothing_but_the_memory(name: str) -> None:
    off, on = case(name), case(name)
    on[0].gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    reports = []
    for model, *batch in (off, on):
        torch.manual_seed(1)
        before = photo(model, *batch)
        suite = AutogradDebuggerSuite(model)
        graph = suite.profile_graph(*batch)
        reports.append((suite.profile_gradient_flow(*batch), graph.saved, suite.verify_curvature(*batch, samples=2)))
        assert differences(before, photo(model, *batch)) == []
    (flow, saved, curvature), (flow_on, saved_on, curvature_on) = reports
    assert flow_on.total_norm == pytest.approx(flow.total_norm, rel=1e-6)
    assert saved_on.held < saved.held
    assert curvature_on.eigenvalue == pytest.approx(curvature.eigenvalue, rel=1e-3)
    assert curvature_on.check.verdict == "agrees"


def test_a_model_in_bfloat16_is_read_in_float32() -> None:
    model, *batch = case("gpt2")
    model.bfloat16().eval()
    gradients = plain(model, *batch)[1]
    report = AutogradDebuggerSuite(model).profile_gradient_flow(*batch)
    assert {row.dtype for row in report.rows} == {"bfloat16"}
    for row, gradient in zip(report.rows, gradients, strict=True):
        assert row.norm == pytest.approx(gradient.double().norm().item(), rel=1e-5)
    report = AutogradDebuggerSuite(model).verify_curvature(*batch, max_products=4)
    assert report.check.verdict == "agrees" and report.check.error < 1e-5  # in float64


def test_the_monitor_of_a_language_model() -> None:
    model, *batch = case("gpt2")
    optimizer = torch.optim.AdamW(model.parameters())
    with AutogradDebuggerSuite(model).monitor(every=2) as watch:
        for _ in range(3):
            optimizer.zero_grad()
            model(**batch[0]).loss.backward()
            optimizer.step()
    assert watch.report().read == 2 and len(watch.report().last) == len(list(model.parameters()))


def test_dead_relus_of_a_healthy_gpt2_with_relu_are_none() -> None:
    torch.manual_seed(0)
    model, batch = real.gpt2(activation_function="relu"), real.words()
    assert find_dead_relus(model, batch) == ()


# As a new user


Report = Callable[..., tuple[int, str, dict[str, Any]]]


@pytest.fixture
def report_on(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Report:
    """Run the command, and return its status, its text and its JSON."""

    def call(model: str, batch: str = "words") -> tuple[int, str, dict[str, Any]]:
        place, path = "tests.capstone.real", tmp_path / "report.json"
        names = ["--model", f"{place}:{model}", "--batch", f"{place}:{batch}"]
        status = main(["report", *names, "--json", str(path)])
        return status, capsys.readouterr().out, json.loads(path.read_text())

    return call


@pytest.mark.parametrize(
    ("model", "batch"), [("gpt2", "words"), ("small", "padded"), ("bert", "padded"), ("classifier", "sentences")]
)
def test_a_healthy_language_model_is_healthy(report_on: Report, model: str, batch: str) -> None:
    status, text, data = report_on(model, batch)
    assert status == 0 and data["verdict"] == "healthy" and data["unavailable"] == {}
    assert {one["level"] for one in data["findings"]} <= {"note"}
    assert {one["title"] for one in data["findings"]} == (
        {"Parameters without effect"} if model in ("bert", "classifier") else set()
    )
    assert "Checked in eval mode" in text  # dropout is on
    assert data["derivatives"]["loss"]["passed"] and data["curvature"]["check"]["verdict"] == "agrees"


FAULTS = {
    "vanishing": ("warning", "Vanishing gradients", "transformer.wte", "residual connections"),
    "exploding": ("warning", "Exploding gradients", "transformer.h.0.attn.c_proj", "in transformer.h.0."),
    "dead": ("warning", "Dead ReLU", "transformer.h.1.mlp.act", "All of the outputs are 0"),
    "masked": ("error", "NaN in forward, sqrt", "transformer.h.1.mlp.act", "mask the input of sqrt"),
    "wrong": ("error", "Wrong derivative", "transformer.h.1.mlp.act (Squared)", "2 is missing"),
    "wrong_attention": ("error", "Wrong derivative", "transformer.h.1.attn (ScaledAttention)", "/ d scale[]"),
    "frozen": ("warning", "Frozen layers", "transformer.h.1", "on both sides are trained"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_the_first_finding(report_on: Report, fault: str) -> None:
    level, title, where, says = FAULTS[fault]
    status, text, data = report_on(fault)
    finding = data["findings"][0]
    assert status == 1 and data["verdict"] == level
    assert (finding["level"], finding["title"]) == (level, title) and where in finding["where"]
    assert says in finding["text"] + finding["advice"]
    first = text.splitlines()[1]
    assert first.startswith(f"[{level}] {title} in ") and where in first and says in first
    if fault == "masked":
        lines, start = inspect.getsourcelines(real.Root)
        line = next(start + k for k, code in enumerate(lines) if "# the NaN" in code)
        assert f"real.py:{line}: return torch.where(x > 0, x.sqrt(), 0.0)" in first


def test_the_command_of_a_new_user(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text((ROOT / "tests/capstone/real.py").read_text())
    command = [sys.executable, "-m", "snippets.capstone", "report", "--model", "mine:frozen", "--batch", "mine:words"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 1 and done.stdout.splitlines()[1].startswith("[warning] Frozen layers in transformer.h.1")


def test_a_gpt2_of_width_128_is_answered_without_a_false_finding() -> None:
    subject = load("tests.capstone.real:wide", "tests.capstone.real:words")
    found = diagnose(subject)
    assert found.verdict == "healthy" and found.findings == () and found.unavailable == {}
    assert found.curvature.converged and found.derivatives.loss.second_order == "right"
