// The Compare page: both runs live, one after the other, then replayed on one clock. A value holds
// the lines of both traces since the last one, each after the number of its run in the order.
const find = (selector) => element.querySelector(selector);
const section = find(".ee-race");
const replay = new EagleEye.Replay(find(".ee-race-replay"));
let number = null;
let legs = []; // traces in the order of the runs
let numRecords = 0;
let race = null; // what the replay shows

const figures = (result) => ({
  decode: result ? `×${EagleEye.number(result.decode_speedup, 2)}` : "",
  end_to_end: result ? `×${EagleEye.number(result.end_to_end_speedup, 2)}` : "",
  saved: result ? EagleEye.duration(Math.abs(result.seconds_saved)) : "",
  saved_or_lost: result?.seconds_saved < 0 ? "lost" : "saved",
  verdict: !result ? "" : result.kind === "identical"
    ? `IDENTICAL ${result.num_same}/${result.num_tokens}`
    : result.kind === "sampled" ? `sampled` : `differs at ${result.num_same + 1}`,
});

// What the draft gives and what it costs, as lengths to the same scale.
const equation = (result) => {
  const host = find(".ee-race-equation");
  host.replaceChildren();
  if (!result?.step_cost || !result.mean_acceptance_length) return;
  const most = Math.max(result.step_cost, result.mean_acceptance_length);
  for (const [kind, value, text] of [
    ["draft", result.mean_acceptance_length, "tokens a step"],
    ["base", result.step_cost, "passes of the base that a step costs"],
  ]) {
    const bar = EagleEye.make("i", `ee-fill-${kind}`);
    bar.style.width = `${(100 * value) / most}%`;
    host.append(EagleEye.make("div", "", EagleEye.make("span", "", `${value.toFixed(2)} ${text}`), bar));
  }
  host.setAttribute("aria-label", result.sentences.at(-1));
};

const take = (value) => {
  if (!value || value.race === undefined) return;
  if (value.race !== number) {
    number = value.race;
    legs = [];
    numRecords = 0;
    race = null;
    replay.clear();
  }
  if (value.from <= numRecords) {
    const lines = value.lines.split("\n").filter(Boolean).slice(numRecords - value.from);
    for (const line of lines) {
      const space = line.indexOf(" ");
      (legs[Number(line.slice(0, space))] ??= new EagleEye.Trace()).add(JSON.parse(line.slice(space + 1)));
    }
    numRecords += lines.length;
  }
  draw(value);
};

const first = (order, letter) => legs[order.indexOf(letter)];

const draw = (value) => {
  section.dataset.phase = value.phase;
  find(".ee-race-phase").textContent = value.phase_text;
  find(".ee-race-phase").hidden = value.phase === "done"; // the same stands in large figures
  const status = find("[role=status]");
  if (status.textContent !== value.announcement) status.textContent = value.announcement;
  if (value.race < 0) return;
  find(".ee-race-question strong").textContent = value.question;
  const pictures = find(".ee-race-pictures");
  if (pictures.dataset.race !== String(value.race)) {
    pictures.dataset.race = value.race;
    pictures.replaceChildren(...value.pictures.map((url) => Object.assign(EagleEye.make("img"), { src: url, alt: "The picture" })));
  }
  const { result } = value;
  // The verdict on texts that differ says the same.
  find(".ee-race-sampling").hidden = !value.is_sampled || result?.kind === "sampled";
  for (const [name, text] of Object.entries(figures(result))) find(`[data-figure=${name}]`).textContent = text;
  find("[data-figure=verdict]").dataset.kind = result?.kind ?? "";
  equation(result);
  // The verdict stands above already, unless it needs words.
  const said = (result?.sentences ?? []).slice(result?.kind === "identical" ? 1 : 0);
  find(".ee-result").replaceChildren(...said.map((text) => EagleEye.make("p", "", text)));
  const now = {
    base: first(value.order, "A"), eagle: first(value.order, "B"), maxTokens: value.max_tokens,
    sentences: result?.sentences ?? [], note: value.order.length > 2 ? "first of two runs" : "",
  };
  if (result && race === null) {
    race = now;
    replay.load(race);
    takeFocus(value.question);
  } else if (race === null) {
    replay.live(now);
  }
};

// The replay's keys work at once, unless the visitor has gone on to something else.
const takeFocus = (question) => {
  const at = document.activeElement;
  const isAtRest = at === document.body || (at.closest("#ee-compare-composer") && ["", question].includes(at.value));
  if (section.offsetParent && isAtRest) replay.focus();
};

section.addEventListener("click", (event) => {
  const kind = event.target.closest("[data-save]")?.dataset.save;
  if (!kind || !race) return;
  const name = `eagleeye-race-${race.eagle.run.id.slice(0, 8)}`;
  if (kind === "jsonl") EagleEye.save(`${name}.jsonl`, legs.map((leg) => leg.lines()).join(""), "application/jsonl");
  else EagleEye.save(`${name}.html`, EagleEye.replayDocument(race), "text/html");
});
watch("value", () => take(props.value));
take(props.value);
