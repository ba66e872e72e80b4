"""Record: what ran, where and with which result, in `.verification/<device>.json`."""

from __future__ import annotations

import json
import os
import platform
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from doccheck.page import Page, digest
from doccheck.project import Project
from doccheck.run import PageRun

SCHEMA = 1


def path(project: Project, device: str) -> Path:
    return project.root / ".verification" / f"{device.partition(':')[0]}.json"


def entry(done: PageRun) -> dict[str, Any]:
    """One page of a record. The hashes are of what is shown, includes expanded."""
    blocks = []
    for block in done.page.blocks:
        result = done.results[block.id]
        failure = result.failure
        blocks.append(
            {
                "id": block.id,
                "line": block.place.line,
                "hash": digest(block.shown),
                "outcome": result.outcome,
                "reason": result.reason or (f"{failure.place}: {failure.message}" if failure else ""),
                "seconds": round(result.seconds, 3),
            }
        )
    return {"hash": done.page.hash, "varies": sum(bool(b.varies) for b in done.page.blocks), "blocks": blocks}


def read(project: Project, device: str) -> dict[str, Any] | None:
    """The record of a device; None where there is none that can be read."""
    try:
        found = json.loads(path(project, device).read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) and found.get("schema") == SCHEMA else None


def update(project: Project, device: str, runs: list[PageRun]) -> Path | None:
    """Write the pages that ran whole into the record; pages that are gone, or ran on another torch, leave it."""
    whole = [done for done in runs if done.whole]
    if not whole:
        return None
    head = {
        "schema": SCHEMA,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "device": device_name(device),
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
    }
    old = read(project, device) or {}
    same_machine = all(old.get(key) == head[key] for key in ("torch", "python", "device"))
    names = {project.name(page) for page in project.pages()}
    pages = {name: page for name, page in old.get("pages", {}).items() if same_machine and name in names}
    pages |= {done.page.name: entry(done) for done in whole}
    target = path(project, device)
    target.parent.mkdir(exist_ok=True)
    write(target, json.dumps({**head, "pages": dict(sorted(pages.items()))}, indent=1) + "\n")
    return target


def device_name(device: str) -> str:
    """The card's own name, or how many cores a CPU has."""
    if device.startswith("cuda"):
        return torch.cuda.get_device_name(device)
    return f"{os.cpu_count()} cores, {platform.machine()}" if device == "cpu" else device


def write(target: Path, text: str, encoding: str = "utf-8") -> None:
    """Replace a file whole or not at all; its permissions stay, and a link stays a link."""
    target = target.resolve()
    descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    draft = Path(name)
    try:
        with os.fdopen(descriptor, "w", encoding=encoding, newline="") as file:
            file.write(text)
        draft.chmod(target.stat().st_mode & 0o777 if target.exists() else 0o644)
        draft.replace(target)
    except BaseException:
        draft.unlink()
        raise


def is_current(recorded: dict[str, Any], page: Page) -> bool:
    return bool(recorded.get("hash") == page.hash)
