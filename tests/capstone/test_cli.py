"""The command line: what it finds, what it writes, how it refuses."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from snippets.capstone import cli, files
from snippets.capstone.cli import COMMANDS, main

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
EXAMPLES = "snippets.capstone.examples"
Cli = Callable[..., SimpleNamespace]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Cli:
    """Run the program in a folder with `sick.py`, and return its status and output."""
    (tmp_path / "sick.py").write_text((HERE / "sick.py").read_text())
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [p for p in sys.path if p not in ("", str(tmp_path))])
    monkeypatch.delitem(sys.modules, "sick", raising=False)

    def call(*arguments: str) -> SimpleNamespace:
        try:
            status = main(arguments)
        except SystemExit as error:
            status = error.code
        out, err = capsys.readouterr()
        sys.modules.pop("sick", None)
        return SimpleNamespace(status=status, out=out, err=err)

    return call


def own(model: str, batch: str = "batch", loss: str = "torch.nn:MSELoss", module: str = "sick") -> list[str]:
    return ["--model", f"{module}:{model}", "--batch", f"{module}:{batch}", "--loss", loss]


# The batch, what finding says so (level, title, part of where), and for anomalies more of its text.
FAULTS = {
    "vanishing": ("batch", "warning", "Vanishing gradients", "layers.0", "residual connections"),
    "exploding": ("sequences", "warning", "Exploding gradients", "recur", "Clip the norm"),
    "dead": ("batch", "warning", "Dead ReLU", "hidden.1", "All of the outputs are 0"),
    "masked": ("batch", "error", "NaN in forward, sqrt", "", "mask the input of sqrt"),
    "wrong": ("batch", "error", "Wrong derivative", "hidden.1 (Activation)", "2 is missing"),
    "frozen": ("batch", "warning", "Frozen layers", "blocks.10", "on both sides are trained"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_each_planted_fault_is_named_in_text_json_and_html(run: Cli, fault: str) -> None:
    batch, level, title, where, says = FAULTS[fault]
    found = run("report", *own(fault, batch, module=EXAMPLES), "--json", "x.json", "--html", "x.html")
    assert found.status == 1 and not found.err
    assert f"[{level}] {title}" in found.out and says in found.out
    data = json.loads(Path("x.json").read_text())
    finding = data["findings"][0]
    assert (finding["level"], finding["title"]) == (level, title)
    assert where in (finding["where"] or [""]) and says in finding["text"] + finding["advice"]
    assert data["verdict"] == level
    page = Path("x.html").read_text()
    summary = page.partition('id="graph"')[0]
    assert title in summary and says in summary and f"{level.capitalize()}:</span>" in summary


def test_the_line_of_a_nan_is_shown(run: Cli) -> None:
    lines = (ROOT / "snippets/capstone/examples.py").read_text().splitlines()
    line = next(k for k, text in enumerate(lines, 1) if "x.sqrt()" in text)
    assert f"examples.py:{line}: x = torch.where" in run("anomalies", *own("masked", module=EXAMPLES)).out


def test_a_healthy_model_is_healthy(run: Cli) -> None:
    found = run("report", *own("healthy"))
    assert found.status == 0 and found.out.startswith("Regressor: healthy\n") and not found.err


def test_a_frozen_beginning_is_a_note(run: Cli) -> None:
    Path("tuned.py").write_text("from sick import *\nmodel = healthy()\nmodel.encoder.requires_grad_(False)\n")
    arguments = ["--model", "tuned:model", "--batch", "sick:batch", "--loss", "torch.nn:MSELoss"]
    found = run("gradients", *arguments)
    sys.modules.pop("tuned")
    assert found.status == 0 and "[note] Frozen layers in encoder.0." in found.out


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_examines_the_demo(run: Cli, command: str) -> None:
    found = run(command, "--depth", "2", "--dim", "8", "--json", "-", "--html", "x.html")
    data = json.loads(found.out)
    assert found.status == 0 and data["schema_version"] == 1 and data["command"] == command
    sections = ["graph", "gradients", "curvature", "derivatives", "anomalies"]
    made = sections if command == "report" else [command]
    assert [name for name in sections if data[name] is not None] == made and data["unavailable"] == {}
    page = Path("x.html").read_text()
    assert [name for name in sections if f'<h2 id="{name}">' in page] == made


def test_depth_dim_device_and_dtype_are_used(run: Cli) -> None:
    arguments = ["--depth", "2", "--dim", "8", "--dtype", "float64", "--device", "cpu", "--seed", "7"]
    data = json.loads(run("gradients", *arguments, "--json", "-").out)
    rows = data["gradients"]["rows"]
    assert [row["shape"] for row in rows[::2]] == [[8, 8], [8, 8], [10, 8]]
    assert {row["dtype"] for row in rows} == {"float64"}
    assert data["about"]["seed"] == 7 and data["about"]["device"] == "cpu"


def test_a_seed_repeats_a_report_and_another_changes_it(run: Cli) -> None:
    one, two, other = (run("gradients", "--seed", seed).out for seed in "001")
    assert one == two != other


def test_a_named_device_has_the_weights_of_the_cpu_whatever_the_default_is(run: Cli) -> None:
    for arguments in (["--depth", "1"], own("healthy", module=EXAMPLES)):
        expected = run("gradients", *arguments, "--device", "cpu").out
        with torch.device("meta"):
            assert run("gradients", *arguments, "--device", "cpu").out == expected


def test_a_model_with_its_own_loss_takes_a_dict(run: Cli) -> None:
    found = run("report", "--model", "sick:WithLoss", "--batch", "sick:keywords", "--json", "-")
    data = json.loads(found.out)
    assert found.status == 0 and data["about"]["loss"] == "" and data["derivatives"]["loss"]["passed"]


def test_a_module_that_is_no_factory_is_taken_as_it_is(run: Cli) -> None:
    assert run("graph", *own("model")).status == 0


def test_dropout_is_checked_in_eval_mode_and_said_so(run: Cli) -> None:
    found = run("derivatives", *own("dropout"))
    assert found.status == 0 and "passed" in found.out and "eval mode" in found.out


@pytest.mark.parametrize(("level", "status"), [("never", 0), ("error", 0), ("warning", 1)])
def test_fail_on_sets_which_findings_fail(run: Cli, level: str, status: int) -> None:
    assert run("gradients", *own("vanishing", module=EXAMPLES), "--fail-on", level).status == status


def test_a_nan_model_gives_valid_json(run: Cli) -> None:
    def refuse(name: str) -> None:
        raise AssertionError(name)

    found = run("report", *own("masked", module=EXAMPLES), "--json", "-", "--fail-on", "never")
    data = json.loads(found.out, parse_constant=refuse)
    assert found.status == 0 and data["gradients"]["total_norm"] == "NaN"


def test_stdout_is_clean_for_json_when_the_model_prints(run: Cli) -> None:
    found = run("graph", *own("chatty"), "--json", "-")
    assert json.loads(found.out)["command"] == "graph" and "loading…" in found.err


USAGE = {
    "no command": ([], "COMMAND"),
    "unknown command": (["grph"], "invalid choice: 'grph'"),
    "abbreviated option": (["graph", "--dep", "3"], "--dep"),
    "depth": (["graph", "--depth", "0"], "0 is not 1 or more"),
    "dim": (["graph", "--dim", "x"], "invalid"),
    "batch alone": (["graph", "--batch", "sick:batch"], "--batch needs --model"),
    "model alone": (["graph", "--model", "sick:healthy"], "--model needs --batch"),
    "demo's option": (["graph", *own("healthy"), "--depth", "3"], "--depth is of the demo"),
    "no colon": (["graph", "--model", "sick", "--batch", "sick:batch"], "expected MODULE:FACTORY"),
    "a path": (["graph", "--model", "a/sick.py", "--batch", "b:c"], "package.name"),
    "no module": (["graph", "--model", "absent.here:f", "--batch", "b:c"], "no module 'absent'"),
    "no factory": (["graph", *own("absent")], "module 'sick' has no 'absent'"),
    "raises": (["graph", *own("raises")], "raised ValueError: no weights at all"),
    "exits": (["graph", *own("leaves")], "raised SystemExit: bye"),
    "no model": (["graph", *own("number")], "returned a int, not a torch.nn.Module"),
    "loss": (["graph", *own("healthy", loss="torch.nn.functional:mse_loss")], "called without arguments"),
    "loss is no function": (["graph", *own("healthy", loss="sick:number")], "returns the criterion"),
    "batch does not fit": (["report", *own("healthy", "narrow")], "The model raised on its inputs"),
    "no criterion": (["graph", "--model", "sick:healthy", "--batch", "sick:batch"], "no criterion"),
    "loss is no scalar": (["graph", *own("healthy", loss="torch.nn:Identity")], "criterion cannot take"),
    "model breaks": (["gradients", *own("Breaks")], "the model raised OSError: disk full"),
    "device": (["graph", "--device", "abacus"], "--device abacus"),
    "dtype": (["graph", "--dtype", "int8"], "invalid choice: 'int8'"),
    "html to stdout": (["graph", "--html", "-"], "--html needs a path"),
    "same file": (["graph", "--html", "a", "--json", "./a"], "name the same file"),
    "no directory": (["graph", "--json", "absent/x.json"], "there is no such directory"),
    "a directory": (["graph", "--html", "."], "it is a directory"),
    "empty path": (["graph", "--html", ""], "it is a directory"),
}


@pytest.mark.parametrize("case", USAGE)
def test_usage_errors_are_one_line_and_exit_2(run: Cli, case: str) -> None:
    arguments, says = USAGE[case]
    found = run(*arguments)
    assert found.status == 2 and not found.out
    assert found.err.startswith("autograd-debugger: error: ") and found.err.count("\n") == 1
    assert says in found.err


UNUSABLE = """
import torch
from torch import nn
frozen = nn.Linear(16, 1).requires_grad_(False)
elsewhere = nn.Linear(16, 1, device="meta")
empty = nn.ReLU()
def apart(): return lambda output, y: output.detach().square().mean()
def rows(): return lambda output, y: (output - y).square()
def text(): return lambda output, y: "low"
"""
BAD = {
    "empty": ("torch.nn:MSELoss", "ReLU has no parameters."),
    "frozen": ("torch.nn:MSELoss", "No parameter of Linear requires grad"),
    "elsewhere": ("torch.nn:MSELoss", "The model is on meta and the batch on cpu: move one of them."),
    "sick:healthy not connected": ("unusable:apart", "The loss is not connected to any parameter"),
    "sick:healthy no scalar": ("unusable:rows", "The loss is not a scalar but tensor (32, 1) float32"),
    "sick:healthy no tensor": ("unusable:text", "The loss is str, not a tensor"),
    "sick:WithLoss with a criterion": ("unusable:rows", "The model raised on its inputs"),
}


@pytest.mark.parametrize("command", ["report", "curvature"])
@pytest.mark.parametrize("name", BAD)
def test_a_model_or_loss_that_cannot_be_used_is_one_sentence(run: Cli, name: str, command: str) -> None:
    Path("unusable.py").write_text(UNUSABLE)
    loss, says = BAD[name]
    model = name.partition(" ")[0] if ":" in name else f"unusable:{name}"
    found = run(command, "--model", model, "--batch", "sick:batch", "--loss", loss)
    sys.modules.pop("unusable", None)
    assert found.status == 2 and not found.out and found.err.count("\n") == 1 and says in found.err


def test_debug_shows_the_users_traceback(run: Cli) -> None:
    err = run("graph", *own("raises"), "--debug").err
    assert "in raises" in err and 'raise ValueError("no weights' in err
    assert err.splitlines()[-1].startswith("autograd-debugger: error: ")


@pytest.mark.parametrize("option", ["--json", "--html"])
def test_an_unwritable_target_is_found_before_the_work(run: Cli, option: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*given: Any, **named: Any) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(files.tempfile, "TemporaryFile", refuse)
    found = run("graph", *own("interrupted"), option, "x")
    assert found.status == 2 and f"{option} x: Permission denied" in found.err


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name != "__pycache__")


def test_an_interrupt_exits_130_and_leaves_no_file(run: Cli) -> None:
    before = names(Path())
    found = run("graph", *own("interrupted"), "--json", "x.json", "--html", "x.html")
    assert found.status == 130 and found.err == "autograd-debugger: interrupted\n"
    assert names(Path()) == before


def test_an_interrupt_while_writing_keeps_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*given: Any) -> None:
        raise KeyboardInterrupt

    target = tmp_path / "x.json"
    target.write_text("old")
    monkeypatch.setattr(files, "_mode", interrupt)
    with pytest.raises(KeyboardInterrupt):
        files.write_whole(str(target), "new")
    assert target.read_text() == "old" and names(tmp_path) == ["x.json"]


def test_a_written_file_follows_links_and_keeps_its_mode(tmp_path: Path) -> None:
    target, link = tmp_path / "x.json", tmp_path / "link"
    target.write_text("old")
    target.chmod(0o640)
    link.symlink_to(target)
    files.write_whole(str(link), "new")
    assert link.is_symlink() and target.read_text() == "new"
    assert target.stat().st_mode & 0o777 == 0o640


def test_a_device_is_written_to_and_not_replaced(run: Cli) -> None:
    assert run("graph", "--json", os.devnull, "--html", os.devnull).status == 0
    assert not Path(os.devnull).is_file()


def test_progress_is_shown_on_a_terminal_only(
    run: Cli, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("graph").err == ""
    monkeypatch.setattr(cli.sys.stderr, "isatty", lambda: True, raising=False)
    found = run("graph")
    assert "graph …" in found.err and found.err.endswith("\r\033[K")
    assert "…" not in found.out.splitlines()[0]


def started(*arguments: str, folder: Path, path: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(path)},
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_the_folder_works_as_a_copy_under_another_name(tmp_path: Path) -> None:
    (tmp_path / "mycopy").mkdir()
    (tmp_path / "mycopy/capstone").symlink_to(ROOT / "snippets/capstone")
    example = own("frozen", module="mycopy.capstone.examples")
    done = started("-m", "mycopy.capstone", "gradients", *example, folder=tmp_path, path=tmp_path)
    assert done.returncode == 1 and "Frozen layers in blocks.0" in done.stdout and not done.stderr


def test_a_reader_that_leaves_is_no_error() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "snippets.capstone", "graph"]
    done = subprocess.run(command, cwd=ROOT, stdout=writer, stderr=subprocess.PIPE, text=True)
    os.close(writer)
    assert done.returncode == 0 and done.stderr == ""


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_names_every_option(run: Cli, command: str) -> None:
    found = run(*([command] if command else []), "--help")
    assert found.status == 0
    for word in ["--model", "--fail-on", "--json", "--debug"] if command else COMMANDS:
        assert word in found.out
