# SPDX-License-Identifier: 0BSD
"""What a NaN or inf usually means, by the operation that made it."""

from .sightings import Sighting

_FORWARD = {
    "sqrt": "sqrt of a negative number is NaN.",
    "rsqrt": "rsqrt of 0 is inf and of a negative number NaN.",
    "div": "Division by 0 (0/0 is NaN): add eps, or mask the divisor.",
    "reciprocal": "Division by 0: add eps, or mask the input.",
    "log": "log of 0 is -inf and of a negative number NaN: clamp first.",
    "log2": "log of 0 is -inf and of a negative number NaN: clamp first.",
    "log10": "log of 0 is -inf and of a negative number NaN: clamp first.",
    "log1p": "log1p of -1 is -inf, below it NaN: clamp first.",
    "pow": "A power overflows, or a negative number has a fractional one.",
    "exp": "exp overflows: subtract the maximum, or use logsumexp.",
    "acos": "acos outside -1 … 1 is NaN: clamp first.",
    "asin": "asin outside -1 … 1 is NaN: clamp first.",
    "std": "std of one number, with the correction 1, is 0/0.",
    "var": "var of one number, with the correction 1, is 0/0.",
    "var_mean": "var of one number, with the correction 1, is 0/0.",
    "mean": "The mean of no numbers is NaN.",
    "_softmax": "softmax of a row of -inf is NaN: mask no row wholly.",
    "_log_softmax": "softmax of a row of -inf is NaN: mask no row wholly.",
    "nll_loss_forward": (
        "The mean over no targets is NaN: all are ignore_index, or the "
        "batch is empty."
    ),
    "nll_loss2d_forward": (
        "The mean over no targets is NaN: all are ignore_index, or the "
        "batch is empty."
    ),
}
_BACKWARD = {
    "sqrt": "The derivative of sqrt is infinite at 0: add eps inside it.",
    "rsqrt": "The derivative of rsqrt is infinite at 0: add eps inside it.",
    "div": "The derivative of a division by 0: add eps, or mask the divisor.",
    "log": "The derivative of log is infinite at 0: clamp first.",
    "pow": "The derivative of a power below 1 is infinite at 0: add eps.",
    "acos": "The derivative of acos is infinite at -1 and 1: clamp inside.",
    "asin": "The derivative of asin is infinite at -1 and 1: clamp inside.",
    "linalg_eigh": "Eigenvectors of repeated values have no derivative.",
    "linalg_svd": "Singular vectors of repeated values have no derivative.",
}
_LARGEST = {"float16": "65,504", "float8_e4m3fn": "448"}
_SPECIAL = ("sqrt", "rsqrt", "div", "reciprocal", "log", "exp", "pow")


def likely_cause(
    one: Sighting, op: str, masked: bool = False, dropped: bool = False
) -> str:
    """Return a sentence or two, "" if nothing is known.

    masked: the gradient that came in was 0 where NaN came out.
    dropped: forwards, what was not finite did not reach the loss.
    """
    if dropped:
        return (
            f"{_FORWARD.get(op, '')} It does not reach the loss (torch.where "
            f"or masked_fill drops it), but in backward 0 · NaN is NaN: mask "
            f"the input of {op}, not its output."
        ).lstrip()
    if one.phase == "inputs":
        return "Look at the data that goes in."
    if one.phase == "parameters":
        return "An earlier step or a checkpoint has put it there."
    pointwise = not op.startswith("linalg_")
    if one.order and masked and pointwise:
        return (
            f"The gradient that comes in is 0 there (as after torch.where or "
            f"masked_fill), the derivative of {op} is infinite, and 0 · inf "
            f"is NaN: mask the input of {op}, not its output."
        )
    if one.order > 1 and op in ("linalg_vector_norm", "norm", "sqrt"):
        return (
            "The second derivative of a norm or root at 0 does not exist: "
            "use (x.square().sum() + eps).sqrt()."
        )
    if one.order:
        return _BACKWARD.get(op, "")
    overflow = one.dtype in _LARGEST and one.kind == "inf"
    if overflow and op not in _SPECIAL:
        return (
            f"Overflow of {one.dtype}, whose largest number is "
            f"{_LARGEST[one.dtype]}: use bfloat16 or float32 here."
        )
    return _FORWARD.get(op, "")
