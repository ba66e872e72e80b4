// What Material 9.8 leaves open for the keyboard and for screen readers, mended while the page runs. Nothing is patched in
// its bundle, and one observer on the document also sees the pages that navigation.instant swaps in.
(() => {
  const SCROLLERS = ".md-typeset .highlight pre, .md-typeset .math, .md-typeset__scrollwrap";

  // A box that scrolls must take the focus, or the keyboard cannot move it; one that does not would be a useless stop.
  // All are measured before any is changed: otherwise the browser lays the page out anew for each of them.
  const reachAll = boxes => [...boxes].map(box => [box, box.scrollWidth > box.clientWidth]).forEach(reach);

  function reach([box, scrolls]) {
    if (!scrolls) return box.removeAttribute("tabindex");
    box.setAttribute("tabindex", "0");
    if (box.matches(".math")) return;                            // has its role and its name from the build
    box.setAttribute("role", "group");
    box.setAttribute("aria-label", box.matches("pre") ? (box.closest(".transcript") ? "Output" : "Code") : "Table");
  }

  const watched = new WeakMap();                                 // what changes size → the box that may scroll
  const sizes = new ResizeObserver(entries => reachAll(new Set(entries.map(entry => watched.get(entry.target)))));

  function mend() {
    // Each copy button is a landmark with no name of its own; a button needs no landmark.
    document.querySelectorAll("nav.md-code__nav:not([role])").forEach(nav => nav.setAttribute("role", "presentation"));
    for (const box of document.querySelectorAll(SCROLLERS)) {
      if (watched.has(box)) continue;
      for (const part of [box, ...box.children]) {
        watched.set(part, box);
        sizes.observe(part);
      }
    }
  }

  let waiting = false;
  new MutationObserver(() => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => { waiting = false; mend(); });
  }).observe(document.documentElement, { childList: true, subtree: true });
  mend();
})();

// The search takes + and - before a word as signs of its own, so `total += loss` would ask for the word "=". People paste
// code: such signs are sent to the search as blanks, while the field keeps what was typed.
(() => {
  const QUERY = 2;                                               // Material's type of the message that carries a query
  const send = Worker.prototype.postMessage;
  Worker.prototype.postMessage = function (message, ...rest) {
    if (message?.type === QUERY && typeof message.data === "string")
      message = { ...message, data: message.data.replace(/(^|\s)[-+*/@%&|^~:=<>!]+(?=\s|$)/g, " ") };
    return send.call(this, message, ...rest);
  };
})();
