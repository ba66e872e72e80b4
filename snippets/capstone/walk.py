# SPDX-License-Identifier: 0BSD
"""Visit the nodes of a graph, without recursion, and not too deep."""

import contextlib
import gc
import heapq
import sys
import threading
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from torch import Tensor

from .outputs import DebuggerError


def depth_limit() -> int:
    """Return how deep a graph may be to be walked in this thread.

    On torch 2.13 a graph that Python has walked is freed by calls within
    calls, about 210 bytes of C stack for each step of its depth; too
    deep a graph would crash the interpreter. The limit allows for 300:
    27,962 with the usual 8 MiB of a main thread, 1,747 in other threads,
    whose stack may be as small as 512 KiB.

    In a thread made after `threading.stack_size(512 << 20)` pass
    max_depth=1_000_000, and let the graph end in that thread too.
    """
    stack = 512 << 10
    if threading.current_thread() is threading.main_thread():
        stack = 1 << 20 if sys.platform == "win32" else 8 << 20
        with contextlib.suppress(ImportError, OSError, ValueError):
            import resource

            soft = resource.getrlimit(resource.RLIMIT_STACK)[0]
            stack = soft if soft > 0 else stack  # unlimited is -1
    return int(stack // 300)


class Walk(NamedTuple):
    """The nodes, each with a number, and edges between numbers."""

    nodes: list[Any]
    children: list[list[int]]
    uses: list[int]  # edges that lead here


@contextlib.contextmanager
def no_collector() -> Iterator[None]:
    """Keep the collector from looking at all nodes again and again."""
    on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if on:
            gc.enable()


def walk_from(roots: list[Any], limit: int) -> Walk:
    """Visit every node once, those made last first.

    A node is made after those that it points to, so the highest sequence
    number comes first, and the longest way to a node is known when it
    comes. Where several threads built a graph that order fails; then the
    number of nodes stands for the depth.
    """
    number = {root: k for k, root in enumerate(dict.fromkeys(roots))}
    nodes = list(number)
    children: list[list[int]] = [[] for _ in nodes]
    uses, deep = [0] * len(nodes), [0] * len(nodes)
    done, ordered = [False] * len(nodes), True
    heap = [(-node._sequence_nr(), k) for node, k in number.items()]
    heapq.heapify(heap)
    while heap:
        k = heapq.heappop(heap)[1]
        done[k] = True
        below, step = children[k], deep[k] + 1
        for child, _ in nodes[k].next_functions:
            if child is None:
                continue
            j = number.get(child)
            if j is None:
                j = number[child] = len(nodes)
                nodes.append(child)
                children.append([])
                uses.append(0)
                deep.append(step)
                done.append(False)
                heapq.heappush(heap, (-child._sequence_nr(), j))
            elif deep[j] < step:
                deep[j] = step
                ordered = ordered and not done[j]
            below.append(j)
            uses[j] += 1
        if (step if ordered else len(nodes)) > limit:
            raise DebuggerError(_too_deep(limit))
    return Walk(nodes, children, uses)


def _too_deep(limit: int) -> str:
    return (
        f"The graph is deeper than {limit:,} nodes, and freeing a deeper one "
        "that Python has walked can overflow the C stack (torch 2.13): "
        "profile fewer layers or time steps, or see depth_limit()."
    )


def longest_way(walk: Walk) -> int:
    """Return the edges on the longest way from a root to a leaf.

    By dynamic programming: each node after all those that lead to it.
    """
    waiting, deep = list(walk.uses), [0] * len(walk.nodes)
    ready = [k for k, n in enumerate(waiting) if n == 0]
    while ready:
        k = ready.pop()
        step = deep[k] + 1
        for j in walk.children[k]:
            if deep[j] < step:
                deep[j] = step
            waiting[j] -= 1
            if waiting[j] == 0:
                ready.append(j)
    return max(deep, default=0)


def nodes_behind(
    tensors: Iterable[Tensor | None], most: int = 20_000
) -> Iterator[Any]:
    """Yield the nodes of the graph behind some tensors, each once.

    most: nodes to look at: a deeper graph that Python has walked may
        overflow the C stack when it is freed (torch 2.13).
    """
    roots = [t.grad_fn for t in tensors if t is not None and t.grad_fn]
    seen: dict[int, Any] = {id(node): node for node in roots}
    waiting: list[Any] = list(seen.values())
    while waiting and len(seen) < most:
        node = waiting.pop()
        yield node
        for child, _ in node.next_functions:
            if child is not None and id(child) not in seen:
                seen[id(child)] = child
                waiting.append(child)
