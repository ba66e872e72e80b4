# SPDX-License-Identifier: 0BSD
"""The command line: `autograd-debugger`, `python -m snippets.capstone`.

Exit status: 0 healthy, 1 findings at or above --fail-on, 2 a usage
error (one line on stderr), 130 interrupted.
"""

import argparse
import contextlib
import json
import os
import sys
import traceback
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NoReturn

from .files import check_writable, write_whole
from .loading import DTYPES, Subject, UsageError, load, one_line

if TYPE_CHECKING:
    from .diagnosis import Diagnosis

PROGRAM = "autograd-debugger"
COMMANDS = {
    "graph": "the graph of the loss, and the bytes that it keeps",
    "gradients": "the gradient of each parameter: vanishing, zero, frozen …",
    "curvature": "top eigenvalue, spectrum and trace of the Hessian",
    "derivatives": "first and second derivatives against differences",
    "anomalies": "the first NaN or inf, with its line of code",
    "report": "all of these",
}


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{PROGRAM}: error: {' '.join(message.split())}\n")


def parser() -> _Parser:
    """Return the parser, from which the reference page is made too."""
    main = _Parser(
        prog=PROGRAM,
        description="Examine a PyTorch model: its graph, gradients, "
        "curvature, derivatives, and the origin of a NaN.",
        epilog="Exit status: 0 healthy, 1 findings at or above --fail-on, "
        "2 usage error, 130 interrupted.",
        allow_abbrev=False,
    )
    commands = main.add_subparsers(
        dest="command", required=True, metavar="COMMAND"
    )
    shared = _shared()
    for name, text in COMMANDS.items():
        commands.add_parser(
            name,
            help=text,
            description=f"Report on {text}.",
            parents=[shared],
            allow_abbrev=False,
        )
    return main


def _shared() -> _Parser:
    shared = _Parser(add_help=False)
    add = shared.add_argument_group("what to examine").add_argument
    place = "MODULE:FACTORY"
    text = "a function without arguments that returns the nn.Module, or the"
    add("--model", metavar=place, help=f"{text} module (default: a demo MLP)")
    text = "a function that returns (inputs, targets), or only the inputs"
    add("--batch", metavar=place, help=text)
    text = "a function or class that returns the criterion, which is called "
    text += "with (output, targets); not for a model that returns its loss"
    add("--loss", metavar=place, help=text)
    text = "hidden layers of the demo MLP (default: 5)"
    add("--depth", type=_positive, help=text)
    add("--dim", type=_positive, help="width of the demo MLP (default: 64)")
    text = "build model, batch and criterion on the CPU and move them there"
    add("--device", default="", help=f"{text} (default: leave them)")
    text = "cast their floating-point tensors to it (default: leave them)"
    add("--dtype", default="", choices=DTYPES, help=text)
    text = "of the factories and of random vectors (default: 0)"
    add("--seed", type=int, default=0, help=text)
    add = shared.add_argument_group("what to write").add_argument
    text = "write the report there as JSON; - writes it to stdout, in place "
    add("--json", metavar="PATH", help=f"{text}of the text")
    text = "write the report there as one self-contained page"
    add("--html", metavar="PATH", help=text)
    text = "exit with 1 from this level of finding on (default: warning)"
    levels = ["never", "warning", "error"]
    add("--fail-on", choices=levels, default="warning", help=text)
    text = "show the traceback of an error that stops the program"
    add("--debug", action="store_true", help=text)
    return shared


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{value} is not 1 or more")
    return value


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program and return its exit status.

    Only `--help` and errors of the parser raise SystemExit.
    """
    options = parser().parse_args(arguments)
    try:
        return _run(options)
    except UsageError as error:
        if options.debug:
            traceback.print_exception(error.__cause__ or error)
        print(f"{PROGRAM}: error: {error}", file=sys.stderr)
        return 2
    except Exception as error:
        if options.debug:
            traceback.print_exception(error)
        print(f"{PROGRAM}: error: {one_line(error)}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"{PROGRAM}: interrupted", file=sys.stderr)
        return 130


def _run(options: argparse.Namespace) -> int:
    from .diagnosis import diagnose
    from .findings import fails

    _check(options)
    with _clean_stdout(options.json == "-"), _Progress() as progress:
        subject = _subject(options)
        diagnosis = diagnose(subject, options.command, progress)
    _write(options, diagnosis)
    return int(fails(diagnosis.verdict, options.fail_on))


def _check(options: argparse.Namespace) -> None:
    """Find what cannot work before the work starts."""
    if options.model is None:
        for name in ("batch", "loss"):
            if getattr(options, name) is not None:
                raise UsageError(f"--{name} needs --model")
    else:
        if options.batch is None:
            raise UsageError("--model needs --batch")
        for name in ("depth", "dim"):
            if getattr(options, name) is not None:
                raise UsageError(f"--{name} is of the demo, without --model")
    if options.html == "-":
        raise UsageError("--html needs a path: stdout is for text and JSON")
    paths = {}
    for name in ("json", "html"):
        path = getattr(options, name)
        if path is not None and path != "-":
            check_writable(f"--{name}", path)
            paths[name] = os.path.realpath(path)
    if len(paths) == 2 and paths["json"] == paths["html"] != os.devnull:
        raise UsageError("--json and --html name the same file")


def _subject(options: argparse.Namespace) -> Subject:
    from .demo import demo

    to = {key: getattr(options, key) for key in ("device", "dtype", "seed")}
    if options.model is None:
        return demo(options.depth or 5, options.dim or 64, **to)
    return load(options.model, options.batch, options.loss or "", **to)


def _write(options: argparse.Namespace, diagnosis: "Diagnosis") -> None:
    text = json.dumps(
        diagnosis.to_dict(), indent=2, ensure_ascii=False, allow_nan=False
    )
    try:
        if options.html is not None:
            from .report import page

            write_whole(options.html, page(diagnosis))
        if options.json not in (None, "-"):
            write_whole(options.json, f"{text}\n")
    except OSError as error:
        raise UsageError(f"cannot write {error.filename}: {error}") from error
    _print(text if options.json == "-" else str(diagnosis))


def _print(text: str) -> None:
    """Print, also where the reader has gone or knows only ASCII."""
    coding = getattr(sys.stdout, "encoding", None) or "utf-8"
    try:
        print(text.encode(coding, "replace").decode(coding), flush=True)
    except BrokenPipeError:  # | head
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextlib.contextmanager
def _clean_stdout(on: bool) -> Iterator[None]:
    """What the user's code prints goes to stderr."""
    if not on:
        yield
        return
    with contextlib.redirect_stdout(sys.stderr):
        yield


class _Progress:
    """Says on a terminal what is being done; elsewhere nothing."""

    def __init__(self) -> None:
        self.shown = sys.stderr.isatty()

    def __call__(self, name: str) -> None:
        if self.shown:
            print(f"\r\033[K{name} …", end="", file=sys.stderr, flush=True)

    def __enter__(self) -> "_Progress":
        self("loading")
        return self

    def __exit__(self, *unused: object) -> None:
        if self.shown:
            print("\r\033[K", end="", file=sys.stderr, flush=True)
