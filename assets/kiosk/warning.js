// "Still there?": a countdown that is shown every second and said once.
export class Warning {
  // `on`: stay(), gone()
  constructor(dialog, seconds, on) {
    this.dialog = dialog;
    this.seconds = seconds;
    this.on = on;
    this.count = dialog.querySelector(".k-countdown");
    dialog.querySelector(".k-warning").textContent =
      `Everything is wiped in ${Math.ceil(seconds)} seconds.`;
    dialog.querySelector(".k-stay").addEventListener("click", () => on.stay());
    this.timer = null;
    // Esc, and a touch beside the dialogue.
    dialog.addEventListener("close", () => this.timer !== null && on.stay());
    dialog.addEventListener("click", (event) => event.target === dialog && on.stay());
  }

  open() {
    const end = performance.now() + 1000 * this.seconds;
    const tick = () => {
      const left = (end - performance.now()) / 1000;
      this.count.textContent = String(Math.max(0, Math.ceil(left)));
      if (left <= 0) this.on.gone();
    };
    this.dialog.showModal();
    this.timer = setInterval(tick, 200);
    tick();
  }

  close() {
    clearInterval(this.timer);
    this.timer = null;
    if (this.dialog.open) this.dialog.close();
  }
}
