"""Examples: the HTML reports of the capstone's example models, made by the tool and published beside its page.

They lie in `capstone/examples/NAME.html`. A report is made once for each state of its sources and kept in `.cache`.
The GPT-2 needs transformers; where that is missing, its address says so, so that every link holds everywhere.
"""

import contextlib
import hashlib
import os
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
CAPSTONE = ROOT / "snippets" / "capstone"
KEPT = ROOT / ".cache" / "examples"
FOLDER = "capstone/examples"
MODULE = "snippets.capstone.examples"
BATCHES = {
    "healthy": "batch",
    "vanishing": "batch",
    "exploding": "sequences",
    "dead": "batch",
    "masked": "batch",
    "wrong": "batch",
    "frozen": "batch",
}
MISSING = (
    '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>GPT-2: not made</title>'
    '<meta name="viewport" content="width=device-width, initial-scale=1">'
    '<meta name="color-scheme" content="light dark"></head><body><main><h1>GPT-2: not made</h1>'
    "<p>This report needs transformers, which the machine that built these pages does not have.</p>"
    "</main></body></html>\n"
)


def reports() -> dict[str, str]:
    """The page of each report by its path in the site."""
    names = [*BATCHES, "gpt2"]
    return {f"{FOLDER}/{name}.html": _report(name) for name in names}


def _report(name: str) -> str:
    if name == "gpt2" and find_spec("transformers") is None:
        return MISSING
    kept = KEPT / f"{name}-{_key()[:16]}.html"
    if not kept.exists():
        made = _made(name)
        KEPT.mkdir(parents=True, exist_ok=True)
        part = kept.with_suffix(f".{os.getpid()}.part")
        part.write_text(made, "utf-8")
        part.replace(kept)
    return kept.read_text("utf-8")


def _key() -> str:
    """What a report depends on: the tool, this file, and the libraries that run."""
    found = hashlib.sha256()
    for path in [*sorted(CAPSTONE.glob("*.py")), Path(__file__)]:
        found.update(path.name.encode() + path.read_bytes())
    for library in ("torch", "transformers"):
        try:
            found.update(version(library).encode())
        except PackageNotFoundError:
            found.update(b"none")
    return found.hexdigest()


def _made(name: str) -> str:
    """Diagnose the model on one thread, from the root, so that paths are those of the project."""
    import torch

    from snippets.capstone.diagnosis import diagnose
    from snippets.capstone.loading import load
    from snippets.capstone.report import page

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with contextlib.chdir(ROOT), torch.random.fork_rng(devices=[]):
            if name == "gpt2":
                return page(diagnose(_gpt2()))
            batch = f"{MODULE}:{BATCHES[name]}"
            return page(diagnose(load(f"{MODULE}:{name}", batch, "torch.nn:MSELoss")))
    finally:
        torch.set_num_threads(threads)


def _gpt2() -> Any:
    """Two blocks of width 32 with random weights, from a config: nothing is fetched. 2 × 16 tokens."""
    import torch

    from snippets.capstone.loading import assemble

    sizes = {"n_layer": 2, "n_head": 4, "n_embd": 32, "vocab_size": 128, "n_positions": 16}
    torch.manual_seed(0)
    library: Any = import_module("transformers")  # untyped here: not every machine has it
    config = library.GPT2Config(**sizes, bos_token_id=0, eos_token_id=0)
    model = library.GPT2LMHeadModel(config).eval()
    tokens = torch.randint(0, sizes["vocab_size"], (2, 16))
    batch = {"input_ids": tokens, "labels": tokens}
    return assemble(model, batch, None, ("GPT-2 from a config", "2 × 16 random tokens", ""))
