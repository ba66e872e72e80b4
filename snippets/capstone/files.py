# SPDX-License-Identifier: 0BSD
"""Files that are written whole or not at all."""

import contextlib
import os
import tempfile
from pathlib import Path

from .loading import UsageError


def check_writable(option: str, path: str) -> None:
    """Raise UsageError if `write_whole` could not write there."""
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise UsageError(f"{option} {path}: it is a directory")
    if _special(target):
        return
    if not target.parent.is_dir():
        raise UsageError(f"{option} {path}: there is no such directory")
    try:
        with tempfile.TemporaryFile(dir=target.parent):
            pass
    except OSError as error:
        raise UsageError(f"{option} {path}: {error.strerror}") from error


def write_whole(path: str, text: str) -> None:
    """Write a text file; after an error or Ctrl-C the old one is there.

    A link stays a link. A device such as /dev/null is written to.
    """
    target = Path(os.path.realpath(path))
    if _special(target):
        target.write_text(text, encoding="utf-8")
        return
    handle, name = tempfile.mkstemp(
        prefix=f".{target.name}.", suffix=".part", dir=target.parent
    )
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        Path(name).chmod(_mode(target))
        Path(name).replace(target)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            Path(name).unlink()
        raise


def _special(target: Path) -> bool:
    return target.exists() and not target.is_file()


def _mode(target: Path) -> int:
    """The permissions of the old file, or of any new one."""
    if target.exists():
        return target.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
