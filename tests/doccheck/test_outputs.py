"""What two outputs may differ in, and nothing else: properties of doccheck.outputs."""

from __future__ import annotations

import builtins
import re
import traceback
from typing import Any

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from doccheck.outputs import (
    diff,
    error_name,
    first_difference,
    normalise,
    same,
    same_shape,
    same_value,
    units,
    value_text,
)

settings.register_profile("doccheck", deadline=None, derandomize=True, max_examples=150)
settings.load_profile("doccheck")

DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.int32, torch.bool, torch.complex64]
TEXT = st.text(alphabet="ab 01.-+e[](),'\n\ttensor", max_size=40)
WORDS = st.lists(st.sampled_from(["loss", "1", "0.25", "0.1234", "tensor([1., 2.])", "-3", "nan", "1e-05", "x"]))


@st.composite
def tensors(draw: st.DrawFn) -> torch.Tensor:
    shape = draw(st.lists(st.integers(0, 7), max_size=3))
    dtype = draw(st.sampled_from(DTYPES))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 99)))
    values = torch.rand(shape, generator=generator, dtype=torch.float64) * draw(st.sampled_from([1, 9, 1000, 1e-6]))
    tensor = values.to(dtype)
    if dtype.is_floating_point and draw(st.booleans()):
        tensor.requires_grad_()
        tensor = tensor * 1 if draw(st.booleans()) else tensor
    return tensor


def on_cuda(tensor: torch.Tensor, wrapped: bool) -> str:
    """The repr as CUDA gives it: the device comes before size, dtype and grad, and may start a line of its own."""
    text = repr(tensor)
    match = re.search(r"(, size=.*|,\s+dtype=.*|,\s+requires_grad=.*|,\s+grad_fn=.*)?\)$", text, re.DOTALL)
    assert match is not None
    gap = "\n       " if wrapped else " "
    return f"{text[: match.start()]},{gap}device='cuda:0'{text[match.start() :]}"


@given(TEXT, st.sampled_from(["cpu", "cuda"]))
def test_a_text_is_the_same_as_itself(text: str, device: str) -> None:
    assert same(text, text, device)
    assert same_shape(text, text, device)
    assert normalise(normalise(text, device), device) == normalise(text, device)


@given(st.from_regex(r"[a-z ]{0,12}", fullmatch=True))
def test_every_builtin_error_is_known_by_its_name(message: str) -> None:
    kinds = [kind for kind in vars(builtins).values() if isinstance(kind, type) and issubclass(kind, BaseException)]
    for kind in kinds:
        if not issubclass(kind, Warning | GeneratorExit | BaseExceptionGroup):
            shown = traceback.format_exception_only(kind, kind.__new__(kind, message))[-1]
            assert error_name(shown) == kind.__name__


@given(TEXT, TEXT)
def test_the_difference_is_shown_where_there_is_one(shown: str, printed: str) -> None:
    marked = [line for line in diff(shown, printed) if line[:1] in "+-"]
    if normalise(shown) != normalise(printed) and not same(shown, printed):
        assert marked
    assert 0 <= first_difference(shown, printed) <= shown.count("\n")


@given(WORDS, st.integers(0, 99))
def test_the_first_wrong_line_is_named(words: list[str], where: int) -> None:
    lines = [f"{word} end" for word in words] or ["x end"]
    place = where % len(lines)
    wrong = [*lines[:place], "other end", *lines[place + 1 :]]
    assert first_difference("\n".join(wrong), "\n".join(lines)) == place
    assert "\n".join(units("\n".join(lines))) == "\n".join(lines)


@given(tensors(), st.booleans())
def test_a_cuda_repr_is_the_cpu_repr_on_cuda_only(tensor: torch.Tensor, wrapped: bool) -> None:
    shown, printed = repr(tensor), on_cuda(tensor, wrapped)
    assert same(shown, printed, "cuda")
    assert same(f"before {shown}\nafter", f"before {printed}\nafter", "cuda")
    assert not same(shown, printed, "cpu")


def test_where_torch_puts_the_device() -> None:
    """The order that `on_cuda` assumes, seen on a device that every build has."""
    meta = torch.zeros(2, dtype=torch.float64, device="meta").requires_grad_()
    assert repr(meta) == "tensor(..., device='meta', size=(2,), dtype=torch.float64, requires_grad=True)"


@given(tensors(), st.integers(20, 120))
def test_line_breaks_inside_a_tensor_mean_nothing(tensor: torch.Tensor, width: int) -> None:
    torch.set_printoptions(linewidth=width)
    try:
        narrow = repr(tensor)
    finally:
        torch.set_printoptions(profile="default")
    if "..." not in narrow:
        assert same(narrow, repr(tensor)) and same(f"a {narrow} b\nc", f"a {tensor!r} b\nc")


@given(st.integers(), st.integers(1, 9), st.data())
def test_another_digit_of_a_whole_number_is_seen(number: int, step: int, data: Any) -> None:
    digits = [index for index, sign in enumerate(str(number)) if sign.isdigit()]
    index = data.draw(st.sampled_from(digits))
    text = str(number)
    changed = text[:index] + str((int(text[index]) + step) % 10) + text[index + 1 :]
    assert not same(f"n = {changed} ok", f"n = {text} ok")


@given(st.integers(1, 10**9), st.integers(1, 8), st.integers(1, 5), st.sampled_from(["", "e-05", "e+10"]))
def test_long_floats_may_differ_by_one_unit(units_: int, decimals: int, step: int, exponent: str) -> None:
    def written(count: int) -> str:
        digits = f"{count:0{decimals + 1}d}"
        return f"x {digits[:-decimals]}.{digits[-decimals:]}{exponent} y"

    long = len(str(units_)) > 3
    assert same(written(units_), written(units_ + step)) == (long and step == 1)


@given(st.floats(-1e6, 1e6), st.integers(0, 6))
def test_prose_agrees_with_what_update_would_write(number: float, decimals: int) -> None:
    shown = value_text(f"{0:.{decimals}f}", number)
    assert decimals == 0 or same_value(shown, number)
    if decimals and len(shown.replace("-", "").replace(".", "").lstrip("0")) <= 3:
        wrong = f"{float(shown) + 10**-decimals:.{decimals}f}"
        assert not same_value(wrong, number)


@given(st.integers(-(10**12), 10**12))
def test_whole_numbers_in_prose(number: int) -> None:
    assert same_value(str(number), number) and same_value(f"{number:,}", number)
    assert not same_value(str(number + 1), number) and not same_value(f"{number + 1:,}", number)
    assert value_text("1,000,000", number) == f"{number:,}"


def test_what_is_no_number_is_compared_as_text() -> None:
    assert not same("NaN", "nan") and not same("torch.float32", "torch.float64") and not same("x1", "x2")
    assert not same("v1.25.1", "v1.25.2") and not same("12:30", "12:31") and not same("1.2.3456", "1.2.3457")
    assert same("<f at 0x7f12ab>", "<f at 0x55cd01>") and not same("<f at 0x7f12ab>", "<g at 0x55cd01>")
    assert same_value("True", True) and not same_value("1", True) and same_value("a", "a")
    assert not same_value("1", float("nan")) and not same_value("1.0", "one")


def test_warnings_lose_where_torch_raised_them() -> None:
    assert same("UserWarning: slow", "UserWarning: slow (Triggered internally at /a/b.cpp:1.)")
