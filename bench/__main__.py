"""`python -m bench [runner] [printer] [site] [capstone [--write]]`: print the tables."""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path

from bench import printer, runner, site
from bench.capstone import run as capstone

PARTS = {"runner": runner.main, "printer": printer.main, "site": site.main, "capstone": capstone.main}


def main() -> int:
    asked = sys.argv[1:] or list(PARTS)
    if asked == ["capstone", "--write"]:
        return capstone.write(Path.cwd())
    for name in asked:
        if name not in PARTS:
            print(f"bench: no part '{name}'; there are {', '.join(PARTS)} and capstone --write", file=sys.stderr)
            return 2
    print(f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}")
    for name in asked:
        PARTS[name](Path.cwd())
    return 0


if __name__ == "__main__":
    sys.exit(main())
