# SPDX-License-Identifier: 0BSD
"""How each number of the page is computed: formulas, shapes, cost.

Costs are in gradients: one is a forward and a backward of this model on
this batch.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Method:
    """How a group of numbers is computed.

    rows: name, formula, and what the letters stand for, with shapes.
    text: what a reader might get wrong. cost: in gradients.
    """

    rows: tuple[tuple[str, str, str], ...]
    text: str
    cost: str


GRAPH = Method(
    (
        (
            "Nodes, edges",
            "V = {n : the loss leads to n},  E = {(n, m) : m ∈ inputs(n)}",
            "n, m: nodes of the backward graph. A leaf, such as a parameter, "
            "is a node too.",
        ),
        (
            "Depth",
            "depth(n) = 1 + max{depth(m) : m ∈ inputs(n)},  depth(leaf) = 0",
            "Edges on the longest way from the loss to a leaf; an integer.",
        ),
        (
            "Shared nodes",
            "#{m : two or more edges lead to m}",
            "Such as a weight that is used twice.",
        ),
    ),
    "Each node is visited once, in topological order, so the time grows "
    "with the nodes and not with the ways through them.",
    "one forward, no backward.",
)
SAVED = Method(
    (
        (
            "Referenced",
            "Σₜ numel(t) · itemsize(t)",
            "t: every tensor that a node saved, counted each time.",
        ),
        (
            "Held",
            "Σₛ nbytes(s)",
            "s: every storage behind these tensors, once and whole, without "
            "those of parameters and buffers.",
        ),
    ),
    "A storage counts for the module that was the first to save it, so a "
    "module may reference much and hold nothing.",
    "none beyond that forward: hooks look at what is saved.",
)
GRADIENTS = Method(
    (
        (
            "Norm",
            "‖g‖ = √Σᵢ |gᵢ|²,  g = dL/dp",
            "p, g: a parameter and its gradient, of the shape in the table; "
            "summed in float32 at least.",
        ),
        (
            "Mean, std",
            "μ = Σᵢ gᵢ / n,  s = √(Σᵢ (gᵢ − μ)² / (n − 1))",
            "n: elements of p; s = 0 for one element.",
        ),
        (
            "Total norm",
            "√Σₚ ‖dL/dp‖²",
            "Over all parameters, a tied one once.",
        ),
    ),
    "A layer is a module with parameters of its own; it has the worst "
    "status of them. A norm depends on the batch and on the scale of the "
    "loss: compare layers with each other.",
    "1, and one forward more to look for dead ReLUs.",
)
CURVATURE = Method(
    (
        (
            "Hessian product",
            "Hv = d(gᵀv)/dθ,  g = dL/dθ",
            "θ, g, v: all N parameter entries as one vector, (N,). "
            "H is N × N and is never formed.",
        ),
        (
            "Along v",
            "vᵀHv,  ‖v‖ = 1",
            "For one random v. It says nothing of other directions.",
        ),
        (
            "Top eigenvalue",
            "Hx ≈ λx,  residual ‖Hx − λx‖ / |λ|",
            "By Lanczos with k products: Q is N × k, T = QᵀHQ is k × k; "
            "λ is an eigenvalue of T.",
        ),
        (
            "Spectrum",
            "T sⱼ = θⱼ sⱼ,  weight sⱼ[1]²",
            "θⱼ: the k Ritz values. Their weights sum to 1.",
        ),
        (
            "Trace",
            "tr H ≈ Σₘ zₘᵀHzₘ / M,  zₘ = ±1",
            "M random vectors (N,); ± is the standard error of the mean.",
        ),
        (
            "Self-check",
            "‖Hv − (g(θ + hv) − g(θ − hv)) / 2h‖",
            "In float64, relative to the larger side, for the parameter "
            "with the largest error.",
        ),
    ),
    "Eigenvalues have the unit of the loss over that of θ squared. Dropout "
    "masks and batch statistics are drawn once and kept.",
    "the products below on one kept graph, about two to three each, and "
    "about five for the self-check.",
)
DERIVATIVES = Method(
    (
        (
            "First order",
            "(vᵀJ)u  against  vᵀ(Ju)",
            "J: derivative of the outputs by one group of variables; u: "
            "random, of their shape; v: random, of the shape of the "
            "outputs. Left by backward, right by differences.",
        ),
        (
            "Differences",
            "D(h) = (f(x + hu) − f(x − hu)) / 2h,  Ju ≈ (4 D(h/2) − D(h)) / 3",
            "f: the loss, or the module; in float64 where it can be.",
        ),
        (
            "Second order",
            "Hu  against  (g(x + hu) − g(x − hu)) / 2h",
            "The same for the gradient g of the loss.",
        ),
    ),
    "The error is the gap over the larger side. Where slopes to both sides "
    "differ the point is not smooth, and another one is drawn.",
    "four forwards for each group of variables at each point, and one "
    "backward a point; both in float64.",
)
ANOMALIES = Method(
    (
        (
            "First",
            "the first result with an entry that is NaN or ±inf",
            "Of the results of all operations, in the order of the run: "
            "forward, loss, backward.",
        ),
    ),
    "What a mask absorbs before the loss and the gradients is a note, not "
    "a finding.",
    "1, with every result read: some times slower than a plain one.",
)
