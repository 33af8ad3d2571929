// What every view of a run's steps does: one element a step, drawn once; a click or the arrow keys
// choose one. Views give `draw(step)`, and `markChosen(element)` where choosing does more.
EagleEye.StepView = class {
  constructor(host, selection, name) {
    this.host = host;
    this.selection = selection;
    this.trace = null;
    this.shown = 0;
    host.tabIndex = 0;
    host.setAttribute("aria-label", name);
    host.addEventListener("click", (event) => {
      const step = event.target.closest("[data-step]");
      if (step) selection.choose(Number(step.dataset.step));
    });
    host.addEventListener("keydown", (event) => EagleEye.walk(event, selection, this.shown));
    this.unsubscribe = selection.subscribe(() => this.mark());
  }

  // Draw the first `numSteps` steps; what is there already stays.
  show(trace, numSteps = trace.steps.length) {
    if (trace !== this.trace) {
      this.trace = trace;
      this.host.replaceChildren();
      this.shown = 0;
    }
    if (numSteps === this.shown) return;
    while (this.host.childElementCount > numSteps) this.host.lastElementChild.remove();
    this.host.append(
      ...trace.steps.slice(Math.min(this.shown, numSteps), numSteps).map((step) => this.element(step)),
    );
    this.shown = numSteps;
    this.mark();
  }

  element(step) {
    const element = this.draw(step);
    element.dataset.step = step.index;
    return element;
  }

  get chosen() {
    return this.host.children[this.selection.step ?? -1];
  }

  mark() {
    this.host.querySelector(".ee-chosen")?.classList.remove("ee-chosen");
    this.chosen?.classList.add("ee-chosen");
    if (this.chosen && this.host.matches(":focus-within")) this.chosen.scrollIntoView({ block: "nearest" });
  }
};

EagleEye.titleOf = (step) => `Step ${step.index}: ${EagleEye.stepSentence(step)}`;
