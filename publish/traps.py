"""`!!! failure "Trap: the wrong belief"`: the word Trap becomes a label of its own, the belief stays the title."""

from typing import Any

from markdown import Markdown
from markdown.extensions import Extension
from markdown.postprocessors import Postprocessor

TITLE = '<p class="admonition-title">Trap: '
LABELLED = '<p class="admonition-title"><span class="trap-label">Trap:</span> '


class TrapPostprocessor(Postprocessor):
    def run(self, text: str) -> str:
        return text.replace(TITLE, LABELLED)


class TrapExtension(Extension):
    def extendMarkdown(self, md: Markdown) -> None:
        md.postprocessors.register(TrapPostprocessor(md), "publish-traps", 4)


def makeExtension(**options: Any) -> TrapExtension:
    return TrapExtension(**options)
