"""KaTeX in one V8 engine: TeX in, HTML with hidden MathML out. No Node, no script on the page."""

import atexit
import json
from functools import cache, lru_cache
from pathlib import Path

from py_mini_racer import MiniRacer

SOURCE = Path(__file__).parent / "vendor" / "katex" / "katex.min.js"

# An error must come back as data: an exception inside V8 would lose the position that KaTeX reports.
CALL = """
function typeset(tex, displayMode) {
  try {
    const html = katex.renderToString(tex, {displayMode, throwOnError: true, strict: "error", output: "htmlAndMathml"});
    return JSON.stringify({html});
  } catch (error) {
    const message = error.rawMessage || error.message || String(error);
    return JSON.stringify({message, position: error.position ?? null});
  }
}
"""


class FormulaError(ValueError):
    """KaTeX refused a formula: its message, and the offset in the TeX where it stopped, if it named one."""

    def __init__(self, message: str, position: int | None) -> None:
        super().__init__(message)
        self.message = message
        self.position = position


@cache
def engine() -> MiniRacer:
    """Started by the first formula; a process needs no more than one."""
    v8 = MiniRacer()
    # Left to the interpreter's own end, it waits now and then for a thread that is gone already, for ever.
    atexit.register(v8.close)
    v8.eval(SOURCE.read_text(encoding="utf-8"))
    v8.eval(CALL)
    return v8


@lru_cache(maxsize=4096)
def typeset(tex: str, display: bool) -> str:
    """The HTML of one formula. Raises FormulaError."""
    answer = json.loads(str(engine().eval(f"typeset({json.dumps(tex)}, {json.dumps(display)})")))
    if "html" not in answer:
        raise FormulaError(answer["message"], answer["position"])
    return str(answer["html"])
