// "?" shows the keys.
EagleEye.help = {
  keys: [
    ["Enter", "ask, or race"], ["Shift + Enter", "a new line"], ["Esc", "stop; close the settings"],
    ["Alt + T", "answers as text, by tokens, by steps"], ["Alt + 1, 2, 3 …", "the pages from left to right"],
    ["← →", "walk the steps, in bars, tokens and steps; a twentieth of a second of a replay"],
    ["PgUp, PgDn", "half a second, on a replay's slider"],
    ["Home, End", "the first and the last step; start and end of a replay"],
    ["Space", "play and pause a replay"], ["?", "this list"],
  ],

  start() {
    const list = EagleEye.make("dl");
    for (const [key, what] of this.keys) {
      list.append(EagleEye.make("dt", "", EagleEye.make("kbd", "", key)), EagleEye.make("dd", "", what));
    }
    const close = EagleEye.make("form", "", EagleEye.make("button", "", "Close"));
    close.method = "dialog";
    this.dialog = EagleEye.make("dialog", "ee-help", close, EagleEye.make("h2", "", "Keys"), list);
    this.dialog.setAttribute("aria-label", "Keys");
    document.querySelector(".gradio-container").append(this.dialog);
    document.addEventListener("keydown", (event) => {
      if (event.key !== "?" || event.target.closest("input, textarea, select, [contenteditable]")) return;
      event.preventDefault();
      this.show();
    });
  },

  show() {
    if (!this.dialog.open) this.dialog.showModal();
  },
};
