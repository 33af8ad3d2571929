// The staff panel: a long press in the corner, or Enter on it, then the PIN. The PIN is kept while
// the panel is open and nowhere else.
import { Refused } from "./server.js";

const make = EagleEye.make;
const HOLD_MILLISECONDS = 1500;
const OPEN_MILLISECONDS = 60000; // without a touch
const REFRESH_MILLISECONDS = 2000;

export class Staff {
  // `on`: endVisit(), isVisited()
  constructor(corner, dialog, server, on) {
    this.dialog = dialog;
    this.server = server;
    this.on = on;
    this.find = (selector) => dialog.querySelector(selector);
    this.field = this.find("input");
    this.pin = null;
    this.listen(corner);
    this.makePad();
    this.find("form").addEventListener("submit", (event) => {
      event.preventDefault();
      this.enter(this.field.value);
    });
    this.find(".k-close").addEventListener("click", () => this.close());
    this.find(".k-end-visit").addEventListener("click", () => this.endVisit());
    this.find(".k-restart").addEventListener("click", () => this.restart());
    dialog.addEventListener("close", () => this.forget());
    dialog.addEventListener("pointerdown", () => this.keepOpen());
    dialog.addEventListener("keydown", () => this.keepOpen());
  }

  listen(corner) {
    let timer = null;
    const release = () => clearTimeout(timer);
    corner.hidden = false;
    corner.addEventListener("pointerdown", () => {
      release();
      timer = setTimeout(() => this.open(), HOLD_MILLISECONDS);
    });
    for (const kind of ["pointerup", "pointerleave", "pointercancel"]) corner.addEventListener(kind, release);
    corner.addEventListener("keydown", (event) => {
      if (event.key !== "Enter") return;
      event.preventDefault(); // or the same key would send an empty PIN
      this.open();
    });
  }

  makePad() {
    const keys = [..."123456789", "⌫", "0", "OK"];
    const buttons = keys.map((key) => {
      const button = make("button", "", key);
      button.type = key === "OK" ? "submit" : "button";
      if (key === "⌫") button.setAttribute("aria-label", "Delete the last digit");
      if (button.type === "button") button.addEventListener("click", () => this.press(key));
      return button;
    });
    this.find(".k-pad").append(...buttons);
  }

  press(key) {
    this.field.value = key === "⌫" ? this.field.value.slice(0, -1) : (this.field.value + key).slice(0, 12);
  }

  open() {
    if (this.dialog.open) return;
    this.dialog.showModal();
    this.field.focus();
    this.keepOpen();
  }

  keepOpen() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.close(), OPEN_MILLISECONDS);
  }

  close() {
    this.dialog.close();
  }

  forget() {
    clearTimeout(this.timer);
    clearInterval(this.refreshing);
    this.pin = null;
    this.field.value = "";
    this.say("");
    this.showPanel(false);
  }

  say(text) {
    this.find(".k-staff-note").textContent = text;
  }

  async enter(pin) {
    this.field.value = "";
    if (!(await this.refresh(pin))) return;
    this.pin = pin;
    this.showPanel(true);
    this.say("");
    this.refreshing = setInterval(() => this.refresh(pin), REFRESH_MILLISECONDS);
  }

  async refresh(pin) {
    try {
      this.fill(await this.server.figures(pin));
      return true;
    } catch (error) {
      this.say(error instanceof Refused ? error.message : "The server does not answer.");
      return false;
    }
  }

  showPanel(isOpen) {
    this.find("form").hidden = isOpen;
    this.find("dl").hidden = !isOpen;
    this.find(".k-restart").hidden = !isOpen;
    this.find(".k-end-visit").hidden = !isOpen || !this.on.isVisited();
  }

  fill(figures) {
    const rows = [
      ["Engine", figures.is_ready ? "ready" : "being loaded"],
      ["Visitors", figures.visitors],
      ["Visits now", figures.visits_under_way],
      ["Answers", figures.answers],
      ["Races", figures.races],
      ["Tokens per step, mean", EagleEye.number(figures.mean_acceptance_length, 2)],
      ["Errors", figures.errors],
      ["Running for", `${Math.floor(figures.up_seconds / 3600)} h ${Math.floor((figures.up_seconds % 3600) / 60)} min`],
    ];
    if (figures.last_error) rows.push(["Last error", figures.last_error]);
    this.find("dl").replaceChildren(
      ...rows.map(([name, value]) => make("div", "", make("dt", "", name), make("dd", "", String(value)))),
    );
  }

  endVisit() {
    this.close();
    this.on.endVisit();
  }

  async restart() {
    try {
      await this.server.restart(this.pin);
      this.say("The engine is loaded anew.");
    } catch {
      this.say("That did not work.");
    }
  }
}
