"""The unit of code and transcript, its label and its badges."""

import html
import re
from typing import Any

import markdown
import pytest

CONFIGS: dict[str, dict[str, Any]] = {"pymdownx.highlight": {"pygments_lang_class": True, "anchor_linenums": False}}
EXTENSIONS = [
    "admonition",
    "attr_list",
    "pymdownx.superfences",
    "pymdownx.tabbed",
    "pymdownx.highlight",
    "publish.transcripts",
    "publish.traps",
]


def render(text: str) -> str:
    configs = CONFIGS | {"pymdownx.tabbed": {"alternate_style": True}}
    return markdown.markdown(text, extensions=EXTENSIONS, extension_configs=configs)


def fences(code: str, output: str, info: str = "text") -> str:
    return f"```python\n{code}\n```\n\n``` {info}\n{output}\n```\n"


def outcome(page: str) -> str:
    found = re.findall(r'data-outcome="(\w+)"', page)
    assert len(found) == 1, page
    label = re.search(r'<p class="run-label" data-search-exclude>([^<]*)</p>', page)
    assert label and label[1].startswith(found[0])
    return str(found[0])


def shown(page: str) -> list[str]:
    """The text of each Python block, read as `doccheck shown` reads it."""
    codes = re.findall(r'<div class="language-python[^"]*\bhighlight".*?<code>(.*?)</code>', page, re.DOTALL)
    return [html.unescape(re.sub(r"<[^>]+>", "", code)) for code in codes]


@pytest.mark.parametrize(
    ("code", "output", "expected"),
    [
        ("print(1)", "1", "printed"),
        ("raise ValueError('x')", "ValueError: x", "raised"),
        ("f()", "before\ntorch.OutOfMemoryError: CUDA out of memory", "raised"),
        ("assert False", "AssertionError", "raised"),
        ("raise Exception('x')", "Exception: x", "raised"),
        ("next(rows)", "StopIteration", "raised"),
        ("raise ExceptionGroup('both', errors)", "ExceptionGroup: both (2 sub-exceptions)", "raised"),
        ("warn()", "UserWarning: careful\n3", "warned"),
        ("try:\n    f()\nexcept ValueError as e:\n    print(f'ValueError: {e}')", "ValueError: x", "printed"),
        ("print('ErrorBound 1')", "ErrorBound 1", "printed"),
    ],
)
def test_outcome(code: str, output: str, expected: str) -> None:
    assert outcome(render(fences(code, output))) == expected


@pytest.mark.parametrize("indent", ["", "    "])
def test_joined_in_any_container(indent: str) -> None:
    block = fences("x = '<b>' # &amp;\nprint(x)", "<b>")
    inner = "".join(f"{indent}{line}".rstrip() + "\n" for line in block.splitlines())
    for head in ("!!! note\n\n", "- item\n\n", '=== "Tab"\n\n') if indent else ("",):
        page = render(f"{head}{inner}")
        assert page.count('class="run"') == 1, page
        assert 'class="language-text highlight no-copy transcript"' in page
        assert shown(page) == ["x = '<b>' # &amp;\nprint(x)\n"]


def test_name_of_the_error_stands_out() -> None:
    assert "<code><b>ValueError</b>: x" in render(fences("f()", "ValueError: x"))
    assert "<code><b>UserWarning</b>: x" in render(fences("f()", "UserWarning: x"))


def test_prose_between_keeps_them_apart_but_labels_the_transcript() -> None:
    page = render("```python\nprint(1)\n```\n\nProse.\n\n```text\n1\n```\n")
    assert page.index("Prose") < page.index('class="run-out"')
    assert outcome(page) == "printed"


def test_titled_text_is_no_transcript() -> None:
    page = render('``` { .text title="shapes" }\n(3,)\n```\n')
    assert "run" not in page and "transcript" not in page


def test_code_alone_has_the_frame_and_no_label() -> None:
    page = render("```python\nx = 1\n```\n\n```python\ny = 1\n```\n")
    assert page.count('<div class="run">') == 2 and len(shown(page)) == 2
    assert "run-label" not in page and "run-out" not in page and "data-outcome" not in page


def test_console_is_no_transcript() -> None:
    page = render("```python\nx = 1\n```\n\n```console\n$ nox -s site\n```\n")
    assert page.count('<div class="run">') == 1 and "run-out" not in page


@pytest.mark.parametrize(
    ("needs", "said"),
    [
        ("cuda: bfloat16 differs", "Needs <b>a CUDA device</b>: bfloat16 differs"),
        ("torch>=2.14: new name", "Needs <b>torch ≥ 2.14</b>: new name"),
        ("cuda", "Needs <b>a CUDA device</b>"),
        ("cuda: a < b", "Needs <b>a CUDA device</b>: a &lt; b"),
    ],
)
@pytest.mark.parametrize("output", ["", "\n```text\n1\n```\n"])
def test_needs(needs: str, said: str, output: str) -> None:
    page = render(f'``` {{ .python data-needs="{needs}" title="a.py" hl_lines="1" }}\nprint(1)\n```\n{output}')
    assert '<div class="run"' in page and f'<p class="run-needs">{said}</p>' in page
    assert shown(page) == ["print(1)\n"]


def test_varies() -> None:
    page = render(fences("print(t)", "0.12", '{ .text data-varies="timing" }'))
    assert ">printed · varies: timing</p>" in page


@pytest.mark.parametrize(("output", "read"), [("Net: healthy", False), ("program: error: no such module", True)])
def test_the_search_reads_the_errors_of_commands_only(output: str, read: bool) -> None:
    page = render(f"```console\n$ autograd-debugger graph\n{output}\n```\n")
    assert ("data-search-exclude" not in page) is read


@pytest.mark.parametrize(
    ("attribute", "said"),
    [
        ('data-varies="rounding"', "Its numbers vary: rounding"),
        ('data-needs="transformers: a model of it"', "Needs <b>transformers</b>: a model of it"),
    ],
)
def test_a_command_says_what_it_needs_and_that_it_varies(attribute: str, said: str) -> None:
    page = render(f"``` {{ .console {attribute} }}\n$ nox -s site\n```\n")
    assert f'<div class="run"><p class="run-needs">{said}</p><div class="language-console' in page
    assert "run-label" not in page


def test_value_is_plain_inline_code() -> None:
    page = render('It is `44`{ data-value="x.item()" }.')
    assert re.fullmatch(r'<p>It is <code data-value="x.item\(\)">44</code>.</p>', page)


def test_trap_has_a_label() -> None:
    page = render('!!! failure "Trap: `backward` builds the graph"\n\n    Truth.')
    assert '<span class="trap-label">Trap:</span> <code>backward</code> builds' in page


def test_the_search_reads_messages_and_leaves_out_code_and_numbers() -> None:
    page = render(
        "```python\nprint(1)\n```\n\n```text\n1\n```\n\n```python\n1 / 0\n```\n\n```text\nZeroDivisionError: x\n```\n"
    )
    kinds = re.findall(r'<div class="language-(\w+)[^"]*"( data-search-exclude)?>', page)
    assert [(kind, bool(out)) for kind, out in kinds] == [
        ("python", True),
        ("text", True),
        ("python", True),
        ("text", False),
    ]
