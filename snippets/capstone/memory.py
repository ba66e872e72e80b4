# SPDX-License-Identifier: 0BSD
"""What a forward pass keeps for its backward, in bytes.

Measured while the forward runs, by saved-tensor hooks: nothing is read
from the nodes afterwards, because that would run a checkpoint again.
"""

import sys
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks

from .naming import module_paths, shown
from .outputs import Report
from .storage import blocks, bytes_of, owners_of, size


@dataclass(frozen=True)
class SavedRow(Report):
    """What one operation or one module saved."""

    name: str  # of the node, such as "MulBackward0", or a module's path
    tensors: int  # how many it saved
    referenced: int  # bytes of these tensors, each counted
    held: int  # bytes of memory that this row was the first to save


@dataclass(frozen=True)
class SavedReport(Report):
    """What the nodes of a graph keep alive, in bytes.

    referenced: sum over the saved tensors, elements × bytes of one.
    held: the memory behind them, each block (storage) once and whole,
        without the parameters and buffers, which live anyway.
    of_batch: the part of `held` that is memory of the batch.
    parameters, buffers: the memory of those that were saved, once each.
    tensors: how many were saved and are alive.
    state: "held", "freed" (backward has run), "partly freed" or "none".
    changed: operations with a saved tensor that was changed in place
        afterwards; backward will raise there.
    by_op, by_module: rows with the most held bytes first. A block that
        several saved counts for the first of them.
    """

    tensors: int
    referenced: int
    held: int
    of_batch: int
    parameters: int
    buffers: int
    state: str
    changed: tuple[str, ...]
    by_op: tuple[SavedRow, ...]
    by_module: tuple[SavedRow, ...]

    def __str__(self) -> str:
        if self.state in ("none", "freed"):
            return f"Saved for backward: nothing ({self.state})."
        lines = [
            f"Saved for backward ({self.state}): {self.tensors:,} tensors, "
            f"{size(self.referenced)} referenced, {size(self.held)} held "
            f"({size(self.of_batch)} of it the batch); beside these "
            f"{size(self.parameters)} of parameters, {size(self.buffers)} "
            f"of buffers.",
            *_table("op", self.by_op),
            *_table("module", self.by_module),
        ]
        lines += [
            f"{name}: a saved tensor was changed in place afterwards, so "
            f"backward will raise."
            for name in self.changed
        ]
        return "\n".join(lines)


def _table(title: str, rows: tuple[SavedRow, ...], most: int = 8) -> list[str]:
    cells = [(title, "tensors", "referenced", "held")]
    for row in rows[:most]:
        sizes = size(row.referenced), size(row.held)
        cells.append((row.name, f"{row.tensors:,}", *sizes))
    wide = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = []
    for name, *numbers in cells:
        right = zip(numbers, wide[1:], strict=True)
        text = "  ".join(n.rjust(w) for n, w in right)
        lines.append(f"  {name.ljust(wide[0])}  {text}")
    if len(rows) > most:
        lines.append(f"  … {len(rows) - most:,} more")
    return lines


class _Box:
    """What the graph holds in place of a saved tensor."""

    __slots__ = ("__weakref__", "made_by", "module", "tensor", "version")

    def __init__(self, tensor: Tensor, made_by: int | str, module: str):
        # Detached, or an output would hold the node that holds it: a leak.
        self.tensor = tensor.detach()
        self.version = tensor._version
        self.made_by = made_by
        self.module = module

    @property
    def changed(self) -> bool:
        # The detached tensor shares the version with the saved one.
        return bool(self.tensor._version != self.version)


class SavedTensors:
    """Watch what is saved for backward while a model runs.

        with SavedTensors(model, batch) as saved:
            loss = criterion(model(inputs), targets)
        print(saved.report())

    Hooks that pack a saved tensor switch off torch's check that it was
    not changed in place. These make the same check when they unpack, so
    a backward that would raise without the tool also raises with it.

    The graph holds the tensors; this object only has weak references.
    Hooks on the modules, which tell who saved what, are gone after the
    block. Those inside a checkpoint save nothing until backward.
    """

    def __init__(self, model: nn.Module, batch: Any = None) -> None:
        self._paths = module_paths(model)
        self._stack: list[str] = []
        self._boxes: list[weakref.ref[_Box]] = []
        self._hooks: list[Any] = []
        self._known = owners_of(model, batch)
        self._saving = saved_tensors_hooks(self._pack, _unpack)

    def __enter__(self) -> "SavedTensors":
        for module, path in self._paths.items():
            if isinstance(module, torch.jit.ScriptModule):
                continue  # takes no hooks; its caller gets what it saves
            self._hooks += [
                module.register_forward_pre_hook(self._enter(shown(path))),
                module.register_forward_hook(self._leave, always_call=True),
            ]
        self._saving.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._saving.__exit__(kind, error, trace)
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()
        self._stack.clear()
        # What is gone already was on no way to what the model returned.
        self._boxes = [ref for ref in self._boxes if ref() is not None]

    def _enter(self, path: str) -> Callable[..., None]:
        return lambda module, given: self._stack.append(path)

    def _leave(self, *unused: Any) -> None:
        if self._stack:
            self._stack.pop()

    def _pack(self, tensor: Tensor) -> _Box:
        module = self._stack[-1] if self._stack else "(loss)"
        box = _Box(tensor, _made_by(), module)
        self._boxes.append(weakref.ref(box))
        return box

    def report(self, ops: Mapping[int, str] | None = None) -> SavedReport:
        """Return what is alive now.

        ops: names of nodes by their `_sequence_nr()`. What was saved by
            other nodes goes under "(not on the way to the loss)": a
            branch that was not used.
        """
        boxes = [box for ref in self._boxes if (box := ref()) is not None]
        state = "held" if len(boxes) == len(self._boxes) else "partly freed"
        state = state if boxes else "freed" if self._boxes else "none"
        total = dict.fromkeys(("parameter", "buffer", "batch", "other"), 0)
        by_op, by_module = _Rows(), _Rows()
        changed: dict[str, None] = {}
        seen: set[int] = set()
        for box in boxes:
            op = _name_of(box.made_by, ops or {})
            held = 0
            for key, count in blocks(box.tensor):
                if key not in seen:
                    seen.add(key)
                    kind = self._known.get(key, "other")
                    total[kind] += count
                    held += count if kind in ("batch", "other") else 0
            used = bytes_of(box.tensor)
            by_op.add(op, used, held)
            by_module.add(box.module, used, held)
            if box.changed:
                changed[f"{op} in {box.module}"] = None
        return SavedReport(
            tensors=len(boxes),
            referenced=sum(bytes_of(box.tensor) for box in boxes),
            held=total["batch"] + total["other"],
            of_batch=total["batch"],
            parameters=total["parameter"],
            buffers=total["buffer"],
            state=state,
            changed=tuple(changed),
            by_op=by_op.sorted(),
            by_module=by_module.sorted(),
        )


class _Rows:
    def __init__(self) -> None:
        self.sums: dict[str, list[int]] = {}

    def add(self, name: str, referenced: int, held: int) -> None:
        sums = self.sums.setdefault(name, [0, 0, 0])
        for k, value in enumerate((1, referenced, held)):
            sums[k] += value

    def sorted(self) -> tuple[SavedRow, ...]:
        rows = [SavedRow(name, *sums) for name, sums in self.sums.items()]
        return tuple(sorted(rows, key=lambda r: (-r.held, -r.referenced)))


def _unpack(box: _Box) -> Tensor:
    if box.changed:
        kind = box.tensor.type().removeprefix("torch.")
        raise RuntimeError(
            "one of the variables needed for gradient computation has been "
            f"modified by an inplace operation: [torch.{kind} "
            f"{list(box.tensor.shape)}], saved in {box.module}, is at "
            f"version {box.tensor._version}; expected version "
            f"{box.version} instead."
        )
    return box.tensor


_CHECKPOINT = str(Path("torch", "utils", "checkpoint.py"))


def _made_by() -> int | str:
    """What saves the tensor that is being packed.

    An operation packs while its node is the newest, so the node is known
    by its sequence number. A checkpoint saves its inputs without a node.
    """
    caller = sys._getframe(2).f_code.co_filename
    if caller.endswith(_CHECKPOINT):
        return "(inputs of a checkpoint)"
    number = getattr(torch._C._autograd, "_get_sequence_nr", None)
    return -1 if number is None else int(number()) - 1


def _name_of(made_by: int | str, ops: Mapping[int, str]) -> str:
    if isinstance(made_by, str):
        return made_by
    return ops.get(made_by, "(not on the way to the loss)")
