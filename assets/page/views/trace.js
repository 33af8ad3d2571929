// A trace as the views read it (docs/trace.md): built from its records, in the order of arrival.
// Everything in views/ is plain script without Gradio: the page, the kiosk and the saved replay
// share it. Text of models and visitors goes through textContent only.
window.EagleEye = {};

EagleEye.Trace = class {
  constructor(records = []) {
    this.records = [];
    this.run = null;
    this.images = [];
    this.phases = [];
    this.steps = [];
    this.end = null;
    this.summary = null; // the figures so far, in the names of the trace's `end.summary`
    records.forEach((record) => this.add(record));
  }

  add(record) {
    this.records.push(record);
    if (record.type === "run") this.run = record;
    else if (record.type === "image") this.images.push(record);
    else if (record.type === "phase") this.phases.push(record);
    else if (record.type === "step") this.steps.push(record);
    else if (record.type === "end") {
      this.end = record;
      this.summary = record.summary;
    }
  }

  // All runs of a file of JSON Lines, one after another.
  static parse(text) {
    const traces = [];
    for (const line of text.split("\n").filter((line) => line.trim())) {
      const record = JSON.parse(line);
      if (record.type === "run") traces.push(new EagleEye.Trace());
      traces.at(-1).add(record);
    }
    return traces;
  }

  // In the order of a file, which is not that of arrival: the draft reads the prompt after the
  // first step.
  lines() {
    const records = [this.run, ...this.images, ...this.phases, ...this.steps, this.end];
    return records.filter(Boolean).map((record) => `${JSON.stringify(record)}\n`).join("");
  }

  get isSpeculative() {
    return this.run?.mode === "eagle";
  }

  get numTokens() {
    return this.steps.reduce((sum, step) => sum + step.token_ids.length, 0);
  }

  // Every run of text with its step, in the order of the answer.
  get chunks() {
    return this.steps.flatMap((step) => EagleEye.chunks(step).map((chunk, place) => ({ ...chunk, step: step.index, place })));
  }

  // When the last step ended, in seconds since the request was accepted.
  get seconds() {
    return this.steps.at(-1)?.elapsed_seconds ?? 0;
  }

  // Steps that had ended at `seconds`.
  stepsAt(seconds) {
    let low = 0;
    let high = this.steps.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.steps[middle].elapsed_seconds <= seconds) low = middle + 1;
      else high = middle;
    }
    return low;
  }
};

// Tokens of a step that came from the draft, and those that the base added.
EagleEye.split = (step) => [step.num_accepted, step.token_ids.length - step.num_accepted];

// The runs of text in a step: several tokens may make one character, so a token that completed
// none is joined with those after it; at the step's end it stays without text. [{text, fromDraft, ids}]
EagleEye.chunks = (step) => {
  const chunks = [];
  let ids = [];
  step.token_ids.forEach((id, place) => {
    ids.push(id);
    const text = step.pieces[place] ?? "";
    const isLast = place === step.token_ids.length - 1;
    if (!text && !isLast) return;
    chunks.push({ text, fromDraft: place < step.num_accepted, ids });
    ids = [];
  });
  return chunks;
};

// Where two answers part: in each the first chunk that holds another token, null where it has none
// there, and this in words. Null where both have the same tokens.
EagleEye.difference = (base, eagle) => {
  const [ours, theirs] = [base, eagle].map((trace) =>
    trace.chunks.flatMap((chunk) => chunk.ids.map((id) => ({ id, chunk }))));
  const longer = ours.length > theirs.length ? ours : theirs;
  const at = longer.findIndex((_, number) => ours[number]?.id !== theirs[number]?.id);
  if (at < 0) return null;
  const [left, right] = [ours, theirs].map((tokens) => tokens[at]?.chunk ?? null);
  const wrote = (chunk) => (chunk ? `wrote “${EagleEye.visible(chunk.text)}”` : "had ended");
  return {
    base: left, eagle: right,
    sentence: `The first difference is marked: the base ${wrote(left)}, EAGLE-3 ${wrote(right)}.`,
  };
};

// What the draft had expected after the accepted tokens and the base refused: its likeliest
// child of the last accepted node, that one's likeliest child, and so on. Node numbers.
EagleEye.refused = (tree) => {
  const found = [];
  let node = tree.path.at(-1);
  for (;;) {
    let best = -1;
    tree.parents.forEach((parent, child) => {
      if (parent !== node || tree.path.includes(child)) return;
      if (best < 0 || tree.draft_probabilities[child] > tree.draft_probabilities[best]) best = child;
    });
    if (best < 0) return found;
    found.push(best);
    node = best;
  }
};

// A token's text made visible where it is blank.
EagleEye.visible = (text) =>
  text === "" ? "∅" : text.replace(/ /g, "␣").replace(/\n/g, "⏎").replace(/\t/g, "⇥");

EagleEye.count = (number, noun) => `${number} ${noun}${number === 1 ? "" : "s"}`;

EagleEye.number = (value, digits) => (value == null ? "–" : value.toFixed(digits));

EagleEye.duration = (seconds) =>
  seconds == null ? "–" : seconds < 1 ? `${(1000 * seconds).toFixed(1)} ms` : `${seconds.toFixed(2)} s`;

EagleEye.stepSentence = (step) => {
  const [draft, base] = EagleEye.split(step);
  const tokens = EagleEye.count(draft + base, "token");
  if (step.index === 0) return `${tokens}, the base's first, after it read the prompt`;
  if (!step.num_drafted) return `${tokens}, by the base alone`;
  return `${tokens}, ${draft || "none"} of them from the draft`;
};

// An element with class and children; strings become text.
EagleEye.make = (tag, className, ...children) => {
  const made = document.createElement(tag);
  if (className) made.className = className;
  made.append(...children);
  return made;
};

EagleEye.save = (name, text, type) => {
  const link = EagleEye.make("a");
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
};

// Which step of which run is looked at. Views of one run subscribe; each change reaches all.
EagleEye.Selection = class {
  constructor() {
    this.step = null;
    this.listeners = new Set();
  }

  choose(step) {
    if (step === this.step) return;
    this.step = step;
    this.listeners.forEach((listener) => listener(step));
  }

  subscribe(listener) {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }
};

// Arrow keys, Home and End walk the steps wherever a view of steps has the focus.
EagleEye.walk = (event, selection, numSteps) => {
  const last = numSteps - 1;
  const now = selection.step ?? last;
  const moves = {
    ArrowRight: now + 1, ArrowDown: now + 1, ArrowLeft: now - 1, ArrowUp: now - 1, Home: 0, End: last,
  };
  if (!(event.key in moves) || numSteps === 0) return;
  event.preventDefault();
  selection.choose(Math.max(0, Math.min(last, moves[event.key])));
};
