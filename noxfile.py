"""Sessions: what a contributor, a GPU owner and CI run. One environment in .nox serves them all, but for bench."""

import sys

if sys.version_info < (3, 11, 5):  # an older Python reads this file before pip can refuse
    sys.exit("Autograd, Proven needs Python 3.11.5 or newer; this is " + sys.version.split()[0])

import hashlib
import json
import os
import shutil
from pathlib import Path

import nox

ROOT = Path(__file__).parent
TORCH = os.environ.get("AUTOGRAD_TORCH", "")  # another release than the pinned one, such as 2.11.0
OWN_PYTHON = "--no-venv" in sys.argv  # the machine's own Python and torch; nothing is installed
GROUPS = ("snippets", "test", "site", "lint", "browser")
# What running the pages needs, as module and as package.
NEEDED = {
    "torch": "torch",
    "numpy": "numpy",
    "matplotlib": "matplotlib",
    "pytest": "pytest",
    "sybil": "sybil",
    "markdown": "Markdown",
    "pymdownx": "pymdown-extensions",
    "pygments": "Pygments",
    "yaml": "PyYAML",
    "packaging": "packaging",
}

nox.options.default_venv_backend = "virtualenv"
nox.options.sessions = ["lint", "test-cpu", "site"]


def environment(session: nox.Session, more: str = "") -> str:
    """The Python that runs everything: of the shared environment, made or brought up to date where it must be.

    more: one more group, which gets an environment of its own, so that what it installs is nowhere else.
    """
    if OWN_PYTHON:
        return own_python(session)
    groups = nox.project.load_toml("pyproject.toml")
    named = (*GROUPS, more) if more else GROUPS
    wanted = [line for group in named for line in nox.project.dependency_groups(groups, group)]
    if TORCH:
        wanted = [f"torch=={TORCH}" if line.startswith("torch==") else line for line in wanted]
    torch = next(line for line in wanted if line.startswith("torch=="))
    folder = ROOT / ".nox" / f"{more}{torch.replace('==', '-')}-py{sys.version_info.major}{sys.version_info.minor}"
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    stamp = folder / "installed"
    state = hashlib.sha256(json.dumps([sys.version, wanted]).encode()).hexdigest()
    if python.exists() and stamp.exists() and stamp.read_text() == state:
        return str(python)
    if not python.exists():
        session.run(sys.executable, "-m", "virtualenv", "--quiet", str(folder), external=True)
    stamp.unlink(missing_ok=True)
    session.run(str(python), "-m", "pip", "install", "--quiet", *wanted, external=True)
    stamp.write_text(state)
    return str(python)


def own_python(session: nox.Session) -> str:
    """The `python` on PATH, and a clear word about what it lacks."""
    python = shutil.which("python") or shutil.which("python3") or sys.executable
    code = f"import importlib.util as u; print(*[p for m, p in {NEEDED!r}.items() if not u.find_spec(m)])"
    missing = session.run(python, "-c", code, external=True, silent=True)
    if missing and missing.strip():
        session.error(f"{python} lacks {missing.strip()}; install that, or leave out --no-venv")
    return python


def run(session: nox.Session, *arguments: str, more: str = "", **variables: str) -> None:
    """One command of the shared environment, at the root of the project. more: as for `environment`."""
    variables = {"NO_MKDOCS_2_WARNING": "1", **variables}
    session.run(environment(session, more), "-m", *arguments, external=True, env=variables)


def pages(session: nox.Session) -> list[str]:
    """What was asked for; every page and snippet where no path was."""
    asked = any((ROOT / word.split("::")[0]).exists() for word in session.posargs if not word.startswith("-"))
    return [*session.posargs] if asked else ["docs", "snippets", *session.posargs]


@nox.session(python=False)
def serve(session: nox.Session) -> None:
    """Show the site while you edit; it follows pages and snippets."""
    run(session, "mkdocs", "serve", "--no-strict", *session.posargs)


@nox.session(python=False)
def site(session: nox.Session) -> None:
    """Build the site into site/ and compare what it shows with what ran. `-- --proven` asks for runs that count."""
    run(session, "mkdocs", "build", "--strict", "--clean")
    run(session, "doccheck", "shown", "site", *session.posargs)


@nox.session(name="test-cpu", python=False)
def test_cpu(session: nox.Session) -> None:
    """Run every page, every snippet and the tests of the machinery; or what is named."""
    run(session, "pytest", "--device", "cpu", *session.posargs)


@nox.session(name="test-cuda", python=False)
def test_cuda(session: nox.Session) -> None:
    """Run every page on this machine's NVIDIA GPU, and record it in .verification/cuda.json."""
    run(session, "pytest", "--device", "cuda", *pages(session))


@nox.session(python=False)
def update(session: nox.Session) -> None:
    """Rewrite wrong transcripts and values of the named pages (of all where none is named)."""
    run(session, "doccheck", "update", *session.posargs)


@nox.session(python=False)
def lint(session: nox.Session) -> None:
    """Style and types."""
    run(session, "ruff", "check", ".")
    run(session, "ruff", "format", "--check", ".")
    run(session, "mypy")


@nox.session(python=False)
def browser(session: nox.Session) -> None:
    """Build the site and look at it in Chromium."""
    run(session, "mkdocs", "build", "--strict", "--clean")
    run(session, "pytest", "tests/browser", *session.posargs, AUTOGRAD_SITE=str(ROOT / "site"))


@nox.session(python=False)
def bench(session: nox.Session) -> None:
    """Print how long the runner, the site and the capstone take; `-- capstone --write` keeps it as a page."""
    run(session, "bench", *session.posargs, more="bench")
