# SPDX-License-Identifier: 0BSD
"""Print any autograd graph as text, DOT or SVG.

    print_graph(loss, model)

Each node is visited once and printed once, so the time is linear in the
size of the graph, whatever the number of paths. Nothing is run, no hook
is set, no `.grad` is touched and no random number is drawn. What comes
back is plain data: a Graph keeps no tensor and no node alive.
"""

# --8<-- [start:data]
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from torch import Tensor, nn


class Entry(NamedTuple):
    """One node. Its number is its place in `Graph.nodes`."""

    name: str  # the class of the node, such as "MulBackward0"
    shapes: str  # of each tensor that its operation made
    label: str  # names of the leaf or tensor that it stands for
    is_leaf: bool
    inputs: tuple[tuple[int, int] | None, ...]  # (number, which output)
    layer: int  # edges on the longest way from an output to here
    uses: int  # edges and outputs that lead here; 2 or more: shared


class Graph(NamedTuple):
    """What `graph_of` found: numbers and names, no tensors."""

    nodes: list[Entry]  # in the order in which backward runs them
    outputs: list[tuple[str, int, int]]  # path, number, which output
    cut: list[str]  # paths of the outputs that require no grad

    @property
    def depth(self) -> int:
        """Edges on the longest way from an output to a leaf."""
        return max((node.layer for node in self.nodes), default=0)

    @property
    def edges(self) -> int:
        """Edges between nodes; inputs without a gradient are none."""
        inputs = [i for node in self.nodes for i in node.inputs]
        return len(inputs) - inputs.count(None)

    @property
    def shared(self) -> int:
        """Nodes that more than one edge or output leads to."""
        return sum(node.uses > 1 for node in self.nodes)


# --8<-- [end:data]


# --8<-- [start:tensors]
import dataclasses


def tensors_in(output: Any, path: str = "output") -> dict[str, Tensor]:
    """Return the tensors in lists, tuples, dicts and dataclasses, by path.

    What is none of these (numbers, strings, None) is passed over.
    Raises TypeError if no tensor is left.
    """
    found: dict[str, Tensor] = {}
    waiting, seen = [(path, output)], set()
    while waiting:
        path_here, here = waiting.pop()
        if isinstance(here, Tensor):
            found[path_here] = here
        elif id(here) not in seen:
            seen.add(id(here))  # a list may contain itself
            waiting += reversed(list(_parts(here, path_here)))
    if not found:
        kind = type(output).__name__
        raise TypeError(f"There is no tensor in this {kind}.")
    return found


def _parts(here: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(here, Mapping):
        yield from ((f"{path}[{key!r}]", here[key]) for key in here)
    elif isinstance(here, tuple) and hasattr(here, "_fields"):
        fields = here._fields
        yield from ((f"{path}.{n}", getattr(here, n)) for n in fields)
    elif isinstance(here, list | tuple):
        yield from ((f"{path}[{k}]", part) for k, part in enumerate(here))
    elif dataclasses.is_dataclass(here) and not isinstance(here, type):
        names = [field.name for field in dataclasses.fields(here)]
        yield from ((f"{path}.{n}", getattr(here, n, None)) for n in names)


# --8<-- [end:tensors]


# --8<-- [start:visit]
import heapq
import itertools
from torch.autograd.graph import get_gradient_edge


def _visit(roots: list[Any], max_depth: int) -> dict[int, Any]:
    """Return every node below the roots, each once, by its id().

    An id() names a node only as long as the node is held, so all of them
    are kept until the walk is over.

    A node is made after the nodes that it points to, so the one with the
    highest sequence number comes first, and the longest way to it is
    known when it does. Where threads built the graph together the order
    fails; then the number of nodes stands for the depth.
    """
    held = {id(root): root for root in roots}
    deep = dict.fromkeys(held, 0)
    heap = [(-root._sequence_nr(), key) for key, root in held.items()]
    heapq.heapify(heap)
    done: set[int] = set()
    ordered = True
    while heap:
        key = heapq.heappop(heap)[1]
        done.add(key)
        for child, _ in held[key].next_functions:
            if child is None:
                continue
            new = id(child)
            if new not in held:
                held[new] = child
                heapq.heappush(heap, (-child._sequence_nr(), new))
            elif new in done and child.next_functions:
                ordered = False
            deep[new] = max(deep.get(new, 0), deep[key] + 1)
            if (deep[new] if ordered else len(held)) > max_depth:
                raise RecursionError(
                    f"Stopped at max_depth={max_depth:,}. On torch 2.13 a "
                    "deeper graph that Python has walked can overflow the "
                    "C stack when it is freed. Use graph_of_deep."
                )
    return held


# --8<-- [end:visit]


# --8<-- [start:order]
def _backward_order(roots: list[Any], held: dict[int, Any]) -> list[int]:
    """Return the ids in the order in which backward would run the nodes.

    A node is ready when all that lead to it have run. Of those that are
    ready, the engine takes the one that was made last; leaves come first.
    """
    waiting = dict.fromkeys(held, 0)
    for node in held.values():
        for child, _ in node.next_functions:
            if child is not None:
                waiting[id(child)] += 1
    turn = itertools.count()  # the first found of two equals comes first
    ready = [
        (-root._sequence_nr(), next(turn), id(root))
        for root in {id(root): root for root in roots}.values()
        if waiting[id(root)] == 0
    ]
    heapq.heapify(ready)
    order = []
    while ready:
        key = heapq.heappop(ready)[2]
        order.append(key)
        for child, _ in held[key].next_functions:
            if child is None:
                continue
            waiting[id(child)] -= 1
            if waiting[id(child)] == 0:
                entry = (-child._sequence_nr(), next(turn), id(child))
                heapq.heappush(ready, entry)
    return order


# --8<-- [end:order]


# --8<-- [start:names]
Names = nn.Module | Mapping[str, Any] | None


Labels = dict[int, dict[int, str]]  # by id of leaf or node, then by output


def _labels(names: Names, held: dict[int, Any]) -> Labels:
    """Return the names of the leaves and nodes."""
    labels: Labels = {}
    given = names if isinstance(names, Mapping) else {"": names}
    for prefix, value in given.items():
        pairs: Any = [("", value)]
        if isinstance(value, nn.Module):
            pairs = value.named_parameters(remove_duplicate=False)
        for name, tensor in pairs:
            if not isinstance(tensor, Tensor) or not tensor.requires_grad:
                continue
            made_by = tensor.grad_fn
            if made_by is not None and id(made_by) not in held:
                continue  # of another graph
            key = id(tensor if made_by is None else made_by)
            name = ".".join(part for part in (prefix, name) if part)
            known = labels.setdefault(key, {})
            which = tensor.output_nr
            known[which] = (
                f"{known[which]} = {name}" if known.get(which) else name
            )
    return labels


def _shapes(node: Any) -> str:
    """Return the shapes of what the operation made, dtype if unusual."""
    texts = []
    for made in getattr(node, "_input_metadata", ()):
        try:
            sizes = [str(size) for size in made.shape]
        except RuntimeError:  # a nested tensor of the old layout has none
            sizes = ["…", ""]
        comma = "," if len(sizes) == 1 else ""
        dtype = str(made.dtype).removeprefix("torch.")
        kind = "" if dtype == "float32" else f" {dtype}"
        texts.append(f"({', '.join(sizes)}{comma}){kind}")
    return " ".join(texts)


# --8<-- [end:names]


# --8<-- [start:graph-of]
def graph_of(
    output: Any, names: Names = None, *, max_depth: int = 20_000
) -> Graph:
    """Return the graph behind an output, each node once.

    output: a tensor, or tensors in lists, tuples, dicts, dataclasses.
    names: names the leaves: a module, or {name: tensor or module}.
        A tensor that is no leaf names the node that made it.
    max_depth: how deep the graph may be, for a main thread with a stack
        of 8 MiB. See `graph_of_deep`.

    Raises TypeError if there is no tensor in the output, RecursionError
    if the graph is deeper than max_depth.
    """
    tensors = tensors_in(output)
    edges = {
        path: get_gradient_edge(tensor)
        for path, tensor in tensors.items()
        if tensor.requires_grad
    }
    roots = [edge.node for edge in edges.values()]
    held = _visit(roots, max_depth)
    order = _backward_order(roots, held)
    number = {key: k for k, key in enumerate(order)}
    outputs = [
        (path, number[id(edge.node)], edge.output_nr)
        for path, edge in edges.items()
    ]
    cut = [path for path in tensors if path not in edges]
    return Graph(_entries(held, number, outputs, names), outputs, cut)


def _entries(
    held: dict[int, Any],
    number: dict[int, int],
    outputs: list[tuple[str, int, int]],
    names: Names,
) -> list[Entry]:
    labels = _labels(names, held)
    layer, uses = [0] * len(number), [0] * len(number)
    for _, k, _ in outputs:
        uses[k] += 1
    nodes = []
    for key, k in number.items():  # all that lead to a node come before it
        node = held[key]
        inputs: list[tuple[int, int] | None] = []
        for child, which in node.next_functions:
            if child is None:
                inputs.append(None)
                continue
            below = number[id(child)]
            inputs.append((below, which))
            layer[below] = max(layer[below], layer[k] + 1)
            uses[below] += 1
        # A custom Function may set an attribute called name: ask the type.
        name = type(node).name(node).rpartition("::")[2]
        is_leaf = name == "AccumulateGrad"
        label = labels.get(id(node.variable) if is_leaf else key, {})
        text = ", ".join(label.values())
        nodes.append((name, _shapes(node), text, is_leaf, tuple(inputs)))
    return [
        Entry(*node, layer=layer[k], uses=uses[k])
        for k, node in enumerate(nodes)
    ]


# --8<-- [end:graph-of]


# --8<-- [start:text]
def as_text(graph: Graph, *, max_lines: int = 60) -> str:
    """Return one line for each node, at most max_lines of them.

    → leads to the nodes of the inputs; – is an input without a gradient;
    [k] is output k of a node; ×k says that k edges lead to a node.
    """
    if not graph.nodes:
        return "No output requires grad, so no graph was recorded."
    size = _count(len(graph.nodes), "node")
    size += f", {_count(graph.edges, 'edge')}, depth {graph.depth:,}"
    lines = [f"{size}, {graph.shared:,} shared"]
    lines += [f"{path} → {_mark(*to)}" for path, *to in graph.outputs]
    lines += [f"{path} requires no grad" for path in graph.cut]
    shown = list(range(len(graph.nodes)))
    hidden = max(len(shown) - max_lines, 0)
    head = max_lines - min(5, max_lines // 2)
    del shown[head : head + hidden]
    rows = [_row(k, graph.nodes[k]) for k in shown]
    wide = [max(map(len, column)) for column in zip(*rows, strict=True)]
    table = []
    for row in rows:
        cells = [cell.ljust(w) for cell, w in zip(row, wide, strict=True)]
        table.append("  ".join(c for c in cells if c).rstrip())
    if hidden:
        table.insert(head, f"… {hidden:,} more …")
    return "\n".join(lines + table)


def _row(k: int, node: Entry) -> list[str]:
    marks = [_mark(*i) if i else "–" for i in node.inputs]
    arrow = f"→ {', '.join(marks)}" if marks else ""
    name = f"leaf {node.label}".rstrip() if node.is_leaf else node.name
    more = [node.label] if node.label and not node.is_leaf else []
    more += [f"×{node.uses}"] if node.uses > 1 else []
    return [f"#{k}", name, node.shapes, arrow, "  ".join(more)]


def _mark(k: int, which: int) -> str:
    return f"#{k}[{which}]" if which else f"#{k}"


def _count(n: int, what: str) -> str:
    return f"{n:,} {what}" + ("" if n == 1 else "s")


# --8<-- [end:text]


# --8<-- [start:print]
def print_graph(
    output: Any,
    names: Names = None,
    *,
    max_depth: int = 20_000,
    max_lines: int = 60,
) -> None:
    """Print the graph behind an output: see `graph_of` and `as_text`."""
    graph = graph_of(output, names, max_depth=max_depth)
    print(as_text(graph, max_lines=max_lines))


# --8<-- [end:print]


# --8<-- [start:dot]
def as_dot(graph: Graph) -> str:
    """Return the graph in the language of Graphviz: `dot -Tsvg`."""
    lines = ["digraph autograd {"]
    lines += ['  node [shape=box, fontname="monospace"];']
    for k, node in enumerate(graph.nodes):
        text = "\\n".join(_quoted(part) for part in _box_lines(k, node))
        style = ', style="rounded,filled"' if node.is_leaf else ""
        style += ", peripheries=2" if node.uses > 1 else ""
        lines.append(f'  n{k} [label="{text}"{style}];')
        for i in node.inputs:
            if i is not None:
                lines.append(_arrow(f"n{k}", *i))
    for j, (path, k, which) in enumerate(graph.outputs):
        lines.append(f'  o{j} [label="{_quoted(path)}", shape=plaintext];')
        lines.append(_arrow(f"o{j}", k, which))
    return "\n".join([*lines, "}"])


def _arrow(start: str, k: int, which: int) -> str:
    label = f' [label="{which}"]' if which else ""
    return f"  {start} -> n{k}{label};"


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _box_lines(k: int, node: Entry) -> list[str]:
    title = (node.label or "leaf") if node.is_leaf else node.name
    under = [node.shapes, "" if node.is_leaf else node.label]
    under += [f"×{node.uses}"] if node.uses > 1 else []
    return [f"#{k} {title}", "  ".join(part for part in under if part)]


# --8<-- [end:dot]


# --8<-- [start:layout]
def _layers(graph: Graph) -> tuple[list[list[int]], list[list[int]]]:
    """Return the layers from the outputs down, and every edge as a chain.

    Items are the nodes by number, then the outputs, then a bend in each
    layer that a long edge passes, so that it goes round the boxes.
    """
    n = len(graph.nodes)
    layers: list[list[int]] = [[] for _ in range(graph.depth + 2)]
    level = [node.layer + 1 for node in graph.nodes]
    level += [0] * len(graph.outputs)
    pairs = [(n + j, k) for j, (_, k, _) in enumerate(graph.outputs)]
    for k, node in enumerate(graph.nodes):
        pairs += [(k, i[0]) for i in node.inputs if i is not None]
    for item, at in enumerate(level):
        layers[at].append(item)
    bends = itertools.count(len(level))
    chains = []
    for top, bottom in pairs:
        passed = range(level[top] + 1, level[bottom])
        chain = [(at, next(bends)) for at in passed]
        for at, bend in chain:
            layers[at].append(bend)
        chains.append([top, *(bend for _, bend in chain), bottom])
    return layers, chains


def _centres(
    layers: list[list[int]],
    chains: list[list[int]],
    width: dict[int, float],
) -> dict[int, float]:
    """Return the x of the middle of each item; sorts the layers.

    An item wants to be where its neighbours are on average. Sweeps down
    and up move it there; within a layer, boxes keep a gap.
    """
    above: dict[int, list[int]] = {}
    below: dict[int, list[int]] = {}
    for chain in chains:
        for top, bottom in itertools.pairwise(chain):
            above.setdefault(bottom, []).append(top)
            below.setdefault(top, []).append(bottom)
    x: dict[int, float] = {}
    for layer in layers:
        _spread(layer, dict.fromkeys(layer, 0.0), width, x)
    for sweep in range(12):
        down = sweep % 2 == 0
        near = above if down else below
        for layer in layers if down else layers[::-1]:
            want = {item: x[item] for item in layer}
            for item in layer:
                ends = near.get(item)
                if ends:
                    want[item] = sum(x[end] for end in ends) / len(ends)
            layer.sort(key=want.__getitem__)
            _spread(layer, want, width, x)
    return x


def _spread(
    layer: list[int],
    want: dict[int, float],
    width: dict[int, float],
    x: dict[int, float],
) -> None:
    edge = float("-inf")
    for item in layer:
        half = width.get(item, 0) / 2
        x[item] = max(want[item], edge + half + 20)
        edge = x[item] + half
    shift = sum(want[i] - x[i] for i in layer) / max(len(layer), 1)
    for item in layer:
        x[item] += shift


# --8<-- [end:layout]


# --8<-- [start:svg]
import html


def as_svg(graph: Graph, *, max_nodes: int = 200) -> str:
    """Return a drawing: outputs on top, leaves rounded, shared nodes ×k.

    It is drawn in currentColor, for light and dark pages, and needs no
    other program. Raises ValueError above max_nodes, where a drawing
    says little: use as_text, or as_dot and Graphviz.
    """
    if len(graph.nodes) > max_nodes:
        raise ValueError(
            f"{len(graph.nodes):,} nodes are more than max_nodes="
            f"{max_nodes:,}: use as_text, as_dot or a smaller model."
        )
    if not graph.nodes:
        raise ValueError("Nothing to draw: no output requires grad.")
    boxes = [_box_lines(k, node) for k, node in enumerate(graph.nodes)]
    boxes += [[path] for path, _, _ in graph.outputs]
    letters = [max(map(len, box)) for box in boxes]
    width = {k: 16 + 7.3 * count for k, count in enumerate(letters)}
    layers, chains = _layers(graph)
    x = _centres(layers, chains, width)
    left = min(x[item] - width.get(item, 0) / 2 for item in x) - 8
    right = max(x[item] + width.get(item, 0) / 2 for item in x) + 8
    x = {item: at - left for item, at in x.items()}
    rows = enumerate(layers)
    y = {item: 26.0 + 72 * row for row, layer in rows for item in layer}
    size = f"{right - left:.0f} {52 + 72 * (len(layers) - 1)}"
    title = f"Autograd graph: {as_text(graph).splitlines()[0]}"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size}" '
        f'width="{size.split()[0]}" style="max-width: 100%; height: auto" '
        'role="img" font-family="monospace" '
        'font-size="12" fill="none" stroke="currentColor" '
        f'text-anchor="middle"><title>{html.escape(title)}</title>'
    ]
    parts += [_svg_edge(chain, x, y, len(boxes)) for chain in chains]
    for k, box in enumerate(boxes):
        node = graph.nodes[k] if k < len(graph.nodes) else None
        parts.append(_svg_box(x[k], y[k], width[k], box, node))
    return "\n".join([*parts, "</svg>"])


def _svg_edge(
    chain: list[int], x: dict[int, float], y: dict[int, float], boxes: int
) -> str:
    # Vertical where it leaves and arrives, straight past the boxes.
    path = f"M{x[chain[0]]:.1f} {y[chain[0]] + 19:.0f}"
    for top, end in itertools.pairwise(chain):
        a, b, middle = x[top], x[end], (y[top] + y[end]) / 2
        path += f"C{a:.1f} {middle:.0f} {b:.1f} {middle:.0f}"
        path += f" {b:.1f} {y[end] - 19:.0f}"
        path += f"V{y[end] + 19:.0f}" if end >= boxes else ""
    tip, at = x[chain[-1]], y[chain[-1]] - 19
    head = f"M{tip - 4:.1f} {at - 7:.0f}L{tip:.1f} {at:.0f}l4 -7z"
    return f'<path d="{path}"/><path d="{head}" fill="currentColor"/>'


def _svg_box(
    x: float, y: float, width: float, box: list[str], node: Entry | None
) -> str:
    drawn = ""
    if node is not None:
        round_, fill = (18, 0.14) if node.is_leaf else (3, 0)
        thick = 2.5 if node.uses > 1 else 1
        drawn = (
            f'<rect x="{x - width / 2:.1f}" y="{y - 19:.0f}" height="38" '
            f'width="{width:.1f}" rx="{round_}" stroke-width="{thick}" '
            f'fill="currentColor" fill-opacity="{fill}"/>'
        )
    lines = [line for line in box if line]
    for k, line in enumerate(lines):
        at = y + 4 + 15 * (k - (len(lines) - 1) / 2)
        drawn += f'<text x="{x:.1f}" y="{at:.1f}" fill="currentColor"'
        drawn += f' stroke="none">{html.escape(line)}</text>'
    return drawn


# --8<-- [end:svg]


# --8<-- [start:deep]
import threading


def graph_of_deep(
    build: Callable[[], Any],
    names: Names = None,
    *,
    max_depth: int = 1_000_000,
    stack_mib: int = 512,
) -> Graph:
    """Return the graph of build(), which may be very deep.

    build runs in a thread with a stack of stack_mib, and the graph must
    also end there: build returns the output and keeps nothing of it.
    A new thread has grad mode on and no default device of its own.

    names: a module or leaves, as in `graph_of`.
    What build raises is raised here, without its traceback.
    """
    result: list[Graph | BaseException] = []

    def job() -> None:
        try:
            result.append(graph_of(build(), names, max_depth=max_depth))
        except BaseException as error:
            # The frames of a traceback would keep the graph.
            error.__traceback__ = None
            error.__context__ = error.__cause__ = None
            result.append(error)

    before = threading.stack_size(stack_mib << 20)
    try:
        thread = threading.Thread(target=job)
        thread.start()
    finally:
        threading.stack_size(before)
    thread.join()
    if isinstance(result[0], BaseException):
        raise result[0]
    return result[0]


# --8<-- [end:deep]
