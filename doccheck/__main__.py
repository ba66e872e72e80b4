"""`python -m doccheck update PAGE…` and `python -m doccheck shown SITE`."""

from __future__ import annotations

import argparse
import secrets
import sys
from pathlib import Path

from doccheck.project import Project


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="doccheck", description="What pages show, checked and brought up to date.")
    commands = parser.add_subparsers(dest="command", required=True)
    update = commands.add_parser("update", help="rewrite wrong transcripts and values in place")
    update.add_argument("pages", nargs="*", help="pages; all by default")
    update.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    update.add_argument("--seed", type=int, default=None)
    shown = commands.add_parser("shown", help="compare the Python of a built site with what ran")
    shown.add_argument("site", nargs="?", default="site")
    shown.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    shown.add_argument("--proven", action="store_true", help="fail where a page has no run that still counts")
    options = parser.parse_args(arguments)
    try:
        project = Project.load(Path.cwd())
    except FileNotFoundError:
        print("doccheck: no mkdocs.yml here; run this at the root of the project", file=sys.stderr)
        return 2
    return _update(project, options) if options.command == "update" else _shown(project, options)


def _update(project: Project, options: argparse.Namespace) -> int:
    from doccheck.update import update

    paths = [Path(name).resolve() for name in options.pages] or project.pages()
    for path in paths:
        if not path.is_file() or not project.is_page(path):
            print(f"doccheck: {project.name(path)} is not a page under {project.name(project.docs)}/", file=sys.stderr)
            return 2
    seed = secrets.randbelow(2**31) if options.seed is None else options.seed
    status = 0
    for path in paths:
        try:
            outcome = update(project, path, options.device, seed)
        except KeyboardInterrupt:
            print(f"{project.name(path)}: not touched, interrupted", file=sys.stderr)
            return 130
        if outcome.refused:
            print(f"{project.name(path)}: not touched\n{outcome.refused}")
            status = 1
        elif outcome.changed:
            print("\n".join(f"{place}: rewritten" for place in outcome.changed))
        else:
            print(f"{project.name(path)}: nothing to change")
    return status


def _shown(project: Project, options: argparse.Namespace) -> int:
    from doccheck.shown import compare

    site = Path(options.site).resolve()
    if not site.is_dir():
        print(f"doccheck: {options.site} is not a built site; run: nox -s site", file=sys.stderr)
        return 2
    found = compare(project, site, options.device, options.proven)
    for note in found.notes:
        print(f"note: {note}; compared with the blocks that would run")
    for problem in found.problems:
        print(problem)
    if not found.problems:
        print(f"shown = run: {found.blocks} Python blocks on {len(project.pages())} pages")
    return 1 if found.problems else 0


if __name__ == "__main__":
    sys.exit(main())
