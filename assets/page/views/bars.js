// One bar a step, as high as the tokens it kept; a slider over the steps for keyboards.
EagleEye.Bars = class extends EagleEye.StepView {
  constructor(host, selection) {
    super(host, selection, "Steps");
    host.classList.add("ee-bars");
    host.setAttribute("role", "slider");
    selection.subscribe(() => this.reveal());
    this.describe();
  }

  // The newest bar stays in view, unless the visitor scrolled back to look at older ones.
  show(trace, numSteps = trace.steps.length) {
    const { scrollLeft, clientWidth, scrollWidth } = this.host;
    const follow = scrollLeft + clientWidth >= scrollWidth - 24;
    const before = this.shown;
    super.show(trace, numSteps);
    if (follow && this.shown !== before) this.host.scrollLeft = this.host.scrollWidth;
  }

  draw(step) {
    const bar = EagleEye.make("div", "ee-bar");
    bar.title = EagleEye.titleOf(step);
    const [draft, base] = EagleEye.split(step);
    for (const [kind, count] of [["base", base], ["draft", draft]]) {
      if (!count) continue;
      const part = EagleEye.make("i", `ee-${kind}`);
      part.style.setProperty("--count", count);
      bar.append(part);
    }
    return bar;
  }

  mark() {
    this.host.querySelector(".ee-chosen")?.classList.remove("ee-chosen");
    this.chosen?.classList.add("ee-chosen");
    this.describe();
  }

  reveal() {
    const bar = this.chosen;
    if (!bar) return;
    const { scrollLeft, clientWidth } = this.host;
    if (bar.offsetLeft < scrollLeft || bar.offsetLeft + bar.offsetWidth > scrollLeft + clientWidth) {
      this.host.scrollLeft = bar.offsetLeft - clientWidth / 2;
    }
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
