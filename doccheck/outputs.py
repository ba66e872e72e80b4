"""Outputs: whether a transcript says what was printed.

Text is compared exactly. Integers, and floats of up to three significant digits, are exact; a longer float may differ
by one unit of the last digit shown, because the last digit of a float32 depends on the machine. Addresses, the device
of a CUDA run, and line breaks and padding inside `tensor(...)` are not compared.
"""

from __future__ import annotations

import difflib
import math
import re
from decimal import Decimal, InvalidOperation
from typing import Any

NUMBER = re.compile(r"(?<![\w.])[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?j?(?!\.?\w)")
ADDRESS = re.compile(r"\b0x[0-9a-fA-F]{4,}\b")
TRIGGERED = re.compile(r"[ \t]*\(Triggered internally at [^)]*\)")
CUDA_DEVICE = re.compile(r",\s*device='cuda(?::\d+)?'")
ERROR = re.compile(r"^(?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*(?:Error|Exception|Exit|Interrupt|Iteration)(?::|$)", re.MULTILINE)
WARNING = re.compile(r"^(?:[A-Za-z_]\w*\.)*[A-Za-z_]*Warning: ", re.MULTILINE)
EXACT_DIGITS = 3
THOUSANDS = re.compile(r"[-+]?\d{1,3}(,\d{3})+(\.\d+)?")


def names_error(transcript: str) -> bool:
    """Whether a transcript shows an error, so that the block is meant to raise."""
    return ERROR.search(transcript) is not None


def normalise(text: str, device: str = "cpu") -> str:
    """The text without what may differ between machines."""
    text = TRIGGERED.sub("", text)
    if device.startswith("cuda"):
        text = CUDA_DEVICE.sub("", text)
    text = _tensors(ADDRESS.sub("0x…", text))
    return "\n".join(line.rstrip() for line in text.split("\n")).strip("\n")


def _tensors(text: str) -> str:
    """One line and one blank for each run of white space inside `tensor(...)`."""
    parts = []
    position = 0
    for match in re.finditer(r"\btensor\(", text):
        if match.start() < position:
            continue
        end = _closing(text, match.end())
        inside = re.sub(r"\s+", " ", text[match.end() : end])
        inside = re.sub(r"(?<=[\[(]) | (?=[\])])", "", inside)
        parts += [text[position : match.end()], inside]
        position = end
    return "".join(parts) + text[position:]


def _closing(text: str, start: int) -> int:
    depth = 1
    for index in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[index], 0)
        if depth == 0:
            return index
    return start  # not a tensor's repr


def same(expected: str, printed: str, device: str = "cpu") -> bool:
    """Whether `expected`, as the page shows it, is what was printed."""
    wanted, got = normalise(expected, device), normalise(printed, device)
    if wanted == got:
        return True
    if NUMBER.sub("0", wanted) != NUMBER.sub("0", got):
        return False
    return all(map(_same_number, NUMBER.findall(wanted), NUMBER.findall(got)))


def _same_number(expected: str, printed: str) -> bool:
    if expected == printed:
        return True
    wanted, got = expected.lower(), printed.lower()
    if "." not in wanted or _decimals(wanted) != _decimals(got) or ("e" in wanted) != ("e" in got):
        return False
    if significant_digits(wanted) <= EXACT_DIGITS:
        return False
    try:
        one, other = Decimal(wanted.rstrip("j")), Decimal(got.rstrip("j"))
    except InvalidOperation:
        return False
    return abs(one - other) <= _unit(wanted)


def _decimals(number: str) -> int:
    return len(number.rstrip("j").partition("e")[0].partition(".")[2])


def significant_digits(number: str) -> int:
    return len(re.sub(r"\D", "", number.rstrip("jJ").lower().partition("e")[0]).lstrip("0"))


def _unit(number: str) -> Decimal:
    """The size of one unit of the last digit shown."""
    exponent = int(number.rstrip("j").partition("e")[2] or 0)
    return Decimal(1).scaleb(exponent - _decimals(number))


def same_shape(expected: str, printed: str, device: str = "cpu") -> bool:
    """Whether a text that varies has the same words and numbers in the same places."""

    def shape(text: str) -> str:
        text = re.sub(r"(?<![\w.])[-+]?(?:nan|inf)(?!\w)", "0", normalise(text, device))
        return re.sub(r"[ \t]+", " ", NUMBER.sub("0", text))

    return shape(expected) == shape(printed)


def same_value(shown: str, value: Any) -> bool:
    """Whether a number in prose is the value: whole numbers exactly, decimals as the value rounds to them."""
    text = shown.replace(",", "") if THOUSANDS.fullmatch(shown) else shown
    if isinstance(value, bool) or not NUMBER.fullmatch(text):
        return str(value) == shown
    try:
        number = float(value)
    except (TypeError, ValueError):
        return str(value) == shown
    if math.isnan(number) or math.isinf(number):
        return False
    mantissa = text.lower().partition("e")[0]
    if "." not in mantissa and "e" not in text.lower():
        return Decimal(text) == Decimal(number)
    style = "e" if "e" in text.lower() else "f"
    rounded = f"{number:.{_decimals(text.lower())}{style}}"
    return Decimal(rounded) == Decimal(text) or (
        significant_digits(text) > EXACT_DIGITS and abs(Decimal(rounded) - Decimal(text)) <= _unit(text.lower())
    )


def value_text(shown: str, value: Any) -> str:
    """How the prose would write this value, in the style of what it shows now."""
    text = shown.replace(",", "")
    if isinstance(value, bool) or not NUMBER.fullmatch(text):
        return str(value)
    try:
        number = float(value)
    except (TypeError, ValueError):
        return str(value)
    decimals = _decimals(text.lower())
    if "e" in text.lower():
        return f"{number:.{decimals}e}"
    comma = "," if THOUSANDS.fullmatch(shown) else ""
    if decimals:
        return f"{number:{comma}.{decimals}f}"
    return f"{int(number):{comma}}" if number == int(number) else f"{number:{comma}.4g}"


def diff(expected: str, printed: str) -> list[str]:
    """The two texts line by line: `-` the page shows, `+` was printed."""
    lines = difflib.ndiff(expected.split("\n"), printed.split("\n"))
    return [line.rstrip() for line in lines if not line.startswith("?")]
