// The runs of this visit by number, each with its trace and the step that is looked at. The panel
// fills it; answers in the conversation show it again. Gone with the page, or with a new chat.
EagleEye.runs = {
  byNumber: new Map(),
  listeners: new Set(),

  get(number) {
    if (!this.byNumber.has(number)) {
      const selection = new EagleEye.Selection();
      const run = { number, trace: new EagleEye.Trace(), selection };
      selection.subscribe(() => this.tell(run, "chosen"));
      this.byNumber.set(number, run);
    }
    return this.byNumber.get(number);
  },

  // what: "grown", "chosen", or "cleared", which is of no run
  tell(run, what) {
    this.listeners.forEach((listener) => listener(run, what));
  },

  clear() {
    this.byNumber.clear();
    this.tell(null, "cleared");
  },
};
