// The states of the kiosk and what may follow what. A transition that is not listed is a fault of
// the script: it throws, and whoever asked for it ends the visit.
const FOLLOWING = {
  attract: ["start"],
  start: ["busy", "warn", "wipe"],
  busy: ["read", "start", "wipe"],
  read: ["busy", "start", "warn", "wipe"],
  warn: ["start", "read", "wipe"],
  wipe: ["attract"],
};

export class Machine {
  constructor(onChange) {
    this.state = "attract";
    this.onChange = onChange;
  }

  get isVisited() {
    return this.state !== "attract" && this.state !== "wipe";
  }

  to(state) {
    const before = this.state;
    if (!FOLLOWING[before].includes(state)) throw new Error(`no way from ${before} to ${state}`);
    this.state = state;
    this.onChange(state, before);
  }
}

// Calls back once nothing has happened for a while. Whoever is at the screen is heard by `touched`.
export class Idle {
  constructor(onIdle) {
    this.onIdle = onIdle;
    this.timer = null;
    for (const kind of ["pointerdown", "keydown", "input", "wheel", "touchmove"]) {
      addEventListener(kind, () => this.touched(), { capture: true, passive: true });
    }
  }

  start(seconds) {
    this.seconds = seconds;
    this.stop();
    this.timer = setTimeout(() => {
      this.timer = null;
      this.onIdle();
    }, 1000 * seconds);
  }

  stop() {
    clearTimeout(this.timer);
    this.timer = null;
  }

  touched() {
    if (this.timer !== null) this.start(this.seconds);
  }
}
