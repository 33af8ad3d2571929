// One bar a step, as high as the tokens it kept; a slider over the steps for keyboards.
EagleEye.Bars = class {
  constructor(host, selection) {
    this.host = host;
    this.selection = selection;
    this.trace = null;
    this.shown = 0;
    host.classList.add("ee-bars");
    host.tabIndex = 0;
    host.setAttribute("role", "slider");
    host.setAttribute("aria-label", "Steps");
    host.addEventListener("click", (event) => {
      const bar = event.target.closest(".ee-bar");
      if (bar) selection.choose(Number(bar.dataset.step));
    });
    host.addEventListener("keydown", (event) => EagleEye.walk(event, selection, this.shown));
    selection.subscribe(() => this.mark(true));
    this.describe();
  }

  // Draw the first `numSteps` steps; what is there already stays.
  show(trace, numSteps = trace.steps.length) {
    if (trace !== this.trace) {
      this.trace = trace;
      this.host.replaceChildren();
      this.shown = 0;
    }
    if (numSteps === this.shown) return;
    const follow = this.isAtEnd();
    while (this.host.childElementCount > numSteps) this.host.lastElementChild.remove();
    this.host.append(
      ...trace.steps.slice(Math.min(this.shown, numSteps), numSteps).map((step) => this.bar(step)),
    );
    this.shown = numSteps;
    if (follow) this.host.scrollLeft = this.host.scrollWidth;
    this.mark(false);
  }

  // The newest bar stays in view, unless the visitor scrolled back to look at older ones.
  isAtEnd() {
    const { scrollLeft, clientWidth, scrollWidth } = this.host;
    return scrollLeft + clientWidth >= scrollWidth - 24;
  }

  bar(step) {
    const bar = EagleEye.make("div", "ee-bar");
    bar.dataset.step = step.index;
    bar.title = `Step ${step.index}: ${EagleEye.stepSentence(step)}`;
    const [draft, base] = EagleEye.split(step);
    for (const [kind, count] of [["base", base], ["draft", draft]]) {
      if (!count) continue;
      const part = EagleEye.make("i", `ee-${kind}`);
      part.style.setProperty("--count", count);
      bar.append(part);
    }
    return bar;
  }

  mark(scroll) {
    this.host.querySelector(".ee-chosen")?.classList.remove("ee-chosen");
    const bar = this.host.children[this.selection.step ?? -1];
    bar?.classList.add("ee-chosen");
    if (bar && scroll) {
      const { offsetLeft } = bar;
      const { scrollLeft, clientWidth } = this.host;
      if (offsetLeft < scrollLeft || offsetLeft + bar.offsetWidth > scrollLeft + clientWidth) {
        this.host.scrollLeft = offsetLeft - clientWidth / 2;
      }
    }
    this.describe();
  }

  describe() {
    const last = Math.max(0, this.shown - 1);
    const at = Math.min(this.selection.step ?? last, last);
    const step = this.trace?.steps[at];
    const text = this.shown && step ? `Step ${at} of ${last}: ${EagleEye.stepSentence(step)}` : "No steps yet";
    this.host.setAttribute("aria-valuemin", "0");
    this.host.setAttribute("aria-valuemax", String(last));
    this.host.setAttribute("aria-valuenow", String(at));
    this.host.setAttribute("aria-valuetext", text);
  }
};
