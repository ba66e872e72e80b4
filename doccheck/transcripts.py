"""Transcripts: whether the fence under a block says what the block printed, warned and raised."""

from __future__ import annotations

from dataclasses import dataclass, field

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
    update = f"nox -s update -- {page}"
    transcript = block.transcript
    printed = output.text(shown_error_lines(block, output) or None)
    if transcript is None:
        verb = "warns" if outputs.WARNING.match(printed) else "prints"
        details = [f"+ {line}" for line in printed.split("\n")]
        hint = f"add a ```text fence with this directly under {block.fence.end}, or run: {update}"
        return Failure(block.place, f"this block {verb}, and has no transcript", details, hint, mendable=True)
    if not printed:
        what = "raised" if outputs.names_error(transcript.text) else "printed"
        hint = f"remove the transcript, mend the block at {block.place}, or run: {update}"
        message = f"the page shows a transcript, and the block {what} nothing"
        return Failure(transcript.place, message, [], hint, mendable=not outputs.names_error(transcript.text))
    details = outputs.diff(transcript.text.strip("\n"), printed.strip("\n"))
    place = _first_difference(block, printed, device)
    message = "the transcript differs from what the block printed"
    hint = f"edit {place}, or run: {update}"
    if outputs.names_error(transcript.text) and not output.error:
        message = "the expected error did not come"
        hint = f"mend the block at {block.place}; if it is right, write in {place} what it prints"
    elif output.error and outputs.names_error(transcript.text):
        message = "the block raised something else than the transcript says"
        if output.raised is not None:
            details.append(f"raised at {output.raised.place}")
    return Failure(place, message, ["- the page shows, + was printed", *details], hint, mendable=True)


def _first_difference(block: Block, printed: str, device: str) -> Place:
    """The first line of the transcript that is wrong."""
    assert block.transcript is not None
    got = printed.strip("\n").split("\n")
    skipped = next((i for i, line in enumerate(block.transcript.lines) if line.strip()), 0)
    lines = block.transcript.lines[skipped:]
    same = outputs.same_shape if block.varies else outputs.same
    for number, line in enumerate(lines):
        if number >= len(got) or not same(line, got[number], device):
            return line.place
    return lines[-1].place if lines else block.transcript.place
