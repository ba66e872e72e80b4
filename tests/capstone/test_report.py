"""The HTML page: one file, valid, accessible, nothing of the user's is markup."""

import dataclasses
import itertools
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from snippets.capstone import examples
from snippets.capstone.activity import find_dead_relus
from snippets.capstone.demo import demo
from snippets.capstone.diagnosis import Diagnosis, diagnose
from snippets.capstone.gradients import LayerVerdict
from snippets.capstone.loading import assemble
from snippets.capstone.overview import overview
from snippets.capstone.plots import MOST, chosen
from snippets.capstone.report import page
from snippets.capstone.style import CSS
from tests.capstone import sick
from tests.capstone.models import CASES
from tests.capstone.same import differences, photo

VOID = {"meta", "link", "br", "wbr", "line", "circle", "rect", "polygon", "path"}


class Tree(HTMLParser):
    """Fails on a tag that is not closed; collects tags with their attributes and text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, Any]]] = []
        self.text = ""
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data

    def all(self, name: str) -> Iterator[dict[str, Any]]:
        return (attrs for tag, attrs in self.tags if tag == name)


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


def examined(model: nn.Module, batch: Any = None) -> Diagnosis:
    names = "m:model", "m:batch", "m:loss"
    return diagnose(assemble(model, batch or examples.batch(), nn.MSELoss(), names))


@pytest.fixture(scope="module")
def html() -> str:
    return page(diagnose(demo(2, 8)))


def test_the_page_is_one_file_without_script_or_network(html: str) -> None:
    tags = Tree(html)
    assert not {"script", "img", "iframe", "object"} & {tag for tag, _ in tags.tags}
    assert [link["href"] for link in tags.all("link")] == ["data:,"]  # an icon, so that none is asked for
    assert not re.search(r"https?:|url\(|@import|src=", html)
    assert all(a["href"].startswith("#") for a in tags.all("a"))


def test_links_lead_somewhere_and_ids_are_unique(html: str) -> None:
    tags = Tree(html)
    ids = [attrs["id"] for _, attrs in tags.tags if "id" in attrs]
    assert len(ids) == len(set(ids))
    assert {a["href"][1:] for a in tags.all("a")} <= set(ids)
    assert {a["aria-labelledby"] for a in tags.all("section")} <= set(ids)


def test_landmarks_headings_tables_and_pictures_are_named(html: str) -> None:
    tags = Tree(html)
    names = [tag for tag, _ in tags.tags]
    assert [names.count(tag) for tag in ("header", "main", "nav", "h1", "title")] == [1] * 5
    levels = [int(tag[1]) for tag in names if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1 and all(b - a <= 1 for a, b in itertools.pairwise(levels))
    assert names.count("caption") == names.count("table") and all("scope" in a for a in tags.all("th"))
    pictures = [a for a in tags.all("svg") if "aria-hidden" not in a]
    assert len(pictures) == 6 and all(a["role"] == "img" and len(a["aria-label"]) > 30 for a in pictures)
    assert all(a["class"].startswith("sign ") for a in tags.all("svg") if "aria-hidden" in a)
    assert names.count("figcaption") == names.count("figure") == 3
    assert next(tags.all("html"))["lang"] == "en"


def test_the_summary_comes_first_and_each_section_has_its_formula(html: str) -> None:
    order = ["verdict", "summary", "examined", "graph", "gradients", "curvature", "derivatives", "anomalies"]
    places = [html.index(f'"{name}"') for name in order]
    assert places == sorted(places)
    for part in html.split("<section ")[3:]:
        assert '<details class="how"><summary>How this is computed</summary>' in part
        assert "<code>" in part and "Cost in gradients: " in part


def test_names_of_the_user_are_text(tmp_path: Path) -> None:
    html = page(examined(sick.Named()))
    assert "<b>&" not in html and "<script>" not in html
    assert "<b>&\"'.weight" in Tree(html).text


def test_a_state_is_never_shown_by_colour_alone() -> None:
    html = page(examined(examples.frozen()))
    assert "Warning:</span> Frozen layers" in html
    svg = html[html.index('<svg class="wide"') :]
    assert ">frozen</text>" in svg and ">ok</text>" in svg


def colours(scheme: str) -> dict[str, str]:
    return dict(re.findall(r"--(\w+): (#\w{6})", scheme))


def luminance(colour: str) -> float:
    parts = [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("k", [0, 1])
def test_contrast_is_aa_in_light_and_dark(k: int) -> None:
    found = colours(CSS.split("@media", 2)[k])
    page_colour = luminance(found["page"])
    for name, least in {
        "ink": 4.5,
        "quiet": 4.5,
        "accent": 4.5,
        "error": 4.5,
        "warning": 4.5,
        "bar": 3,
        "line": 3,
    }.items():
        low, high = sorted([page_colour, luminance(found[name])])
        assert (high + 0.05) / (low + 0.05) >= least, name


def test_what_cannot_be_made_is_said(html: str) -> None:
    diagnosis = dataclasses.replace(diagnose(demo(1, 4), "graph"), unavailable={"curvature": "No <second> derivative."})
    html = page(diagnosis)
    assert "Not available. No &lt;second&gt; derivative." in html and "Curvature: not available. No <second>" in str(
        diagnosis
    )


def checks(diagnosis: Diagnosis) -> dict[str, tuple[str, str]]:
    return {check.section: (check.level, check.text) for check in overview(diagnosis)}


def test_each_check_has_a_line_with_its_level_and_number() -> None:
    lines = checks(examined(examples.frozen()))
    assert lines["gradients"][0] == "warning" and lines["gradients"][1].endswith("20 of 28 parameters ok, 8 frozen")
    assert lines["anomalies"] == ("ok", "no NaN, no inf")
    assert lines["derivatives"] == ("ok", "first order right, second order right")


@pytest.mark.parametrize(
    ("fault", "told"),
    {
        "masked": {"anomalies": ("error", "NaN in forward, sqrt")},
        "wrong": {"derivatives": ("error", "wrong in hidden.1 (Activation)")},
    }.items(),
)
def test_a_check_that_an_error_spoils_is_not_called_ok(fault: str, told: dict[str, tuple[str, str]]) -> None:
    lines = checks(examined(getattr(examples, fault)()))
    spoilt = {"curvature", "derivatives"} - set(told)
    assert {section: lines[section] for section in told} == told
    assert {lines[section][0] for section in spoilt} == {"note"}


def test_a_long_table_is_folded_and_what_is_not_ok_stands_before_it() -> None:
    html = page(examined(examples.vanishing()))
    first, fold, _ = html.partition("<details><summary>All parameters (82)</summary>")
    assert fold and re.search("Parameters that are not ok, [0-9]+ in all; the first 24", first)
    assert "<details open><summary>All parameters (6)</summary>" in page(examined(examples.healthy()))


def test_many_layers_keep_those_that_are_not_ok() -> None:
    layers = [LayerVerdict(str(k), 1, 1.0, "ok" if k != 150 else "zero", "") for k in range(300)]
    shown = chosen(layers)
    assert len(shown) == MOST and layers[150] in shown and shown == sorted(shown, key=lambda one: int(one.layer))


@pytest.mark.parametrize("fault", ["vanishing", "dead", "masked", "wrong", "frozen"])
def test_pages_of_sick_models_are_well_formed(fault: str) -> None:
    html = page(examined(getattr(examples, fault)()))
    Tree(html)
    assert 'x1="nan' not in html and 'cx="inf' not in html


def test_a_dead_relu_is_named_with_its_module() -> None:
    x, y = examples.batch()
    found = find_dead_relus(examples.dead(), x, y, nn.MSELoss())
    assert [(one.module, one.zeros, one.shape) for one in found] == [
        ("encoder.1", 1.0, (32, 16)),
        ("hidden.1", 1.0, (32, 16)),
    ]
    assert find_dead_relus(examples.healthy(), x, y, nn.MSELoss()) == ()


def test_the_innermost_wrong_module_is_named() -> None:
    report = examined(examples.wrong()).derivatives
    assert report is not None and (report.module, report.kind) == ("hidden.1", "Activation")
    assert report.loss.mismatch is not None and report.loss.mismatch.output.startswith("loss")


class Cached(torch.autograd.Function):
    """x³, whose backward uses a number saved without its graph: the second derivative is wrong."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        square = x * x
        ctx.save_for_backward(square)
        return square * x

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> torch.Tensor:
        (square,) = ctx.saved_tensors
        return 3 * g * square


class Cube(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return Cached.apply(x)


def test_a_wrong_second_derivative_is_followed_to_its_module() -> None:
    report = examined(nn.Sequential(nn.Linear(16, 4), Cube(), nn.Linear(4, 1)))
    found = next(one for one in report.findings if one.section == "derivatives")
    assert (found.level, found.title, found.where) == ("warning", "Wrong second derivative", ("1 (Cube)",))
    assert "intermediate" in found.advice


class Forked(nn.Module):
    """Parts that are a list, called with keywords, and used twice."""

    def __init__(self) -> None:
        super().__init__()
        self.parts = nn.ModuleList([nn.Linear(16, 16), examples.Activation()])
        self.head = nn.Linear(16, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for part in [*self.parts, self.parts[0]]:
            x = part(input=x) if isinstance(part, nn.Linear) else part(x=x)
        return self.head(x)


def test_a_wrong_module_is_found_in_a_list_and_by_keywords() -> None:
    report = examined(Forked()).derivatives
    assert report is not None and report.module == "parts.1"


@pytest.mark.parametrize("name", ["checkpointed", "odd"])
def test_checkpoints_and_lazy_parameters_are_examined_like_any_others(name: str) -> None:
    model, inputs, targets, criterion = CASES[name]()
    found = diagnose(assemble(model, (inputs, targets), criterion, ("m:model", "m:batch", "")))
    assert found.unavailable == {} and found.derivatives is not None and found.derivatives.loss.passed


@pytest.mark.parametrize("name", ["bag", "vae", "tagger", "encoder"])
def test_a_report_leaves_the_model_as_it_was(name: str) -> None:
    model, inputs, targets, criterion = CASES[name]()
    before = photo(model, inputs, targets)
    subject = assemble(model, (inputs, targets), criterion, ("m:model", "m:batch", ""))
    before["torch"] = photo(model)["torch"]  # the seed was set
    found = diagnose(subject)
    assert differences(before, photo(model, inputs, targets)) == [] and found.verdict == "healthy"


def test_a_vanishing_norm_is_that_of_the_parameter_not_of_its_layer() -> None:
    model = nn.Linear(16, 1)
    x, y = examples.batch()
    (found,) = examined(model, (x * 1e-9, y)).findings
    number = float(re.search(r"norms down to (\S+),", found.text)[1])
    assert found.title == "Vanishing gradients" and number < 1e-6
