"""Script: a page's Python as one file, and where each of its lines came from.

The file is what `__main__` is while the page runs, so that pickling, `inspect.getsource` and spawned workers find it.
Each block is compiled at its own lines of this file; tracebacks are then read back to the page or the snippet.
"""

from __future__ import annotations

import io
import textwrap
import tokenize
from dataclasses import dataclass, field

from doccheck.outputs import names_error
from doccheck.page import Block, Page
from doccheck.places import Line, Place


@dataclass
class Script:
    """`first[id]` is the line at which a block's code starts; `places[n]` is where line n came from."""

    lines: list[str] = field(default_factory=list)
    first: dict[str, int] = field(default_factory=dict)
    last: dict[str, int] = field(default_factory=dict)
    places: dict[int, Place] = field(default_factory=dict)

    def through(self, block_id: str) -> str:
        """The script up to a block: a worker that it spawns runs this, and nothing that has not run yet."""
        return "\n".join(self.lines[: self.last[block_id]]) + "\n"


def write(page: Page) -> Script:
    """The script edition of a page. An expected error is caught and printed, a block with needs is guarded."""
    script = Script()
    lines = script.lines
    for block in page.blocks:
        if block.kind != "python":
            continue
        lines += [f"# {block.place}"]
        before, code, after = framed(block)
        lines += before
        script.first[block.id] = len(lines) + 1
        for line in code:
            lines.append(line)
            script.places[len(lines)] = line.place
        lines += after
        script.last[block.id] = len(lines)
        lines += [""]
    return script


def framed(block: Block) -> tuple[list[str], list[Line], list[str]]:
    """The code of a block as it stands in a script, with what comes before and after it."""
    before: list[str] = []
    after: list[str] = []
    if block.needs is not None:
        before.append(f"if {block.needs.condition()}:")
    if block.transcript is not None and names_error(block.transcript.text):
        inner = "    " * len(before)
        before.append(f"{inner}try:")
        after = [
            f"{inner}except Exception as _error:",
            f"{inner}    print(*__import__('traceback').format_exception_only(_error), end='')",
        ]
    return before, _indented(block.fence.lines, len(before)), after


def _indented(lines: list[Line], depth: int) -> list[Line]:
    """The lines under a compound statement; what continues a string keeps its column, or its value would change."""
    if not depth:
        return lines
    text = "\n".join(lines)
    inside: set[int] = set()
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(text + "\n").readline))
    except (tokenize.TokenError, SyntaxError):
        return [Line(textwrap.indent(line, "    " * depth), line.place) for line in lines]
    for token in tokens:
        if token.type == tokenize.STRING or tokenize.tok_name[token.type].startswith("FSTRING"):
            inside.update(range(token.start[0] + 1, token.end[0] + 1))
    return [
        line if number in inside or not line.strip() else Line("    " * depth + line, line.place)
        for number, line in enumerate(lines, 1)
    ]
