"""Transcripts: whether the fence under a block says what the block printed, warned and raised."""

from __future__ import annotations

from dataclasses import dataclass, field
from shlex import quote

from doccheck import outputs
from doccheck.failures import Failure
from doccheck.page import Block
from doccheck.places import Place


@dataclass
class Output:
    """What a block did. `printed` has warnings in their order; `error` is what Python says of an exception."""

    printed: str = ""
    error: list[str] = field(default_factory=list)
    raised: Failure | None = None  # the exception, as it is reported where it was not meant

    def text(self, error_lines: int | None = None) -> str:
        """The transcript as it would be written; of the error its first lines, all by default."""
        lines = self.printed.rstrip().split("\n") if self.printed.strip() else []
        return "\n".join(lines + self.error[: len(self.error) if error_lines is None else error_lines])


def expects(block: Block, error: list[str]) -> bool:
    """Whether the page says that the block raises: its transcript shows an error, this one or another."""
    if block.transcript is None or not error:
        return False
    name = error[0].partition(":")[0].strip()
    return outputs.names_error(block.transcript.text) or any(line.startswith(name) for line in block.transcript.lines)


def matches(block: Block, output: Output, device: str) -> bool:
    """Whether the transcript is right. Of an error its first line is enough."""
    shown = block.transcript.text if block.transcript else ""
    same = outputs.same_shape if block.varies else outputs.same
    if not output.error:
        return same(shown, output.text(), device)
    return any(same(shown, output.text(count), device) for count in range(1, len(output.error) + 1))


def shown_error_lines(block: Block, output: Output) -> int:
    """How many lines of the error the page shows; at least one."""
    if block.transcript is None or not output.error:
        return 0
    extra = len(block.transcript.text.strip("\n").split("\n")) - len(
        output.text(0).split("\n") if output.text(0) else []
    )
    return min(max(extra, 1), len(output.error))


def check(block: Block, output: Output, device: str) -> Failure | None:
    """What is wrong with a transcript; None where it is right."""
    if matches(block, output, device):
        return None
    page = block.place.path
    update = f"nox -s update -- {quote(page)}"
    transcript = block.transcript
    printed = output.text(shown_error_lines(block, output) or None)
    if transcript is None:
        verb = "warns" if outputs.WARNING.match(printed) else "prints"
        details = outputs.shortened([f"+ {line}" for line in printed.split("\n")])
        hint = f"add a ```text fence with this directly under {block.fence.end}, or run: {update}"
        return Failure(block.place, f"this block {verb}, and has no transcript", details, hint, mendable=True)
    expected = outputs.error_name(transcript.text)
    if not output.error and outputs.error_name(printed) == expected:
        expected = ""  # the block caught an error itself and printed it
    if not printed and not expected:
        hint = f"remove the transcript, mend the block at {block.place}, or run: {update}"
        return Failure(transcript.place, "this block prints nothing, and has a transcript", [], hint, mendable=True)
    details = ["- the page shows, + was printed", *outputs.diff(transcript.text, printed, device)]
    place = _first_difference(block, printed, device)
    if not expected:
        message = "the transcript differs from what the block printed"
        return Failure(place, message, details, f"edit {place}, or run: {update}", mendable=True)
    if not output.error:
        hint = f"mend the block at {block.place}; if it is right, write in {place} what it prints"
        return Failure(place, "the expected error did not come", details, hint)
    if output.raised is not None:
        details.append(f"raised at {output.raised.place}")
    if outputs.error_name(output.error[0]) != expected:
        hint = f"mend the block; if it is right, write in {place} what it raises"
        return Failure(place, "the block raised another error than the transcript says", details, hint)
    message = "the error says something else than the transcript"
    return Failure(place, message, details, f"edit {place}, or run: {update}", mendable=True)


def _first_difference(block: Block, printed: str, device: str) -> Place:
    """The first line of the transcript that is wrong."""
    assert block.transcript is not None
    lines = block.transcript.lines
    number = outputs.first_difference("\n".join(lines), printed, device, bool(block.varies))
    return lines[number].place if lines else block.transcript.place
