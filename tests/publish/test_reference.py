"""Reference lists: what the parser and the dataclasses say, on the page; a mistake stops the build."""

import argparse
import dataclasses
import inspect
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest
from markdown import Markdown

from doccheck import checks
from doccheck.project import Project
from publish import reference
from publish.editions import notebook
from publish.fields import FieldError, as_json, described, within
from publish.places import BuildStopped
from snippets.capstone.cli import COMMANDS, parser
from snippets.capstone.demo import demo
from snippets.capstone.diagnosis import Diagnosis
from snippets.capstone.gradients import STATUSES
from snippets.capstone.monitor import GradientAnomaly, MonitorReport, MonitorStep

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "capstone" / "cli.md"


def html(text: str) -> str:
    return Markdown(extensions=["pymdownx.superfences", "publish.reference"]).convert(text)


@dataclass
class Inner:
    """One.

    size: bytes.
    """

    size: int


@dataclass
class Sample:
    """A sample of the ways to describe a field.

    one: of line
        breaks and `code < 1`. two: in the same line; three: after a semicolon
    four, five: together. The word six: is no field.

    one: a second paragraph goes on elsewhere.
    seven … nine: a range.
    """

    one: int
    two: str | None
    three: tuple[int, ...]
    four: dict[str, float]
    five: tuple[int, str]
    seven: Literal["a", "b"]
    eight: tuple[Inner, ...]
    nine: Inner | None
    ten: bool  # behind the field,
    # and below it


def test_a_field_is_described_by_its_docstring_or_its_comment() -> None:
    texts = {field.name: field.text for field in described(Sample)}
    assert texts == {
        "one": "a second paragraph goes on elsewhere.",
        "two": "in the same line",
        "three": "after a semicolon",
        "four": "together. The word six: is no field.",
        "five": "together. The word six: is no field.",
        "seven": "a range.",
        "eight": "a range.",
        "nine": "a range.",
        "ten": "behind the field, and below it",
    }


def test_types_are_said_as_json_knows_them() -> None:
    said = {field.name: as_json(field.type) for field in described(Sample)}
    words = {name: "".join(p if isinstance(p, str) else p.__name__ for p in parts) for name, parts in said.items()}
    assert words == {
        "one": "integer",
        "two": "text or null",
        "three": "list of integer",
        "four": "object, name to number",
        "five": "[integer, text]",
        "seven": "“a” or “b”",
        "eight": "list of Inner",
        "nine": "Inner or null",
        "ten": "true or false",
    }
    assert within(Sample) == [Sample, Inner]


def test_a_field_without_a_text_names_the_line_and_what_to_type() -> None:
    @dataclass
    class Bare:
        size: int

    line = inspect.getsourcelines(Bare)[1]
    with pytest.raises(FieldError, match=rf"test_reference\.py:{line}: Bare\.size is not described; write 'size: …'"):
        described(Bare)


def test_a_type_that_json_does_not_know_is_refused() -> None:
    with pytest.raises(FieldError, match="has no name in JSON"):
        as_json(complex)


def test_options_show_their_value_choices_and_help() -> None:
    made = argparse.ArgumentParser()
    one = made.add_argument("--one", metavar="PATH", help="a < b, `code`")
    two = made.add_argument("--two-parts", choices=["x", "y"], help="two")
    three = made.add_argument("--three", action="store_true", help="three")
    assert reference.option_list([one, two, three]) == (
        '<dl class="reference"><div id="option-one"><dt><code>--one</code> <span class="kind">PATH</span></dt>'
        "<dd>a &lt; b, <code>code</code></dd></div>"
        '<div id="option-two-parts"><dt><code>--two-parts</code> <span class="kind"><code>x</code> or <code>y</code>'
        '</span></dt><dd>two</dd></div><div id="option-three"><dt><code>--three</code></dt><dd>three</dd></div></dl>'
    )


def test_a_marker_becomes_a_list_and_code_stays_code() -> None:
    page = html("# A\n\n<!-- cli: commands -->\n\n`<!-- cli: x -->`\n\n```text\n<!-- fields: x -->\n```\n")
    assert all(f'<div id="command-{name}"><dt><code>{name}</code></dt>' in page for name in COMMANDS)
    assert "&lt;!-- cli: x --&gt;" in page and "&lt;!-- fields: x --&gt;" in page


def test_a_dataclass_within_leads_to_its_own_list() -> None:
    page = html("<!-- fields: capstone.graph.GraphReport -->")
    assert (
        '<p class="reference-title" id="fields-graphreport"><code>GraphReport</code> The graph behind a loss, as plain '
        'data.</p><dl class="reference" data-search-exclude><div><dt><code>nodes</code>'
    ) in page
    assert '<span class="kind">list of <a href="#fields-graphleaf">GraphLeaf</a></span>' in page


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("<!-- cli: comands -->", "no group 'comands'; did you mean 'commands'?"),
        ("<!-- cli: x -->", "there are: commands, what to examine, what to write"),
        ("<!-- fields: capstone.absent.Report -->", "there is no snippets/capstone/absent.py"),
        ("<!-- fields: capstone.graph.GrafReport -->", "it has no GrafReport; did you mean 'GraphReport'?"),
        ("<!-- fields: capstone.outputs.Criterion -->", "Criterion"),
        ("<!-- cli commands -->", "would be hidden as a comment; write <!-- cli: NAME -->"),
        ("Text <!-- field: x -->", "would be hidden as a comment"),
    ],
)
def test_a_mistake_names_the_line_and_what_to_type(
    line: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "a.md"
    page.write_text(f"# A\n\n{line}\n", "utf-8")
    monkeypatch.setattr(reference, "page_file", lambda md: page)
    monkeypatch.setattr(reference, "where", lambda md, number: f"docs/a.md:{number}")
    with pytest.raises(BuildStopped) as stopped:
        html(page.read_text("utf-8"))
    assert str(stopped.value).startswith("docs/a.md:3: ") and says in str(stopped.value)


# What the page of this site must have, whatever is added to the program.


@pytest.fixture(scope="module")
def source() -> str:
    return PAGE.read_text("utf-8")


def test_every_command_has_the_same_options_each_with_its_help_and_default() -> None:
    known = reference.commands(parser())
    assert list(known) == list(COMMANDS)
    options: dict[str, list[tuple[Any, ...]]] = {}
    for name, (text, sub) in known.items():
        assert text
        own = [action for action in sub._actions if action.dest != "help"]
        options[name] = [(a.option_strings, a.help, a.default, a.choices) for a in own]
        for action in own:
            assert action.help, f"{name} {action.option_strings} has no help="
            if action.default not in (None, "", False):
                assert f"(default: {action.default})" in action.help
    assert all(found == options["report"] for found in options.values())


def test_the_size_of_the_demo_is_as_its_help_says() -> None:
    defaults = {name: p.default for name, p in inspect.signature(demo).parameters.items()}
    helps = {a.dest: a.help for group in reference.groups(parser()).values() for a in group}
    assert all(f"(default: {defaults[name]})" in helps[name] for name in ("depth", "dim"))


def test_the_page_lists_the_commands_all_groups_and_all_dataclasses(source: str) -> None:
    markers = set(re.findall(r"^<!-- (\w+: .+?) -->$", source, re.M))
    wanted = {f"cli: {name}" for name in ["commands", *reference.groups(parser())]}
    for cls in [*within(Diagnosis), *within(MonitorReport), GradientAnomaly, MonitorStep]:
        wanted.add(f"fields: {cls.__module__.removeprefix('snippets.')}.{cls.__name__}")
    missing = "".join(f"\n<!-- {one} -->" for one in sorted(wanted - markers))
    assert not missing, f"docs/capstone/cli.md lacks{missing}"


def test_the_page_explains_every_status_with_its_level(source: str) -> None:
    rows = re.findall(r"^\| `(\w+)` \| (error|warning|note|–) \|", source, re.M)
    assert rows == [(status, level or {"ok": "–", "frozen": "note"}[status]) for status, level in STATUSES.items()]


def test_the_schema_version_of_the_page_is_the_programs(source: str) -> None:
    assert "`1`{ data-value=" in source.partition("## The JSON")[2].partition("\n## ")[0]


def test_the_notebook_leads_to_the_lists() -> None:
    project = Project.load(ROOT)
    text = notebook(project, checks.load(project, PAGE), "https://example.org/")
    assert "[The list on the site: GraphReport](https://example.org/capstone/cli/)" in text
    assert "<!-- fields" not in text


def test_dataclasses_of_the_site_are_described() -> None:
    for cls in [*within(Diagnosis), *within(MonitorReport), MonitorStep]:
        assert [field.name for field in described(cls)] == [field.name for field in dataclasses.fields(cls)]
