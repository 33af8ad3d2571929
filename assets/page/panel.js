// The live panel. Gradio mounts the template once; this draws into it and never lets it be
// replaced. A value holds the steps since the last one: {run, from, steps: [[base, draft], ...]},
// and once more all of them when the answer is done, so that a lost update heals.
const bars = element.querySelector(".ee-bars");
const list = element.querySelector(".ee-steps-text ol");
const details = element.querySelector(".ee-steps-text");
const status = element.querySelector("[role=status]");
const panel = element.querySelector(".ee-panel");
let run = null;
let steps = [];

const fill = (selector, values) => {
  for (const slot of element.querySelectorAll(`[data-${selector}]`)) {
    const text = values[slot.dataset[selector]];
    if (text !== undefined && slot.textContent !== text) slot.textContent = text;
  }
};

const sentence = ([base, draft]) => {
  const total = base + draft;
  const tokens = total === 1 ? "1 token" : `${total} tokens`;
  return draft === 0 ? `${tokens}, by the base` : `${tokens}, ${draft} of them from the draft`;
};

const makeBar = ([base, draft], index) => {
  const bar = document.createElement("div");
  bar.className = "ee-bar";
  bar.dataset.step = index;
  bar.title = `Step ${index}: ${sentence([base, draft])}`;
  for (const [kind, count] of [["base", base], ["draft", draft]]) {
    if (!count) continue;
    const part = document.createElement("i");
    part.className = `ee-${kind}`;
    part.style.setProperty("--count", count);
    bar.append(part);
  }
  return bar;
};

const makeItem = (step) => {
  const item = document.createElement("li");
  item.textContent = sentence(step);
  return item;
};

// The newest bar stays in view, unless the visitor scrolled back to look at older ones.
const atEnd = () => bars.scrollLeft + bars.clientWidth >= bars.scrollWidth - 24;

const draw = (from) => {
  const follow = atEnd();
  while (bars.childElementCount > from) bars.lastElementChild.remove();
  bars.append(...steps.slice(from).map((step, offset) => makeBar(step, from + offset)));
  if (details.open) {
    while (list.childElementCount > from) list.lastElementChild.remove();
    list.append(...steps.slice(from).map(makeItem));
  }
  if (follow) bars.scrollLeft = bars.scrollWidth;
};

const same = (a, b) => a && b && a[0] === b[0] && a[1] === b[1];

const takeSteps = (value) => {
  if (value.run !== run) {
    run = value.run;
    steps = [];
    draw(0);
  }
  if (value.from > steps.length) return; // an update was lost; the last one brings everything
  let first = value.from;
  for (const step of value.steps) {
    if (first < steps.length && same(steps[first], step)) first += 1;
    else break;
  }
  if (first - value.from === value.steps.length) return;
  steps = steps.slice(0, first).concat(value.steps.slice(first - value.from));
  draw(first);
};

const show = (value) => {
  if (!value) return;
  fill("slot", value);
  if (value.run === undefined) return;
  panel.dataset.phase = value.phase;
  bars.style.setProperty("--cells", value.max_tokens);
  fill("figure", value.figures);
  takeSteps(value);
  const most = Math.max(0, ...steps.map(([base, draft]) => base + draft));
  const summary =
    `${steps.length} steps, ${value.figures.per_step} tokens per step on average, at most ${most}`;
  bars.setAttribute("aria-label", steps.length ? summary : "No steps yet");
  if (value.announcement) status.textContent = value.announcement;
};

details.addEventListener("toggle", () => {
  list.replaceChildren(...(details.open ? steps.map(makeItem) : []));
});
watch("value", () => show(props.value));
show(props.value);
