"""Lighthouse: one run on each page, on a phone as it sees one. Scores of one run on a shared machine are no gate."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

from bench import clock, visits
from publish.preview import served

VERSION = "12.2.3"  # 13 wants a newer Node than Debian's
PARTS = {
    "performance": "performance",
    "accessibility": "accessibility",
    "best-practices": "best practices",
    "seo": "SEO",
}
FLAGS = "--headless --no-sandbox --disable-gpu --disable-background-networking"


def main(folder: Path, cache: Path) -> None:
    program = _program(cache)
    chromium = visits.program()
    if program is None or chromium is None:
        print("\nlighthouse: needs npm and Chromium on PATH, nothing measured")
        return
    rows = []
    with served(folder) as site:
        for path in site.pages:
            report = _run(program, chromium, site.address + path)
            scores = [f"{100 * (report['categories'][part]['score'] or 0):.0f}" for part in PARTS]
            shift = report["audits"]["cumulative-layout-shift"]["numericValue"]
            rows.append([path or "home", *scores, f"{shift:.3f}"])
    clock.table(f"Lighthouse {VERSION}, mobile, one run", ["page", *PARTS.values(), "layout shift"], rows)


def _program(cache: Path) -> Path | None:
    """Lighthouse, installed once by npm."""
    folder = cache / f"lighthouse-{VERSION}"
    program = folder / "node_modules" / ".bin" / "lighthouse"
    npm = shutil.which("npm")
    if not program.exists() and npm:
        folder.mkdir(parents=True, exist_ok=True)
        command = [
            npm,
            "install",
            "--silent",
            "--no-audit",
            "--no-fund",
            "--prefix",
            str(folder),
            f"lighthouse@{VERSION}",
        ]
        subprocess.run(command, check=True, timeout=300, env={**os.environ, "PUPPETEER_SKIP_DOWNLOAD": "1"})
    return program if program.exists() else None


def _run(program: Path, chromium: str, address: str) -> dict[str, dict[str, dict[str, float]]]:
    command = [str(program), address, "--quiet", "--output=json", f"--chrome-flags={FLAGS}"]
    environment = {**os.environ, "CHROME_PATH": chromium}
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, env=environment)
    if done.returncode:
        raise RuntimeError(f"lighthouse failed on {address}:\n{done.stderr[-1000:]}")
    found: dict[str, dict[str, dict[str, float]]] = json.loads(done.stdout)
    return found
