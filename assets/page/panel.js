// The live panel. Gradio mounts the template once; this draws into it and never lets it be
// replaced. A value holds the lines of the trace since the last one, and once more all of them when
// the answer is over, so that a lost update heals.
const find = (selector) => element.querySelector(selector);
const view = (name) => find(`[data-view=${name}]`);
const panel = find(".ee-panel");
const status = find("[role=status]");
const inspector = find(".ee-inspector");
const dialog = find("dialog");
// The panel shows one run at a time, and every run has its own selection: this one follows.
const selection = new EagleEye.Selection();
const bars = new EagleEye.Bars(view("bars"), selection);
const tree = new EagleEye.Tree(view("tree"));
const largeTree = new EagleEye.Tree(view("large_tree"));
const positions = new EagleEye.Rows(view("positions"), "Share of steps that kept the draft's token there.");
const histogram = new EagleEye.Rows(view("histogram"), "How many steps accepted so many draft tokens.");
const stepParts = new EagleEye.Rows(view("step_parts"), "Mean over the steps after the first.");
const promptParts = new EagleEye.Rows(view("prompt_parts"), "What the time to the first token went to.");
let shown = null; // the run on display
let latest = null; // the last value from the server

const fill = (kind, values) => {
  for (const slot of element.querySelectorAll(`[data-${kind}]`)) {
    const text = values[slot.dataset[kind]];
    if (text !== undefined && slot.textContent !== text) slot.textContent = text;
  }
};

const imageTokens = (images) => {
  const counts = images.map((image) => image.num_tokens);
  const sum = counts.reduce((a, b) => a + b, 0);
  if (counts.length === 0) return "none";
  const total = counts.length > 1 ? `${counts.join(" + ")} = ${sum}` : String(sum);
  const cached = images.filter((image) => image.is_cached).length;
  if (cached === 0) return total;
  return cached === counts.length ? `${total} (cached)` : `${total} (${cached} of ${counts.length} cached)`;
};

// Of a trace of version 1 only what became of them.
const pictureSizes = (images) => {
  const sizes = images.map(({ source_width, source_height, width, height }) =>
    `${source_width ? `${source_width}×${source_height} → ` : ""}${width}×${height}`);
  return sizes.join("\n") || "none";
};

const figures = (trace) => {
  const summary = trace.summary ?? {};
  const known = trace.run !== null;
  return {
    per_step: EagleEye.number(summary.mean_acceptance_length, 2),
    speed: EagleEye.number(summary.decode_tokens_per_second, 1),
    first_token: EagleEye.duration(summary.time_to_first_token_seconds),
    end_to_end: summary.end_to_end_tokens_per_second
      ? `${EagleEye.number(summary.end_to_end_tokens_per_second, 1)} tokens/s`
      : "–",
    tokens: known ? String(trace.numTokens) : "–",
    steps: known ? String(trace.steps.length) : "–",
    rate: summary.num_draft_tokens
      ? `${summary.num_accepted_draft_tokens} of ${summary.num_draft_tokens}`
      : "–",
    prompt: known ? String(trace.run.num_prompt_tokens) : "–",
    images: known ? imageTokens(trace.images) : "–",
    pictures: known ? pictureSizes(trace.images) : "–",
  };
};

const showStep = () => {
  const { trace } = shown;
  const last = trace.steps.length - 1;
  // Until a step is chosen the newest is shown, while the answer grows too.
  const index = selection.step ?? last;
  const step = trace.steps[index];
  const title = step ? `Step ${index} of ${last}` : "Draft tree";
  inspector.querySelector("h3").textContent = title;
  dialog.querySelector("h3").textContent = title;
  tree.show(step);
  if (dialog.open) largeTree.show(step);
};

const showPayoff = (trace) => {
  const payoff = EagleEye.payoff(trace, latest?.base_step_seconds);
  const line = find(".ee-payoff");
  line.hidden = payoff === null;
  line.textContent = payoff?.text ?? "";
  line.toggleAttribute("data-loses", payoff !== null && !payoff.wins);
};

const draw = () => {
  const { trace } = shown;
  fill("figure", figures(trace));
  bars.show(trace);
  showStep();
  positions.show(EagleEye.positionRows(trace.summary));
  histogram.show(EagleEye.histogramRows(trace.summary));
  find("[data-section=acceptance]").hidden = !trace.summary?.num_spec_steps;
  const parts = EagleEye.partRows(EagleEye.stepParts(trace));
  stepParts.show(parts);
  find("[data-section=steps]").hidden = !parts.length;
  promptParts.show(EagleEye.partRows(EagleEye.promptParts(trace)));
  find("[data-section=prompt]").hidden = !trace.phases.length;
  showPayoff(trace);
};

const display = (run) => {
  if (run === shown) return;
  shown = run;
  selection.step = run.selection.step;
  selection.listeners.forEach((listener) => listener(selection.step));
};

// Both ways: the panel's choice is the run's, and a choice made in the conversation is the panel's.
selection.subscribe((step) => {
  shown.selection.choose(step);
  showStep();
});
EagleEye.runs.listeners.add((run, what) => {
  if (what !== "chosen") return;
  if (run !== shown) {
    display(run);
    draw();
  }
  selection.choose(run.selection.step);
});

const takeRecords = (run, value) => {
  const have = run.trace.records.length;
  if (value.from > have) return; // an update was lost; the last one brings everything
  const records = value.lines.split("\n").filter(Boolean).map((line) => JSON.parse(line));
  records.slice(have - value.from).forEach((record) => run.trace.add(record));
  if (value.summary) run.trace.summary = value.summary;
  EagleEye.runs.tell(run, "grown");
};

const take = (value) => {
  if (!value) return;
  fill("slot", value);
  if (value.run === undefined) return;
  if (value.run < 0) EagleEye.runs.clear();
  const isNew = value.run !== latest?.run;
  latest = value;
  panel.dataset.phase = value.phase;
  bars.host.style.setProperty("--cells", value.max_tokens);
  const run = EagleEye.runs.get(value.run);
  takeRecords(run, value);
  if (isNew || !shown) display(run);
  if (shown === run) draw();
  if (status.textContent !== value.announcement) status.textContent = value.announcement;
};

inspector.addEventListener("click", (event) => {
  const step = event.target.closest("[data-walk]")?.dataset.walk;
  const last = shown.trace.steps.length - 1;
  if (step && last >= 0) {
    selection.choose(Math.max(0, Math.min(last, (selection.step ?? last) + Number(step))));
  }
  if (event.target.closest("[data-enlarge]")) {
    dialog.showModal();
    showStep();
  }
});
dialog.addEventListener("keydown", (event) => {
  if (!event.target.closest(".ee-tree-scroll")) EagleEye.walk(event, selection, shown.trace.steps.length);
});
EagleEye.race = (run) => {
  EagleEye.tabs.show("compare");
  trigger("race", { run });
};
watch("value", () => take(props.value));
take(props.value);
