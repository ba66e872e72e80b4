"""Settings: something global that can be read and written, saved by a call that returns its undoing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def setting(read: Callable[[], Any], write: Callable[[Any], Any]) -> Callable[[], Callable[[], Any]]:
    def save() -> Callable[[], Any]:
        value = read()
        return lambda: write(value)

    return save


def attributes(owner: Any, *names: str) -> Callable[[], Callable[[], None]]:
    def save() -> Callable[[], None]:
        values = {name: getattr(owner, name) for name in names if hasattr(owner, name)}

        def restore() -> None:
            for name, value in values.items():
                if getattr(owner, name) != value:
                    setattr(owner, name, value)

        return restore

    return save
