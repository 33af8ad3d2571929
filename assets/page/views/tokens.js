// The answer token by token: seams between steps, the draft's tokens and the base's told apart by
// underline as well as colour, refused proposals of the chosen step as ghosts.
EagleEye.Tokens = class {
  constructor(host, selection) {
    this.host = host;
    this.selection = selection;
    this.trace = null;
    this.shown = 0;
    host.classList.add("ee-tokens");
    host.tabIndex = 0;
    host.setAttribute("role", "group");
    host.setAttribute("aria-label", "The answer by steps; arrow keys walk");
    host.addEventListener("click", (event) => {
      const step = event.target.closest(".ee-step");
      if (step) selection.choose(Number(step.dataset.step));
    });
    host.addEventListener("keydown", (event) => EagleEye.walk(event, selection, this.shown));
    this.unsubscribe = selection.subscribe(() => this.mark());
  }

  show(trace, numSteps = trace.steps.length) {
    if (trace !== this.trace) {
      this.trace = trace;
      this.host.replaceChildren();
      this.shown = 0;
    }
    if (numSteps === this.shown) return;
    while (this.host.childElementCount > numSteps) this.host.lastElementChild.remove();
    this.host.append(
      ...trace.steps.slice(Math.min(this.shown, numSteps), numSteps).map((step) => this.step(step)),
    );
    this.shown = numSteps;
    this.mark();
  }

  step(step) {
    const element = EagleEye.make("span", "ee-step");
    element.dataset.step = step.index;
    element.title = `Step ${step.index}: ${EagleEye.stepSentence(step)}`;
    for (const chunk of EagleEye.chunks(step)) {
      const token = EagleEye.make("span", chunk.fromDraft ? "ee-token-draft" : "ee-token-base", chunk.text);
      token.dataset.ids = chunk.ids.join(" ");
      element.append(token);
    }
    return element;
  }

  mark() {
    const before = this.host.querySelector(".ee-chosen");
    before?.classList.remove("ee-chosen");
    this.host.querySelectorAll(".ee-ghost").forEach((ghost) => ghost.remove());
    const element = this.host.children[this.selection.step ?? -1];
    if (!element) return;
    element.classList.add("ee-chosen");
    const tree = this.trace.steps[this.selection.step].tree;
    if (tree) element.append(...EagleEye.ghosts(tree));
    if (this.host.matches(":focus-within")) element.scrollIntoView({ block: "nearest" });
  }
};

// What the draft had proposed in place of the base's token, struck out.
EagleEye.ghosts = (tree) =>
  EagleEye.refused(tree).map((node) => {
    const ghost = EagleEye.make("del", "ee-ghost", EagleEye.visible(tree.texts[node]));
    ghost.title = `Proposed by the draft (${Math.round(100 * tree.draft_probabilities[node])} %), refused by the base`;
    return ghost;
  });

// The same as a list: one row a step, with what was refused.
EagleEye.StepList = class {
  constructor(host, selection) {
    this.host = EagleEye.make("ol", "ee-step-list");
    this.selection = selection;
    this.trace = null;
    this.shown = 0;
    host.append(this.host);
    this.host.tabIndex = 0;
    this.host.setAttribute("aria-label", "Steps; arrow keys walk");
    this.host.start = 0;
    this.host.addEventListener("click", (event) => {
      const row = event.target.closest("li");
      if (row) selection.choose(Number(row.dataset.step));
    });
    this.host.addEventListener("keydown", (event) => EagleEye.walk(event, selection, this.shown));
    this.unsubscribe = selection.subscribe(() => this.mark());
  }

  show(trace) {
    if (trace !== this.trace) {
      this.trace = trace;
      this.host.replaceChildren();
      this.shown = 0;
    }
    this.host.append(...trace.steps.slice(this.shown).map((step) => this.row(step)));
    this.shown = trace.steps.length;
    this.mark();
  }

  row(step) {
    const row = EagleEye.make("li");
    row.dataset.step = step.index;
    const words = EagleEye.make("span", "ee-row-tokens");
    for (const chunk of EagleEye.chunks(step)) {
      const kind = chunk.fromDraft ? "ee-token-draft" : "ee-token-base";
      words.append(EagleEye.make("span", kind, EagleEye.visible(chunk.text)));
    }
    if (step.tree) words.append(...EagleEye.ghosts(step.tree));
    const seconds =
      step.draft_seconds + step.verify_seconds + step.sample_seconds + step.other_seconds;
    const kept = step.num_drafted ? `${step.num_accepted} accepted` : "base alone";
    const facts = EagleEye.make("span", "ee-row-facts", `${kept} · ${EagleEye.duration(seconds)}`);
    row.append(words, facts);
    return row;
  }

  mark() {
    this.host.querySelector(".ee-chosen")?.classList.remove("ee-chosen");
    const row = this.host.children[this.selection.step ?? -1];
    row?.classList.add("ee-chosen");
    if (row && this.host.matches(":focus-within")) row.scrollIntoView({ block: "nearest" });
  }
};
