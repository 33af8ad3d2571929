// The answer token by token: seams between steps, the draft's tokens and the base's told apart by
// underline as well as colour, refused proposals of the chosen step as ghosts.
EagleEye.Tokens = class extends EagleEye.StepView {
  constructor(host, selection) {
    super(host, selection, "The answer by steps; arrow keys walk");
    host.classList.add("ee-tokens");
    host.setAttribute("role", "group");
    this.parting = null;
  }

  // Mark the chunk at which this answer parts from another; null for none.
  part(chunk) {
    this.parting = chunk;
    this.mark();
  }

  draw(step) {
    const element = EagleEye.make("span", "ee-step");
    element.title = EagleEye.titleOf(step);
    element.append(...EagleEye.chunks(step).map((chunk) => EagleEye.token(chunk, chunk.text)));
    return element;
  }

  mark() {
    this.host.querySelectorAll(".ee-ghost").forEach((ghost) => ghost.remove());
    this.host.querySelector(".ee-parting")?.classList.remove("ee-parting");
    const { step, place } = this.parting ?? {};
    this.host.children[step]?.children[place]?.classList.add("ee-parting");
    const tree = this.chosen && this.trace.steps[this.selection.step].tree;
    if (tree) this.chosen.append(...EagleEye.ghosts(tree));
    super.mark();
  }
};

EagleEye.token = (chunk, text) => {
  const token = EagleEye.make("span", chunk.fromDraft ? "ee-token-draft" : "ee-token-base", text);
  token.dataset.ids = chunk.ids.join(" ");
  if (!chunk.text) {
    token.classList.add("ee-token-part");
    token.title = "No text of its own: part of a character, or the end of the answer";
  }
  return token;
};

// What the draft had proposed in place of the base's token, struck out.
EagleEye.ghosts = (tree) =>
  EagleEye.refused(tree).map((node) => {
    const ghost = EagleEye.make("del", "ee-ghost", EagleEye.visible(tree.texts[node]));
    ghost.title = `Proposed by the draft (${Math.round(100 * tree.draft_probabilities[node])} %), refused by the base`;
    return ghost;
  });

// The same as a list: one row a step, with what was refused.
EagleEye.StepList = class extends EagleEye.StepView {
  constructor(host, selection) {
    const list = EagleEye.make("ol", "ee-step-list");
    list.start = 0;
    super(list, selection, "Steps; arrow keys walk");
    host.append(list);
  }

  draw(step) {
    const words = EagleEye.make("span", "ee-row-tokens");
    words.append(...EagleEye.chunks(step).map((chunk) => EagleEye.token(chunk, EagleEye.visible(chunk.text))));
    if (step.tree) words.append(...EagleEye.ghosts(step.tree));
    const seconds =
      step.draft_seconds + step.verify_seconds + step.sample_seconds + step.other_seconds;
    const kept = step.num_drafted ? `${step.num_accepted} accepted` : "base alone";
    const facts = EagleEye.make("span", "ee-row-facts", `${kept} · ${EagleEye.duration(seconds)}`);
    return EagleEye.make("li", "", words, facts);
  }
};
