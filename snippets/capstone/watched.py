# SPDX-License-Identifier: 0BSD
"""Which parameters of an optimizer belong to a model, and their names."""

import weakref
from collections.abc import Iterable
from typing import Any

from torch import nn

from .naming import named_parameters

_TRUST = 100  # calls after which strangers are looked at again


class Watched:
    """The parameters of a model by identity, learnt again when new ones come.

    A walk over the model takes milliseconds. So parameters that were not
    in it, those of another model or of the loss, are remembered for 100
    calls: one that is put into the model only after the optimizer had it
    goes without a name for so long.
    """

    def __init__(self, model: nn.Module) -> None:
        self._model = model
        self._names: dict[int, str] = {}
        self._held: list[Any] = []  # an id() is good while it is held
        self._strangers: dict[int, weakref.ref[Any]] = {}
        self._calls = 0

    def owns(self, parameters: Iterable[Any]) -> bool:
        """Say whether one of them is in the model; learns new names."""
        self._calls += 1
        if self._calls % _TRUST == 0:
            self._strangers.clear()
        given = list(parameters)
        if not all(id(p) in self._names or self._is_stranger(p) for p in given):
            self._learn()
            for p in given:
                if id(p) not in self._names:
                    self._strangers[id(p)] = weakref.ref(p)
        return any(id(p) in self._names for p in given)

    def name(self, parameter: Any) -> str | None:
        """Return the name that `owns` learnt; None of what is not ours."""
        return self._names.get(id(parameter))

    def forget(self) -> None:
        """Hold no parameter any more."""
        self._names, self._held, self._strangers = {}, [], {}

    def _is_stranger(self, parameter: Any) -> bool:
        known = self._strangers.get(id(parameter))
        return known is not None and known() is parameter

    def _learn(self) -> None:
        rows = named_parameters(self._model)
        self._names = {id(row.tensor): row.name for row in rows}
        self._held = [row.tensor for row in rows]
        old = self._strangers
        self._strangers = {
            key: ref
            for key, ref in old.items()
            if key not in self._names and ref() is not None
        }
