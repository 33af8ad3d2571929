// Recorded runs played again on one clock: real speed, slow motion, any moment.
EagleEye.Clock = class {
  constructor(onTime) {
    this.onTime = onTime; // called with the time and whether it runs
    this.duration = 0;
    this.time = 0;
    this.speed = 1;
    this.isPlaying = false;
    this.frame = (now) => {
      if (!this.isPlaying) return;
      this.time = Math.min(this.duration, this.time + ((now - this.last) / 1000) * this.speed);
      this.last = now;
      if (this.time >= this.duration) this.isPlaying = false;
      this.onTime(this.time, this.isPlaying);
      if (this.isPlaying) requestAnimationFrame(this.frame);
    };
  }

  play() {
    if (this.time >= this.duration) this.time = 0;
    this.isPlaying = true;
    this.last = performance.now();
    requestAnimationFrame(this.frame);
    this.onTime(this.time, true);
  }

  pause() {
    this.isPlaying = false;
    this.onTime(this.time, false);
  }

  seek(time) {
    this.time = Math.max(0, Math.min(this.duration, time));
    this.onTime(this.time, this.isPlaying);
  }
};

// One run in a race: who, how fast, the text by tokens, a bar a step.
EagleEye.Lane = class {
  constructor(name, selection) {
    this.selection = selection;
    this.clockText = EagleEye.make("span", "ee-lane-clock");
    this.speed = EagleEye.make("strong", "ee-lane-speed");
    this.progress = EagleEye.make("i");
    this.note = EagleEye.make("span", "ee-lane-note");
    const head = EagleEye.make("header", "", EagleEye.make("h3", "", name, this.note), this.speed, this.clockText);
    const text = EagleEye.make("div");
    const bars = EagleEye.make("div");
    const track = EagleEye.make("div", "ee-lane-track", this.progress);
    this.element = EagleEye.make("section", "ee-lane", head, track, text, bars);
    this.element.setAttribute("aria-label", name);
    this.tokens = new EagleEye.Tokens(text, selection);
    this.bars = new EagleEye.Bars(bars, selection);
    this.text = text;
  }

  // Which of several runs this is, and where its text parts from the other lane's.
  describe(note, parting) {
    this.note.textContent = note;
    this.tokens.part(parting);
  }

  // The run as it stood `seconds` after it was asked for; no time means now.
  show(trace, seconds = Infinity, maxTokens = 5) {
    this.bars.host.style.setProperty("--cells", maxTokens);
    const steps = trace.stepsAt(seconds);
    this.tokens.show(trace, steps);
    this.bars.show(trace, steps);
    const shown = trace.steps.slice(0, steps);
    const tokens = shown.reduce((sum, step) => sum + step.token_ids.length, 0);
    const isOver = trace.end && seconds >= trace.seconds;
    const now = Math.min(seconds, trace.seconds);
    const decode = steps > 1 ? (isOver ? trace.seconds : now) - trace.steps[0].elapsed_seconds : 0;
    this.speed.textContent = decode > 0 ? `${((tokens - 1) / decode).toFixed(1)} tok/s` : "";
    this.clockText.textContent = `${EagleEye.count(tokens, "token")} · ${now.toFixed(2)} s`;
    this.progress.style.width = `${trace.numTokens ? (100 * tokens) / trace.numTokens : 0}%`;
    this.element.toggleAttribute("data-over", Boolean(isOver));
    this.text.scrollTop = this.text.scrollHeight;
  }
};

// A finished race: both runs side by side on one clock, with its controls. `race` is
// {base, eagle: Trace, maxTokens, note, sentences: [..]}. speeds: [[factor, name]].
EagleEye.Replay = class {
  static STEP_SECONDS = 0.05; // of an arrow key; ten of them of a page key

  constructor(host, speeds = [[1, "1×"], [0.25, "¼×"]]) {
    this.host = host;
    this.lanes = {
      base: new EagleEye.Lane("Base alone", new EagleEye.Selection()),
      eagle: new EagleEye.Lane("Base + EAGLE-3", new EagleEye.Selection()),
    };
    this.clock = new EagleEye.Clock((time, isPlaying) => this.draw(time, isPlaying));
    this.controls = this.makeControls(speeds);
    const lanes = EagleEye.make("div", "ee-lanes", this.lanes.base.element, this.lanes.eagle.element);
    host.classList.add("ee-replay");
    host.tabIndex = 0;
    host.setAttribute("role", "group");
    host.setAttribute("aria-label", "Replay of the race: space plays and pauses, arrow keys move the time");
    this.difference = EagleEye.make("p", "ee-difference");
    host.append(lanes, this.difference, this.controls);
    host.addEventListener("keydown", (event) => this.key(event));
    this.showControls(false);
  }

  makeControls(choices) {
    this.playButton = EagleEye.make("button", "ee-play");
    this.playButton.type = "button";
    this.playButton.addEventListener("click", () => this.toggle());
    this.slider = EagleEye.make("input");
    Object.assign(this.slider, { type: "range", min: 0, step: 0.001, value: 0 });
    this.slider.setAttribute("aria-label", "Moment of the replay");
    this.slider.addEventListener("input", () => {
      this.clock.isPlaying = false; // not pause(), which would put the slider back first
      this.clock.seek(Number(this.slider.value));
    });
    // Not an <output>, which a screen reader would read at every frame.
    this.time = EagleEye.make("span", "ee-replay-time");
    const speeds = EagleEye.make("div", "ee-speeds");
    speeds.setAttribute("role", "group");
    speeds.setAttribute("aria-label", "Speed of the replay");
    for (const [speed, name] of choices) {
      const button = EagleEye.make("button", "", name);
      button.type = "button";
      button.dataset.speed = speed;
      button.addEventListener("click", () => this.setSpeed(speed));
      speeds.append(button);
    }
    this.speeds = speeds;
    return EagleEye.make("div", "ee-replay-controls", this.playButton, this.slider, this.time, speeds);
  }

  // Show a race that is still being run: whatever there is of both, without a clock.
  live(race) {
    this.race = null;
    this.clock.isPlaying = false; // not pause(), which would draw the clock's moment
    this.showControls(false);
    this.describe(race.note);
    for (const name of ["base", "eagle"]) if (race[name]) this.lanes[name].show(race[name], Infinity, race.maxTokens);
  }

  // Take a finished race and play it from the start.
  load(race, speed = 1) {
    this.race = race;
    const duration = Math.max(race.base.seconds, race.eagle.seconds);
    this.clock.duration = Math.ceil(1000 * duration) / 1000; // the slider's own steps
    this.slider.max = this.clock.duration;
    this.showControls(true);
    this.setSpeed(speed);
    this.describe(race.note, EagleEye.difference(race.base, race.eagle));
    const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
    this.clock.pause();
    this.clock.seek(still ? this.clock.duration : 0);
    if (!still) this.clock.play();
  }

  clear() {
    this.clock.isPlaying = false;
    this.race = null;
    this.showControls(false);
    this.describe();
    for (const lane of Object.values(this.lanes)) lane.show(new EagleEye.Trace());
  }

  describe(note = "", difference = null) {
    for (const [name, lane] of Object.entries(this.lanes)) lane.describe(note, difference?.[name] ?? null);
    this.difference.textContent = difference?.sentence ?? "";
  }

  showControls(visible) {
    this.controls.hidden = !visible;
  }

  setSpeed(speed) {
    this.clock.speed = speed;
    for (const button of this.speeds.children) {
      button.setAttribute("aria-pressed", String(Number(button.dataset.speed) === speed));
    }
  }

  toggle() {
    if (this.clock.isPlaying) this.clock.pause();
    else this.clock.play();
  }

  // The space bar presses a button that has the focus, and arrows walk the steps in a view of them.
  key(event) {
    if (!this.race || event.altKey || event.ctrlKey || event.metaKey) return;
    if (event.key === " ") {
      if (event.target.closest("button")) return;
      this.toggle();
    } else {
      const { time, duration } = this.clock;
      const { STEP_SECONDS } = EagleEye.Replay;
      const moments = {
        ArrowRight: time + STEP_SECONDS, ArrowLeft: time - STEP_SECONDS, Home: 0, End: duration,
      };
      // Elsewhere these scroll. The slider's own step is as fine as a recorded time.
      if (event.target === this.slider) Object.assign(moments, {
        ArrowUp: time + STEP_SECONDS, ArrowDown: time - STEP_SECONDS,
        PageUp: time + 10 * STEP_SECONDS, PageDown: time - 10 * STEP_SECONDS,
      });
      if (!(event.key in moments) || event.target.closest(".ee-bars, .ee-tokens")) return;
      this.clock.seek(moments[event.key]);
    }
    event.preventDefault();
  }

  focus() {
    this.host.focus({ preventScroll: true });
  }

  draw(time, isPlaying) {
    this.playButton.textContent = isPlaying ? "Pause" : "Play";
    this.slider.value = time;
    this.time.textContent = `${time.toFixed(2)} s`;
    this.slider.setAttribute("aria-valuetext", `${time.toFixed(2)} of ${this.clock.duration.toFixed(2)} seconds`);
    if (!this.race) return;
    this.lanes.base.show(this.race.base, time, this.race.maxTokens);
    this.lanes.eagle.show(this.race.eagle, time, this.race.maxTokens);
  }
};

// One file that shows a race without a server or a network: the views, their look, the traces.
EagleEye.replayDocument = (race) => {
  const source = (id) => document.getElementById(id).textContent;
  const data = JSON.stringify({
    ...race, base: race.base.records, eagle: race.eagle.records,
  });
  const inert = (text) => text.replaceAll("</", "<\\/");
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>EagleEye: a race, replayed</title>
<style id="ee-view-styles">${source("ee-view-styles")}</style>
</head>
<body class="ee-document">
<main id="ee-document"></main>
<script type="application/json" id="ee-race">${inert(data)}</script>
<script id="ee-view-scripts">${inert(source("ee-view-scripts"))}</script>
<script>EagleEye.openDocument(JSON.parse(document.getElementById("ee-race").textContent));</script>
</body>
</html>
`;
};

// In such a file: rebuild the race and play it.
EagleEye.openDocument = (data) => {
  const race = {
    ...data, base: new EagleEye.Trace(data.base), eagle: new EagleEye.Trace(data.eagle),
  };
  const { run } = race.eagle;
  const { environment } = run;
  const main = document.getElementById("ee-document");
  const facts = [run.base, run.draft, run.dtype, environment.gpu ?? environment.processor, run.started];
  main.append(
    EagleEye.make("h1", "", "EagleEye"),
    EagleEye.make("p", "ee-document-question", run.question),
    EagleEye.make("p", "ee-note", facts.filter(Boolean).join(" · ")),
  );
  const host = EagleEye.make("div");
  const result = EagleEye.make("div", "ee-result", ...race.sentences.map((text) => EagleEye.make("p", "", text)));
  main.append(result, host);
  new EagleEye.Replay(host).load(race);
};
