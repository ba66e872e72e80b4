// Step players. Each event is heard once, on the document, so that players on pages that navigation.instant swaps in work
// without a set-up. The build has marked the first frame and filled in its sentence: nothing runs until somebody asks.
(() => {
  const PACE = 2200;                                             // ms that a frame stays while it plays
  let timer = 0, playing = null;

  const slider = player => player.querySelector(".player-track input");
  const now = player => Number(slider(player).value);
  const last = player => Number(slider(player).max);
  const button = (player, go) => player.querySelector(`[data-go=${go}]`);

  function show(player, wanted) {
    const frames = player.querySelectorAll(":scope > ol > li");
    const at = Math.max(0, Math.min(last(player), wanted));
    const mark = (part, k) => part.toggleAttribute("data-now", k === at);
    frames.forEach(mark);
    player.querySelectorAll(".player-ticks span").forEach(mark);
    slider(player).value = at;
    slider(player).setAttribute("aria-valuetext", `step ${at + 1} of ${frames.length}`);
    const count = Object.assign(document.createElement("b"), { textContent: `${at + 1}/${frames.length}` });
    player.querySelector(".player-say").replaceChildren(count, frames[at].querySelector("p").textContent);
    button(player, "back").setAttribute("aria-disabled", at === 0);
    button(player, "next").setAttribute("aria-disabled", at === last(player));
  }

  function stop() {
    clearInterval(timer);
    if (playing) {
      playing.removeAttribute("data-playing");
      button(playing, "play").setAttribute("aria-label", "Play");
    }
    playing = null;
  }

  function play(player) {
    stop();
    playing = player;
    player.setAttribute("data-playing", "");
    button(player, "play").setAttribute("aria-label", "Pause");
    show(player, now(player) === last(player) ? 0 : now(player) + 1);
    timer = setInterval(() => {
      if (!player.isConnected || now(player) === last(player)) return stop();   // gone with its page, or at the end
      show(player, now(player) + 1);
    }, PACE);
  }

  document.addEventListener("click", event => {
    const pressed = event.target.closest?.(".player [data-go]");
    if (!pressed) return;
    const player = pressed.closest(".player");
    if (pressed.dataset.go === "play") return player === playing ? stop() : play(player);
    stop();
    show(player, now(player) + (pressed.dataset.go === "next" ? 1 : -1));
  });

  document.addEventListener("input", event => {
    if (!event.target.matches(".player-track input")) return;
    const player = event.target.closest(".player");
    stop();
    show(player, now(player));
  });

  // The slider has these keys by itself; the buttons beside it get them too.
  document.addEventListener("keydown", event => {
    const player = event.target.closest?.(".player");
    if (!player || event.target.matches("input") || event.ctrlKey || event.altKey || event.metaKey) return;
    const to = { ArrowLeft: now(player) - 1, ArrowRight: now(player) + 1, Home: 0, End: last(player) }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    stop();
    show(player, to);
  });
})();
