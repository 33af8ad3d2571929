// One answer as it grows, and the race of it. Both are made for a visit and dropped with it.
const make = EagleEye.make;

export class AnswerScreen {
  constructor(screen, maxTokens) {
    this.screen = screen;
    this.maxTokens = maxTokens;
    this.find = (selector) => screen.querySelector(selector);
    this.clear();
  }

  begin(question, picture) {
    this.clear();
    this.find("h1").textContent = question;
    const image = this.find("img");
    image.parentElement.hidden = !picture;
    if (picture) image.src = picture;
    this.wait(0);
  }

  // Why there is no text yet.
  wait(ahead) {
    const reading = this.find("img").hasAttribute("src") ? "Looking at the picture" : "Reading the question";
    const text = ahead ? "The other screen is being answered. You are next." : reading;
    this.find(".k-waiting-for").textContent = text;
  }

  add(records) {
    for (const record of records) {
      if (record.type === "queue") this.wait(record.ahead);
      else if (["run", "image", "phase", "step", "end"].includes(record.type)) this.trace.add(record);
    }
    this.screen.toggleAttribute("data-writing", this.trace.steps.length > 0);
    this.words.show(this.trace);
    this.bars.show(this.trace);
    this.find(".k-words").scrollTop = this.find(".k-words").scrollHeight;
    this.showFigures();
  }

  showFigures() {
    const { steps, summary, numTokens, seconds } = this.trace;
    const spent = steps.length > 1 ? seconds - steps[0].elapsed_seconds : 0;
    const drafted = steps.filter((step) => step.num_drafted);
    const accepted = drafted.reduce((sum, step) => sum + step.num_accepted, 0);
    const perStep = summary?.mean_acceptance_length ?? (drafted.length ? 1 + accepted / drafted.length : null);
    const speed = summary?.decode_tokens_per_second ?? (spent ? (numTokens - 1) / spent : null);
    this.fill("per_step", EagleEye.number(perStep, 1));
    this.fill("speed", EagleEye.number(speed, 0));
    this.fill("first", steps.length ? `${steps[0].elapsed_seconds.toFixed(2)} s` : "–");
  }

  fill(name, text) {
    this.find(`[data-figure=${name}]`).textContent = text;
  }

  announcement() {
    const { end } = this.trace;
    if (!end) return "";
    const start = end.reason === "cancelled" ? "Answer stopped" : "Answer ready";
    return `${start}: ${EagleEye.count(end.num_tokens, "token")} in ${end.elapsed_seconds.toFixed(1)} seconds.`;
  }

  // Views hold on to their trace and their listeners, so each answer gets new ones.
  clear() {
    this.trace = new EagleEye.Trace();
    const selection = new EagleEye.Selection();
    const [words, bars] = [make("div"), make("div")];
    this.find(".k-words").replaceChildren(words);
    this.find(".k-steps").replaceChildren(bars);
    this.words = new EagleEye.Tokens(words, selection);
    this.bars = new EagleEye.Bars(bars, selection);
    bars.style.setProperty("--cells", this.maxTokens);
    this.screen.removeAttribute("data-writing");
    this.find("h1").textContent = "";
    this.find("img").removeAttribute("src");
    this.showFigures();
  }
}

const SPEEDS = [[1, "1×"], [0.25, "¼×"], [0.0625, "1⁄16×"]];
const SECONDS_TO_FOLLOW = 3; // a race that is over sooner is played slower

export class RaceScreen {
  constructor(screen, maxTokens) {
    this.screen = screen;
    this.maxTokens = maxTokens;
    this.find = (selector) => screen.querySelector(selector);
    this.replay = null;
    this.clear();
  }

  begin(question) {
    this.clear();
    const host = make("div");
    this.find(".k-replay").replaceChildren(host);
    this.replay = new EagleEye.Replay(host, SPEEDS);
    this.find("h1").textContent = question;
    this.say("Warming up");
  }

  say(text) {
    this.find(".k-verdict").textContent = text;
  }

  add(records) {
    for (const record of records) {
      if (record.type === "queue" && record.ahead) this.say("The other screen is being answered. You are next.");
      else if (record.type === "run") this.startLeg(record);
      else if (["image", "phase", "step", "end"].includes(record.type)) this.race[this.mode].add(record);
      else if (record.type === "result") this.result = record;
    }
    if (!this.result) this.replay.live(this.race);
  }

  startLeg(record) {
    this.mode = record.mode;
    this.race[this.mode] = new EagleEye.Trace([record]);
    this.say(this.mode === "base" ? "First the base alone" : "Now with EAGLE-3");
  }

  // Both are there: play them on one clock. Returns what a screen reader says.
  finish() {
    const { result, race } = this;
    const [verdict, speed, why] = result.sentences;
    const faster = result.decode_speedup ? `${result.decode_speedup.toFixed(2)} times as fast` : "";
    this.say([verdict, faster].filter(Boolean).join(" · "));
    this.screen.toggleAttribute("data-identical", result.identical);
    this.find(".k-why").textContent = why ?? speed;
    const seconds = Math.max(race.base.seconds, race.eagle.seconds);
    const pace = SPEEDS.map(([value]) => value).find((value) => seconds / value >= SECONDS_TO_FOLLOW);
    this.replay.load(race, pace ?? SPEEDS.at(-1)[0]);
    this.replay.focus();
    return `Race finished. ${this.find(".k-verdict").textContent}.`;
  }

  clear() {
    this.replay?.clear();
    this.replay = null;
    this.race = { maxTokens: this.maxTokens };
    this.mode = null;
    this.result = null;
    this.find(".k-replay").replaceChildren();
    for (const selector of ["h1", ".k-verdict", ".k-why"]) this.find(selector).textContent = "";
    this.screen.removeAttribute("data-identical");
  }
}
