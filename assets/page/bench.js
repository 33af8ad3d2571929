// The Benchmark page: Run and Stop, where the measurement stands, its figures, and an earlier
// file beside it. Every value is whole; its reports are JSON, drawn anew only when they changed.
const find = (selector) => element.querySelector(selector);
const section = find(".ee-bench");
const file = find("input[type=file]");
const drawn = new Map(); // what stands in a place, as the text it was drawn from
let files = null;
let isAwaited = false; // the first figures after Run

const draw = (host, text, make) => {
  if (drawn.get(host) === text) return;
  drawn.set(host, text);
  host.replaceChildren(...(text ? make(JSON.parse(text)) : []));
};

const report = (shown) => [
  ...(shown.kind === "sweep" ? EagleEye.heatMaps(shown) : EagleEye.benchReport(shown)),
  EagleEye.benchFacts(shown.facts),
];

const left = (seconds) => {
  if (seconds === null) return "";
  if (seconds < 55) return `· about ${Math.max(1, Math.round(seconds / 5) * 5)} s left`;
  return `· about ${Math.round(seconds / 60)} min left`;
};

const say = (node, text) => {
  if (node.textContent !== text) node.textContent = text;
};

const tell = (value) => {
  const isUnderWay = ["waiting", "warming", "running"].includes(value.phase);
  section.dataset.phase = value.phase;
  const focused = element.contains(document.activeElement) && document.activeElement.dataset.act;
  find("[data-act=run]").hidden = isUnderWay;
  find("[data-act=stop]").hidden = !isUnderWay;
  // The button that was pressed goes; the one in its place takes the focus over.
  if (focused === "run" && isUnderWay) find("[data-act=stop]").focus();
  if (focused === "stop" && !isUnderWay) find("[data-act=run]").focus();
  find(".ee-bench-progress").hidden = value.run < 0;
  say(find(".ee-bench-phase"), value.phase_text);
  say(find(".ee-bench-left"), value.phase === "running" ? left(value.seconds_left) : "");
  say(find(".ee-bench-writing"), value.writing);
  say(find("[role=status]"), value.announcement);
  find("progress").value = value.all ? value.done / value.all : 0;
};

const show = (value) => {
  if (!value || value.run === undefined) return;
  tell(value);
  draw(find(".ee-bench-now"), value.now, report);
  find(".ee-bench-now").hidden = !value.now;
  if (isAwaited && value.phase === "running" && value.now) {
    isAwaited = false;
    section.scrollIntoView(); // they stand below the form
  }
  draw(find(".ee-bench-changes"), value.changes, EagleEye.benchChanges);
  find(".ee-bench-changes").hidden = !value.changes;
  say(find(".ee-bench-earlier h3"), `Earlier: ${value.earlier_name}`);
  draw(find(".ee-bench-earlier > div:last-child"), value.earlier, report);
  find(".ee-bench-earlier").hidden = !value.earlier;
  files = value.files ? JSON.parse(value.files) : null;
  find(".ee-bench-saves").hidden = !files;
  find("[data-save=csv]").hidden = !files?.texts.csv;
};

const TYPES = { json: "application/json", csv: "text/csv", md: "text/markdown" };
section.addEventListener("click", (event) => {
  const { act, save } = event.target.closest("button")?.dataset ?? {};
  if (act === "run") {
    trigger("run");
    isAwaited = true;
  }
  if (act === "stop") trigger("halt");
  else if (act === "bring") file.click();
  else if (act === "put_away") trigger("put_away");
  else if (save) EagleEye.save(`${files.name}.${save}`, files.texts[save], TYPES[save]);
});
file.addEventListener("change", async () => {
  const [chosen] = file.files;
  if (chosen) trigger("bring", { name: chosen.name, text: await chosen.text() });
  file.value = ""; // the same file again is a change, too
});
watch("value", () => show(props.value));
show(props.value);
