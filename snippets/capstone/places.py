# SPDX-License-Identifier: 0BSD
"""Which line of code runs, and which line made a node of the graph."""

import linecache
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch


@dataclass(frozen=True)
class Place:
    """A line of code outside torch.

    file: its path, "" if there is none. line: its number, from 1; 0 if
        there is none. function: the name of the function that it is in.
    code: the line itself, without indentation.
    """

    file: str = ""
    line: int = 0
    function: str = ""
    code: str = ""


def title(node: Any) -> str:
    """Return the name of a node without namespaces: DivBackward0."""
    return str(type(node).name(node)).rpartition("::")[2]


def origin(node: Any) -> tuple[int, Any]:
    """Return the order of a derivative and the node of the forward."""
    order = 1
    while (parent := node.metadata.get("parent_")) is not None:
        node, order = parent, order + 1
    return order, node


_TORCH = str(Path(torch.__file__).parent)
_OURS = str(Path(__file__).parent)
_WATCHERS = ("sightings.py", "places.py")  # they run inside an operation
_EXAMPLES = str(Path(__file__).with_name("examples.py"))  # to be examined
_LINE = re.compile(r'  File "(.*)", line (\d+), in (.*)')


def _outside(file: str) -> bool:
    """Whether a file is neither torch's nor machinery around it."""
    return Path(file).name != "contextlib.py" and not file.startswith(
        (_TORCH, "<frozen", "<eval_with_key")
    )


def _ours(file: str) -> bool:
    return file.startswith(_OURS) and file != _EXAMPLES


def here() -> Place:
    """Return the innermost running line outside torch and this folder."""
    frame: Any = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if _ours(file):
            if not file.endswith(_WATCHERS):
                break
        elif _outside(file):
            return _place(file, frame.f_lineno, frame.f_code.co_name)
        frame = frame.f_back
    return Place()


def of_node(node: Any) -> Place:
    """Return the line of the forward that made a node (anomaly mode)."""
    for entry in reversed(node.metadata.get("traceback_") or []):
        match = _LINE.match(entry)
        if match and _ours(match[1]):
            if not match[1].endswith(_WATCHERS):
                break
        elif match and _outside(match[1]):
            return _place(match[1], int(match[2]), match[3])
    return Place()


def _place(file: str, line: int, function: str) -> Place:
    return Place(file, line, function, linecache.getline(file, line).strip())
