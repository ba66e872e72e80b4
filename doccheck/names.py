"""Names: what a block's code refers to, and at which line."""

from __future__ import annotations

import dis
from collections.abc import Iterator
from types import CodeType


def uses(code: CodeType) -> Iterator[tuple[str, str, int]]:
    """Every name in the code: the operation, the name, the line."""
    for instruction in dis.get_instructions(code):
        if isinstance(instruction.argval, str):
            line = instruction.positions.lineno if instruction.positions else None
            yield instruction.opname, instruction.argval, line or code.co_firstlineno
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from uses(constant)


def outside(code: CodeType) -> dict[str, int]:
    """Names that the code looks up outside itself, and the first line of each."""
    found: dict[str, int] = {}
    for instruction in dis.get_instructions(code):
        if instruction.opname in {"LOAD_GLOBAL", "LOAD_NAME"} and instruction.positions:
            found.setdefault(instruction.argval, instruction.positions.lineno or code.co_firstlineno)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            # A class body looks its own names up the same way; what it assigns is its own.
            own = set(constant.co_names) & _stored(constant)
            found = {name: line for name, line in outside(constant).items() if name not in own} | found
    return found


def _stored(code: CodeType) -> set[str]:
    return {i.argval for i in dis.get_instructions(code) if i.opname == "STORE_NAME"} | {"__name__", "__module__"}
