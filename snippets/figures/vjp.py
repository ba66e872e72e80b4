# SPDX-License-Identifier: 0BSD
"""The figures of chapters/vjp: a row times a Jacobian, what each costs in
memory, and a chain of Jacobians from the left and from the right.
"""

from collections.abc import Sequence
from functools import cache

import torch
from matplotlib.figure import Figure
from matplotlib.ticker import FixedFormatter, FixedLocator, NullLocator
from torch import Tensor
from torch.func import jacrev, vjp

from snippets.figures.drawing import Drawing
from snippets.figures.picture import Frame, Panel, Picture, Player
from snippets.figures.plot import BACKWARD, INK, PAGE, SMALL, axes
from snippets.figures.record import brief

DIGITS = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")
LOW = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")


def f(x: Tensor) -> Tensor:
    """(3,) → (2,), as on the page."""
    return torch.stack([x[0] ** 2 + x[1] ** 3, x[1] * x[2]])


def product() -> tuple[Tensor, Tensor, Tensor]:
    """v (M,), J (M, N) and the row vᵀJ (N,) that torch returns."""
    x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    v = torch.tensor([1.0, 1.0])
    (row,) = torch.autograd.grad(f(x), x, v)
    return v, jacrev(f)(x.detach()), row


def jacobian() -> Picture:
    """v times J with real entries; beside it what J and the row weigh."""
    return Picture((Panel(matrices()), Panel(memory())))


def matrices() -> Drawing:
    v, table, row = product()
    m, n = table.shape
    column = int(row.argmax())  # the entry that is worked out below
    cell, height = 27.0, 32.0
    art = Drawing(288, 224)
    left, top = 4.0, 62.0
    at_table = left + m * cell + 38
    at_row = at_table + n * cell + 26
    middle = top + m * height / 2

    def title(x: float, count: int, name: str, shape: str, sizes: str) -> None:
        centre = x + count * cell / 2
        art.text(centre, 18, name, "large")
        art.text(centre, top + m * height + 22, shape, "")
        art.text(centre, top + m * height + 39, sizes, "small quiet")

    bold = frozenset({(0, column)})
    slopes = frozenset((k, column) for k in range(m))
    art.grid(left, middle - height / 2, [entries(v)], (cell, height), "bwd")
    art.grid(
        at_table,
        top,
        [entries(each) for each in table],
        (cell, height),
        bold=slopes,
    )
    art.grid(
        at_row,
        middle - height / 2,
        [entries(row)],
        (cell, height),
        "bwd",
        bold=bold,
    )
    art.text(left + m * cell + 10, middle + 5, "·", "large")
    art.text(at_row - 13, middle + 5, "=", "large")
    for k in range(m):
        y = top + (k + 0.5) * height + 4.5
        art.text(at_table - 5, y, f"y{low(k)}", "small quiet", "end")
    for k in range(n):
        x = at_table + (k + 0.5) * cell
        art.text(x, top - 8, f"x{low(k)}", "small quiet")
    title(left, m, "v", "1 × M", f"1 × {m}")
    title(at_table, n, "J", "M × N", f"{m} × {n}")
    title(at_row, n, "vᵀJ", "1 × N", f"1 × {n}")
    terms = [
        f"{brief(v[k].item())} · {brief(table[k, column].item())}"
        for k in range(m)
    ]
    sum_ = f"{brief(row[column].item())} = {' + '.join(terms)}"
    art.text(144, 214, sum_, "code")
    return art


def entries(numbers: Tensor) -> list[str]:
    return [brief(number) for number in numbers.tolist()]


def low(number: int) -> str:
    return str(number).translate(LOW)


M = 10**6
SIZES = [10**k for k in range(2, 9)]


@cache
def weights() -> tuple[list[int], list[int]]:
    """Bytes of J and of vᵀJ for M outputs and each N of `SIZES`.

    torch makes both on its meta device: real shapes and dtypes, as the
    real operations give them, and no memory.
    """
    tables, rows = [], []
    for n in SIZES:
        x = torch.empty(n, device="meta")
        layer = torch.empty(M, n, device="meta")

        def forward(x: Tensor, layer: Tensor = layer) -> Tensor:
            return layer @ x

        y, *rest = vjp(forward, x)
        (row,) = rest[0](torch.empty_like(y))
        rows.append(row.nbytes)
        tables.append(jacrev(forward)(x).nbytes)
    return tables, rows


def memory() -> Figure:
    """Bytes against N, both axes logarithmic."""
    tables, rows = weights()
    figure, plot = axes(288, 224, left=54, bottom=44, right=20, top=14)
    for values, colour, marker in (
        (tables, INK, "s"),
        (rows, BACKWARD, "o"),
    ):
        plot.loglog(SIZES, values, color=colour, marker=marker, markersize=5)
        plot.plot(
            SIZES[-1],
            values[-1],
            marker=marker,
            markersize=11,
            color=colour,
            markerfacecolor=PAGE,
            markeredgecolor=colour,
            markeredgewidth=2,
        )
    plot.set_ylim(1e1, 1e17)
    plot.set_xlim(SIZES[0] / 2, SIZES[-1] * 2.5)
    plot.xaxis.set_major_locator(FixedLocator(SIZES[::2]))
    plot.xaxis.set_major_formatter(
        FixedFormatter([f"10{str(k).translate(DIGITS)}" for k in (2, 4, 6, 8)])
    )
    units = {1e3: "1 kB", 1e6: "1 MB", 1e9: "1 GB", 1e12: "1 TB", 1e15: "1 PB"}
    plot.yaxis.set_major_locator(FixedLocator(list(units)))
    plot.yaxis.set_major_formatter(FixedFormatter(list(units.values())))
    for axis in (plot.xaxis, plot.yaxis):
        axis.set_minor_locator(NullLocator())
    plot.set_xlabel("inputs N (both axes logarithmic)")
    plot.text(1.2e2, 4e13, "J for M = 10⁶ outputs", fontsize=SMALL)
    plot.text(2e4, rows[0] * 0.6, "the row vᵀJ", color=BACKWARD, fontsize=SMALL)
    plot.annotate(
        size(tables[-1]),
        (SIZES[-1], tables[-1]),
        (-9, 8),
        textcoords="offset points",
        ha="right",
        weight="bold",
        fontsize=SMALL,
    )
    plot.annotate(
        size(rows[-1]),
        (SIZES[-1], rows[-1]),
        (-9, 8),
        textcoords="offset points",
        ha="right",
        weight="bold",
        fontsize=SMALL,
        color=BACKWARD,
    )
    return figure


def size(nbytes: int) -> str:
    """Bytes in a unit of three digits: 400 TB, 0.4 GB."""
    for unit, name in ((1e12, "TB"), (1e8, "GB"), (1e6, "MB"), (1e3, "kB")):
        if nbytes >= unit:
            return f"{nbytes / (1e9 if name == 'GB' else unit):g} {name}"
    return f"{nbytes} B"


# -- the chain ---------------------------------------------------------


class Run:
    """Products in one order, with what each cost."""

    def __init__(self) -> None:
        self.multiplications = 0
        self.held: list[int] = []

    def multiply(self, a: Tensor, b: Tensor) -> Tensor:
        """a @ b. One multiplication for each entry of the result and
        each term of its sum."""
        out = a @ b
        self.multiplications += out.numel() * a.shape[-1]
        self.held.append(out.numel())
        return out


def layers() -> tuple[Tensor, list[Tensor], Tensor]:
    """v (1, M), the Jacobians J₃, J₂, J₁ of the page's three layers, and
    the row (1, N) that backward gives."""
    first = torch.linspace(-1, 1, 15).reshape(3, 5)
    second = torch.linspace(1, -0.5, 9).reshape(3, 3)

    def one(x: Tensor) -> Tensor:
        return torch.tanh(first @ x)

    def two(h: Tensor) -> Tensor:
        return torch.tanh(second @ h)

    def three(k: Tensor) -> Tensor:
        return k**2

    x = torch.linspace(0, 1, 5, requires_grad=True)
    h, k = one(x.detach()), two(one(x.detach()))
    v = torch.ones(3)
    (row,) = torch.autograd.grad(three(two(one(x))), x, v)
    tables = [jacrev(three)(k), jacrev(two)(h), jacrev(one)(x.detach())]
    return v[None], tables, row[None]


def chain() -> Player:
    """v J₃ J₂ J₁: one order beside the other, a product at each step."""
    v, tables, row = layers()
    factors = [("v", v)]
    factors += [(f"J{low(3 - k)}", table) for k, table in enumerate(tables)]
    left, right = Run(), Run()
    start = (
        "One row v and three Jacobians. The product can be taken from the"
        " left or from the right."
    )
    frames = [scene(factors, [], [], left, right, "start", start)]
    from_left: list[Tensor] = []
    from_right: list[Tensor] = []
    for step in range(1, len(factors)):
        a, b = (from_left or [v])[-1], factors[step][1]
        from_left.append(left.multiply(a, b))
        c, d = factors[-1 - step][1], (from_right or [tables[-1]])[-1]
        from_right.append(right.multiply(c, d))
        said = (
            f"From the left, {shape(a)} times {shape(b)}:"
            f" {what(from_left[-1])} travels on,"
            f" {left.multiplications} multiplications so far."
            f" From the right, {shape(c)} times {shape(d)}:"
            f" {what(from_right[-1])},"
            f" {right.multiplications} so far."
        )
        frames.append(
            scene(factors, from_left, from_right, left, right, str(step), said)
        )
    same = all(torch.allclose(end[-1], row) for end in (from_left, from_right))
    end = (
        f"Both orders give {'the row of backward' if same else 'other rows'},"
        f" ({', '.join(f'{n:.2f}' for n in row[0].tolist())})."
        f" From the left at most {max(left.held)} numbers travel, in"
        f" {left.multiplications} multiplications; from the right"
        f" {max(right.held)}, in {right.multiplications}."
    )
    frames.append(
        scene(factors, from_left, from_right, left, right, "end", end)
    )
    return Player(tuple(frames))


def shape(table: Tensor) -> str:
    return f"({' × '.join(map(str, table.shape))})"


def what(table: Tensor) -> str:
    kind = "row" if len(table) == 1 else "table"
    return f"a {kind} of {table.numel()} numbers"


def scene(
    factors: Sequence[tuple[str, Tensor]],
    from_left: Sequence[Tensor],
    from_right: Sequence[Tensor],
    left: Run,
    right: Run,
    tick: str,
    caption: str,
) -> Frame:
    """Both orders after so many products."""
    done, last = len(from_left), len(factors) - 1
    moving = tick not in ("start", "end")
    under_left = {k + 1: table for k, table in enumerate(from_left)}
    under_right = {last - 1 - k: t for k, t in enumerate(from_right)}
    first = range(done + 1) if done else range(0)
    second = range(last - done, last + 1) if done else range(0)
    picture = Picture(
        (
            Panel(
                order(
                    "From the left",
                    factors,
                    under_left,
                    first,
                    done if moving else -1,
                    left,
                )
            ),
            Panel(
                order(
                    "From the right",
                    factors,
                    under_right,
                    second,
                    last - done if moving else -1,
                    right,
                )
            ),
        )
    )
    return Frame(tick, caption, picture, "bwd" if moving else "")


def order(
    title: str,
    factors: Sequence[tuple[str, Tensor]],
    products: dict[int, Tensor],
    used: range,
    now: int,
    run: Run,
) -> Drawing:
    """The factors, and under each the product that it took part in last.
    `now` is the factor of this step; factors not yet used are faded."""
    art = Drawing(288, 252)
    w, h, gap, most = 12.0, 14.0, 14.0, 3
    slot = 5 * w
    art.text(0, 16, title, "large", "start")
    for k, (name, factor) in enumerate(factors):
        middle = 3 + slot / 2 + k * (slot + gap)
        if run.held and k not in used:
            art.open("later")
        art.text(middle, 44, name, "name")
        block(art, middle, 52, factor, (w, h), most, k == now)
        if run.held and k not in used:
            art.close()
        if k in products:
            block(art, middle, 128, products[k], (w, h), most, k == now)
    held = run.held or [0]
    carried = f"numbers in the product: {held[-1] or 'none yet'}"
    art.text(0, 222, carried, "", "start")
    if max(held) > held[-1]:
        art.text(288, 222, f"at most {max(held)}", "quiet", "end")
    total = f"multiplications: {run.multiplications}"
    art.text(0, 242, total, "", "start")
    return art


def block(
    art: Drawing,
    middle: float,
    top: float,
    table: Tensor,
    cell: tuple[float, float],
    most: int,
    now: bool,
) -> None:
    """A matrix without its entries, and its shape."""
    rows, columns = table.shape
    kind = ("bwd" if rows == 1 else "") + (" now" if now else "")
    y = top + (most - rows) * cell[1] / 2
    left = middle - columns * cell[0] / 2
    art.blank(left, y, (rows, columns), cell, kind.strip())
    below = top + most * cell[1] + 16
    art.text(middle, below, f"{rows} × {columns}", "small quiet")
