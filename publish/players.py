"""A step player: every frame is in the page, and the first one shows. `docs/assets/player.js` moves it when asked."""

from html import escape
from math import ceil

from publish.art import Step, panels

ICONS = {
    "back": "M14 5 7 12l7 7",
    "next": "M10 5l7 7-7 7",
    "play": "M8 5l11 7-11 7z",
    "pause": "M8 5v14M16 5v14",
}


def player(steps: tuple[Step, ...], alt: str) -> str:
    """The HTML of a player; `alt` names the group of its controls and pictures.

    It is a `section` because nothing inside is one: Material's indexer counts tags by name to see where what it
    leaves out ends.
    """
    count = len(steps)
    frames, ticks = [], []
    for number, step in enumerate(steps):
        now = " data-now" if number == 0 else ""
        frames.append(f"<li{now}>{panels(step)}<p>{escape(step.caption, quote=False)}</p></li>")
        kind = f' class="{step.phase}"' if step.phase else ""
        ticks.append(f"<span{kind}{now}>{escape(step.tick, quote=False)}</span>")
    say = escape(steps[0].caption, quote=False)
    longest = max(len(step.caption) for step in steps) + 6
    lines = f"--lines:{ceil(longest / 72)};--narrow-lines:{ceil(longest / 34)}"
    return (
        f'<section class="player" role="group" aria-label="{escape(alt)}" data-search-exclude'
        f' style="--steps:{count};--track:{track(steps)};{lines}">'
        f"<ol>{''.join(frames)}</ol>"
        f'<div class="player-bar"><div class="player-buttons">'
        f'<button type="button" data-go="back" aria-label="Previous step" aria-disabled="true">{icon("back")}</button>'
        f'<button type="button" data-go="play" aria-label="Play">{icon("play")}{icon("pause")}</button>'
        f'<button type="button" data-go="next" aria-label="Next step" aria-disabled="false">{icon("next")}</button>'
        f'</div><div class="player-track"><input type="range" min="0" max="{count - 1}" value="0" autocomplete="off"'
        f' aria-label="Step" aria-valuetext="step 1 of {count}">'
        f'<div class="player-ticks" aria-hidden="true">{"".join(ticks)}</div></div></div>'
        f'<div class="player-say" role="status"><b>1/{count}</b>{say}</div></section>'
    )


def track(steps: tuple[Step, ...]) -> str:
    """The slider's track in the colour of what each stretch leads to: forward, backward, second backward."""
    stops, last = [], max(1, len(steps) - 1)
    for number in range(1, len(steps)):
        phase = steps[number].phase or steps[number - 1].phase or "fwd"
        stops.append((phase, number / last))
    merged: list[tuple[str, float]] = []
    for phase, end in stops:
        if merged and merged[-1][0] == phase:
            merged[-1] = (phase, end)
        else:
            merged.append((phase, end))
    begin, parts = 0.0, []
    for phase, end in merged:
        parts.append(f"var(--{phase}) {begin:.1%} {end:.1%}")
        begin = end
    return f"linear-gradient(90deg,{','.join(parts)})" if parts else "var(--line)"


def icon(name: str) -> str:
    path = f'<path d="{ICONS[name]}"/>'
    return f'<svg class="{name}" viewBox="0 0 24 24" width="20" height="20" aria-hidden="true">{path}</svg>'
