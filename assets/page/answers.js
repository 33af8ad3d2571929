// Every answer of the conversation as text, by tokens or by steps; its trace; a race of it.
EagleEye.answers = {
  views: { text: "Text", tokens: "Tokens", steps: "Steps" },
  preferred: "text", // for answers to come; Alt+T
  bars: new Map(), // bar element -> what stands in it

  start(chat) {
    const look = () => {
      for (const bar of this.bars.keys()) if (!bar.isConnected) this.drop(bar);
      chat.querySelectorAll(".ee-answer-bar").forEach((bar) => this.equip(bar));
    };
    new MutationObserver(look).observe(chat, { childList: true, subtree: true });
    EagleEye.runs.listeners.add((run, what) => {
      if (what !== "grown") return;
      for (const [bar, held] of this.bars) if (held.number === run.number) this.refresh(bar);
    });
    look();
  },

  equip(bar) {
    const number = Number(bar.className.match(/ee-run-(\d+)/)[1]);
    if (this.bars.get(bar)?.number === number) return;
    this.drop(bar);
    const run = EagleEye.runs.get(number);
    const choice = EagleEye.make("div", "ee-view-choice");
    choice.setAttribute("role", "group");
    choice.setAttribute("aria-label", "View of the answer");
    for (const [view, name] of Object.entries(this.views)) {
      const button = EagleEye.make("button", "", name);
      button.type = "button";
      button.dataset.view = view;
      button.addEventListener("click", () => this.choose(bar, view));
      choice.append(button);
    }
    const race = this.button("Race it", "Base alone against base + EAGLE-3 on this question", () => EagleEye.race(number));
    race.classList.add("ee-race-it");
    const save = this.button("Save trace", "Every step as JSON Lines", () =>
      EagleEye.save(`eagleeye-${run.trace.run.id.slice(0, 8)}.jsonl`, run.trace.lines(), "application/jsonl"));
    const host = EagleEye.make("div", "ee-answer-view");
    bar.replaceChildren(host, EagleEye.make("div", "ee-answer-tools", choice, race, save));
    this.bars.set(bar, { number, run, host, view: null, drawn: null });
    this.choose(bar, this.preferred);
  },

  button(name, title, act) {
    const button = EagleEye.make("button", "", name);
    button.type = "button";
    button.title = title;
    button.addEventListener("click", act);
    return button;
  },

  drop(bar) {
    this.bars.get(bar)?.drawn?.unsubscribe();
    this.bars.delete(bar);
  },

  choose(bar, view) {
    const held = this.bars.get(bar);
    if (held.view === view) return;
    held.view = view;
    bar.dataset.view = view;
    bar.querySelectorAll("[data-view]").forEach((button) =>
      button.setAttribute("aria-pressed", String(button.dataset.view === view)));
    held.drawn?.unsubscribe();
    held.host.replaceChildren();
    held.drawn = null;
    if (view === "text") return;
    const inner = EagleEye.make("div");
    held.host.append(inner);
    const View = view === "tokens" ? EagleEye.Tokens : EagleEye.StepList;
    held.drawn = new View(inner, held.run.selection);
    this.refresh(bar);
  },

  refresh(bar) {
    const held = this.bars.get(bar);
    held.drawn?.show(held.run.trace);
  },

  // All answers together, to the next view.
  turn() {
    const order = Object.keys(this.views);
    this.preferred = order[(order.indexOf(this.preferred) + 1) % order.length];
    for (const bar of this.bars.keys()) this.choose(bar, this.preferred);
  },
};
