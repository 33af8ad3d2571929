// Small charts of a run: acceptance by position, accepted tokens a step, where the time went.

// Rows of a label, a bar and a figure. rows: [{label, share, text, note}]; the note, a formula,
// stands below while its row is pointed at or has the focus.
EagleEye.Rows = class {
  constructor(host, note) {
    this.host = EagleEye.make("div", "ee-rows");
    this.note = EagleEye.make("p", "ee-note", note);
    this.standing = note;
    host.append(this.host, this.note);
  }

  show(rows) {
    while (this.host.childElementCount > rows.length) this.host.lastElementChild.remove();
    while (this.host.childElementCount < rows.length) this.host.append(this.row());
    rows.forEach((row, place) => {
      const element = this.host.children[place];
      const [label, bar, figure] = element.children;
      label.textContent = row.label;
      bar.firstChild.style.setProperty("--share", row.share);
      bar.firstChild.className = row.kind ?? "";
      figure.textContent = row.text;
      element.dataset.note = row.note;
      element.setAttribute("aria-label", `${row.label}: ${row.text}. ${row.note}`);
    });
  }

  row() {
    const bar = EagleEye.make("span", "ee-row-bar", EagleEye.make("i"));
    const row = EagleEye.make("div", "ee-row", EagleEye.make("span"), bar, EagleEye.make("span", "ee-row-figure"));
    row.tabIndex = 0;
    row.setAttribute("role", "img");
    const say = () => (this.note.textContent = row.dataset.note);
    const unsay = () => (this.note.textContent = this.standing);
    row.addEventListener("pointerenter", say);
    row.addEventListener("focus", say);
    row.addEventListener("pointerleave", unsay);
    row.addEventListener("blur", unsay);
    return row;
  }
};

EagleEye.positionRows = (summary) => {
  const steps = summary?.num_spec_steps ?? 0;
  const shares = summary?.acceptance_by_position ?? [];
  return shares.map((share, place) => {
    const count = Math.round(share * steps);
    const before = place === 0 ? steps : Math.round(shares[place - 1] * steps);
    const given = before ? ` Of the ${before} that got so far, ${Math.round((100 * count) / before)} %.` : "";
    return {
      label: `${place + 1}`,
      share,
      text: share.toFixed(2),
      kind: "ee-fill-draft",
      note: `${count} of ${steps} steps kept the draft's token at position ${place + 1}.${given}`,
    };
  });
};

EagleEye.histogramRows = (summary) => {
  const counts = summary?.acceptance_histogram ?? [];
  const steps = summary?.num_spec_steps ?? 0;
  return counts.map((count, accepted) => ({
    label: `${accepted}`,
    share: steps ? count / steps : 0,
    text: String(count),
    kind: "ee-fill-base",
    note: `${EagleEye.count(count, "step")} of ${steps} accepted ${EagleEye.count(accepted, "draft token")} and so gave ${accepted + 1}.`,
  }));
};

// The parts of a mean step after the prefill.
EagleEye.stepParts = (trace) => {
  const steps = trace?.steps.slice(1) ?? [];
  if (!steps.length) return [];
  const mean = (name) => steps.reduce((sum, step) => sum + step[name], 0) / steps.length;
  const parts = [
    ["draft", mean("draft_seconds"), "the draft refills and grows its tree"],
    ["verify", mean("verify_seconds"), "one pass of the base over the whole tree"],
    ["sample", mean("sample_seconds"), "choosing tokens and the accepted path"],
    ["other", mean("other_seconds"), "cache, stop rule, recording of the trace"],
  ];
  return parts.filter(([name, seconds]) => name !== "draft" || seconds > 0);
};

// The parts of the time to the first token, then the draft's reading of the prompt.
EagleEye.promptParts = (trace) => {
  const names = {
    pictures: "decode and resize the pictures", prompt: "build the prompt", vision: "the visual encoder",
    merge: "put image embeddings into the prompt", prefill_base: "the base reads the prompt",
    prefill_draft: "the draft reads the prompt, after the first token",
  };
  return (trace?.phases ?? []).map(({ name, seconds }) => [name.replace("_", " "), seconds, names[name]]);
};

// parts: [name, seconds, what it is]
EagleEye.partRows = (parts) => {
  const total = parts.reduce((sum, [, seconds]) => sum + seconds, 0) || 1;
  return parts.map(([name, seconds, note]) => ({
    label: name,
    share: seconds / total,
    text: EagleEye.duration(seconds),
    kind: name.includes("draft") ? "ee-fill-draft" : "ee-fill-base",
    note: `${note}: ${Math.round((100 * seconds) / total)} % of these.`,
  }));
};

// Does speculation pay? A sentence once there is something to judge by, or null.
EagleEye.payoff = (trace, baseStepSeconds) => {
  const summary = trace?.summary;
  const length = summary?.mean_acceptance_length;
  if (!length || !baseStepSeconds || summary.num_spec_steps < 4) return null;
  const steps = summary.num_spec_steps;
  const cost = summary.decode_seconds / steps / baseStepSeconds;
  const ratio = (length / cost).toFixed(2);
  const sum = `a step gives ${length.toFixed(2)} tokens and costs ${cost.toFixed(2)} passes of the base alone`;
  return length >= cost
    ? { wins: true, text: `About ${ratio} times as fast as the base alone: ${sum}.` }
    : { wins: false, text: `Speculation loses here, about ${ratio} times the base's speed: ${sum}.` };
};
