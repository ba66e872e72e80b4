"""Outputs: whether a transcript says what was printed.

Text is compared exactly. Integers, and floats of up to three significant digits, are exact; a longer float may differ
by one unit of the last digit shown, because the last digit of a float32 depends on the machine. Addresses, the device
of a CUDA run, and line breaks and padding inside `tensor(...)` are not compared.
"""

from __future__ import annotations

import difflib
import itertools
import math
import re
from decimal import Decimal, InvalidOperation
from numbers import Integral
from typing import Any

NUMBER = re.compile(r"(?<![\w.])[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?j?(?!\.?\w)")
ADDRESS = re.compile(r"\b0x[0-9a-fA-F]{4,}\b")
TRIGGERED = re.compile(r"[ \t]*\(Triggered internally at [^)]*\)")
CUDA_DEVICE = re.compile(r",\s*device='cuda(?::\d+)?'")
ENDS = "Error|Exception(?:Group)?|Exit|Interrupt|Iteration"  # of the names of errors
ERROR = re.compile(rf"^((?:[A-Za-z_]\w*\.)*(?:[A-Za-z_]\w*)?(?:{ENDS}))(?=:|$)", re.MULTILINE)
WARNING = re.compile(r"^((?:[A-Za-z_]\w*\.)*\w*Warning)(?=: )", re.MULTILINE)
EXACT_DIGITS = 3
TENSOR = re.compile(r"\btensor\(")
TOKEN = re.compile(rf"{NUMBER.pattern}|\w+|[^\w\s]")
WIDTH = 200  # of a value in a report
LONG = 2000  # of a line of a difference
LINES = 60  # of a difference
MISSING = "\0"  # stands for a unit that the other text lacks
THOUSANDS = re.compile(r"[-+]?\d{1,3}(,\d{3})+(\.\d+)?")


def names_error(transcript: str) -> bool:
    """Whether a transcript shows an error, so that the block is meant to raise."""
    return ERROR.search(transcript) is not None


def error_name(transcript: str) -> str:
    """The name of the error that a transcript shows, as in `RuntimeError`; empty where it shows none."""
    match = ERROR.search(transcript)
    return match[1] if match else ""


def normalise(text: str, device: str = "cpu") -> str:
    """The text without what may differ between machines."""
    text = TRIGGERED.sub("", text)
    if device.startswith("cuda"):
        text = CUDA_DEVICE.sub("", text)
    text = _tensors(ADDRESS.sub("0x…", text))
    lines = [line.rstrip().expandtabs(4) for line in text.split("\n")]  # tabs as Markdown shows them
    return "\n".join(lines).strip("\n")


def _tensors(text: str) -> str:
    """One line and one blank for each run of white space inside `tensor(...)`."""
    parts = []
    position = 0
    for match in TENSOR.finditer(text):
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
    number = _number(value) if _is_real(text) else None
    if number is None:
        return str(value) == shown
    if not _is_finite(number):
        return False
    if "." not in text and "e" not in text.lower():
        return Decimal(text) == Decimal(number)
    style = "e" if "e" in text.lower() else "f"
    rounded = _format(number, f".{_decimals(text.lower())}{style}")
    return Decimal(rounded) == Decimal(text) or (
        significant_digits(text) > EXACT_DIGITS and abs(Decimal(rounded) - Decimal(text)) <= _unit(text.lower())
    )


def value_text(shown: str, value: Any) -> str:
    """How the prose would write this value, in the style of what it shows now."""
    text = shown.replace(",", "")
    number = _number(value) if _is_real(text) else None
    if number is None or not _is_finite(number):
        return str(value)
    decimals = _decimals(text.lower())
    if "e" in text.lower():
        return _format(number, f".{decimals}e")
    comma = "," if THOUSANDS.fullmatch(shown) else ""
    if decimals:
        return _format(number, f"{comma}.{decimals}f")
    return f"{int(number):{comma}}" if number == int(number) else f"{number:{comma}.4g}"


def _is_real(text: str) -> bool:
    return NUMBER.fullmatch(text) is not None and not text.endswith("j")


def _number(value: Any) -> int | float | None:
    """The value as a number, whole ones exact; None where it is none, or a truth or a complex number."""
    try:
        value = value.item() if hasattr(value, "item") else value  # of torch and NumPy: exact, and no warning
        if isinstance(value, bool):
            return None
        return int(value) if isinstance(value, Integral) else float(value)
    except Exception:
        return None


def _is_finite(number: int | float) -> bool:
    return isinstance(number, int) or math.isfinite(number)


def _format(number: int | float, spec: str) -> str:
    try:
        return format(number, spec)
    except OverflowError:  # a whole number beyond all floats
        return format(Decimal(number), spec)


def units(text: str) -> list[str]:
    """The lines of a text; those of one `tensor(...)` stay together, since where it breaks means nothing."""
    found: list[str] = []
    whole = True
    for line in text.strip("\n").split("\n") if text.strip("\n") else []:
        if whole:
            found.append(line)
        else:
            found[-1] += "\n" + line
        whole = all(_closing(found[-1], match.end()) > match.end() for match in TENSOR.finditer(found[-1]))
    return found


def merge(shown: str, printed: str, device: str = "cpu") -> list[tuple[str, str]]:
    """The units of both texts side by side, (shown, printed): the same, changed, or empty on one side."""
    old, new = units(shown), units(printed)
    keys = [normalise(unit, device) for unit in old], [normalise(unit, device) for unit in new]
    pairs: list[tuple[str, str]] = []
    for _, i, k, j, m in difflib.SequenceMatcher(None, *keys, autojunk=False).get_opcodes():
        pairs += itertools.zip_longest(old[i:k], new[j:m], fillvalue=MISSING)
    return pairs


def diff(expected: str, printed: str, device: str = "cpu") -> list[str]:
    """The two texts line by line: `-` the page shows, `+` was printed."""
    lines: list[str] = []
    for shown, got in merge(expected, printed, device):
        if MISSING not in (shown, got) and same(shown, got, device):
            lines += [f"  {line}" for line in shown.split("\n")]
            continue
        old, new = (text.split("\n") if text != MISSING else [] for text in (shown, got))
        if max(map(len, old + new)) > LONG:
            lines += [f"- {line}" for line in old] + [f"+ {line}" for line in new]
        else:
            lines += [line for line in difflib.ndiff(old, new) if not line.startswith("?")]
    return shortened([line.rstrip() for line in lines])


def brief(text: str) -> str:
    """One line of a report, however long what it says."""
    line = " ".join(text.split("\n"))
    return line if len(line) <= WIDTH else f"{line[:WIDTH]}…"


def shortened(lines: list[str]) -> list[str]:
    """A difference that can be read: where it starts, and how much more there is."""
    start = next((i for i, line in enumerate(lines) if line[:2] in ("- ", "+ ", "-", "+")), 0)
    first = 0 if len(lines) <= LINES else max(start - 3, 0)
    shown = lines[first:][:LINES]
    shown = [line if len(line) <= LONG else f"{line[:LONG]}… ({len(line)} characters)" for line in shown]
    before = [f"  … {first} lines that are the same"] if first else []
    left = len(lines) - first - len(shown)
    return before + shown + ([f"  … and {left} lines more"] if left else [])


def first_difference(shown: str, printed: str, device: str = "cpu", varies: bool = False) -> int:
    """The line of the shown text, from 0, that is the first to say something else."""
    line = len(shown) - len(shown.lstrip("\n"))  # blank lines at the top mean nothing
    got = units(printed)
    for number, unit in enumerate(units(shown)):
        alike = same_shape if varies else same
        if number >= len(got) or not alike(unit, got[number], device):
            return line + (_differs_at(unit, got[number], device) if number < len(got) else 0)
        line += unit.count("\n") + 1
    return max(line - 1, 0)


def _differs_at(unit: str, printed: str, device: str) -> int:
    """The line of a unit at which the first word or number is another one."""
    got = TOKEN.findall(normalise(printed, device))
    for number, token in enumerate(TOKEN.finditer(ADDRESS.sub("0x…", unit))):
        if number >= len(got) or not same(token[0], got[number]):
            return unit.count("\n", 0, token.start())
    return unit.count("\n")
