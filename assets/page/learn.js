// One recorded step, told in five parts. The value is a trace as JSON Lines; a visitor may take a
// step of his own last answer instead, for as long as he keeps it.
const find = (selector) => element.querySelector(selector);
const tree = new EagleEye.Tree(find("[data-view=tree]"));
const stage = find(".ee-learn-stage");
const [back, next, own] = element.querySelectorAll("button");
let trace = null;
let step = null;
let part = 0;

// The step that shows most: several tokens accepted, and then one refused.
const telling = (trace) => {
  const candidates = trace.steps.filter((one) => one.tree);
  const worth = (one) => one.num_accepted + (EagleEye.refused(one.tree).length ? 1.5 : 0);
  return candidates.reduce((best, one) => (best && worth(best) >= worth(one) ? best : one), null);
};

const quote = (text) => `“${EagleEye.visible(text)}”`;

const parts = [
  ["The base alone writes one token at a time", ({ root }) =>
    `The text so far ends with ${quote(root)}. For every further token the big model, the base, would have to run once through all of its weights. Reading the weights from memory takes most of that time, not the arithmetic: checking many tokens costs the base little more than writing one.`],
  ["The draft proposes a tree of tokens", ({ proposed }) =>
    `A small draft head, which sees the base's own hidden states, guesses what comes next: ${proposed} tokens, as a tree, because it keeps several likely continuations. q is how sure the draft was of a token after its parent.`],
  ["One pass of the base checks the whole tree", () =>
    "The base runs once over all of the tree's tokens. Each sees only its own ancestors, so that every branch is read as though it were the text. p is what the base itself thinks of a token after its parent."],
  ["Accepted is what the base would have written anyway", ({ accepted, failed }) =>
    `From the root on, the path goes on as long as it is the base's own choice: ${accepted}.${failed ? ` Then the draft had expected ${quote(failed)}, which the base would not have written.` : ""} What is refused is thrown away. This is why the text is exactly the base's own.`],
  ["And one token more, for free", ({ target, total }) =>
    `Where the path ended the same pass has already computed what the base wants there: ${quote(target)}. So this one pass gave ${total} instead of one. The next step starts from there.`],
];

const facts = () => {
  const { tree } = step;
  const accepted = tree.path.slice(1);
  const failed = EagleEye.refused(tree)[0];
  return {
    root: tree.texts[0],
    proposed: tree.token_ids.length - 1,
    accepted: `${EagleEye.count(accepted.length, "token")}, ${quote(accepted.map((node) => tree.texts[node]).join(""))}`,
    failed: failed === undefined ? null : tree.texts[failed],
    target: tree.target_text,
    total: EagleEye.count(accepted.length + 1, "token"),
  };
};

const draw = () => {
  if (!step) return;
  const [title, story] = parts[part];
  stage.dataset.part = part;
  stage.dataset.step = JSON.stringify({ index: step.index, num_accepted: step.num_accepted });
  stage.querySelector("h3").textContent = `${part + 1} of ${parts.length} · ${title}`;
  find(".ee-learn-story").textContent = story(facts());
  tree.show(step);
  back.disabled = part === 0;
  next.disabled = part === parts.length - 1;
};

const tell = (told, from) => {
  const found = telling(told);
  if (!found) return;
  trace = told;
  step = found;
  part = 0;
  const { run } = trace;
  find(".ee-learn-source").textContent = `Step ${step.index} of ${from}: “${run.question}”, answered by ${run.base}.`;
  const text = find(".ee-learn-text");
  text.replaceChildren();
  new EagleEye.Tokens(text, Object.assign(new EagleEye.Selection(), { step: step.index })).show(trace, step.index + 1);
  text.scrollTop = text.scrollHeight; // the step is its end
  draw();
};

const go = (by) => {
  part = Math.max(0, Math.min(parts.length - 1, part + by));
  draw();
};
back.addEventListener("click", () => go(-1));
next.addEventListener("click", () => go(1));
const recorded = EagleEye.Trace.parse(props.value)[0];
const lastOwn = () => [...EagleEye.runs.byNumber.values()].map((run) => run.trace).filter(telling).at(-1);
own.addEventListener("click", () => tell(lastOwn(), "your last answer"));
EagleEye.runs.listeners.add((run, what) => {
  if (what === "grown" && own.hidden) own.hidden = !telling(run.trace);
  if (what !== "cleared") return;
  own.hidden = true;
  if (trace !== recorded) tell(recorded, "a recorded answer");
});
own.hidden = true;
tell(recorded, "a recorded answer");
