// What an idle kiosk shows: recorded races, decoding only, slowed down so that one can follow.
// Recordings and pictures are fetched once and then kept, so that it goes on without a server.
const READING = 0.14; // shares of the time that a recording is shown: the question alone,
const RUNNING = 0.5; // then decoding; the rest is for the result

const make = EagleEye.make;

export class Attract {
  constructor(host, seconds) {
    this.host = host;
    this.seconds = seconds;
    this.picture = host.querySelector("img");
    this.question = host.querySelector(".k-question");
    this.words = new EagleEye.Tokens(host.querySelector(".k-words"), new EagleEye.Selection());
    this.tracks = { base: new Track("Base alone"), eagle: new Track("Base + EAGLE-3") };
    host.querySelector(".k-tracks").append(this.tracks.base.element, this.tracks.eagle.element);
    this.outcome = host.querySelector(".k-outcome");
    this.source = host.querySelector(".k-source");
    this.replays = [];
    this.isPlaying = false;
    this.place = -1;
    this.clock = new EagleEye.Clock((time) => this.draw(time));
    this.timers = [];
  }

  async load(addresses) {
    this.replays = await Promise.all(addresses.map((address) => Attract.fetch(address)));
    if (this.isPlaying) this.next();
  }

  static async fetch(address) {
    const [trace, picture] = await Promise.all([fetch(`${address}/trace`), fetch(`${address}/picture`)]);
    if (!trace.ok || !picture.ok) throw new Error(`no recording at ${address}`);
    const [base, eagle] = EagleEye.Trace.parse(await trace.text());
    return { base, eagle, picture: URL.createObjectURL(await picture.blob()) };
  }

  play() {
    this.isPlaying = true;
    this.next();
  }

  pause() {
    this.isPlaying = false;
    this.halt();
  }

  halt() {
    this.clock.isPlaying = false;
    this.timers.forEach(clearTimeout);
    this.timers = [];
  }

  next() {
    this.halt();
    if (!this.replays.length) return;
    this.place = (this.place + 1) % this.replays.length;
    this.show(this.replays[this.place]);
    this.after(this.seconds, () => this.next());
  }

  after(seconds, act) {
    this.timers.push(setTimeout(act, 1000 * seconds));
  }

  show(replay) {
    this.replay = replay;
    this.picture.src = replay.picture;
    this.question.textContent = replay.eagle.run.question;
    const longest = Math.max(decoding(replay.base), decoding(replay.eagle));
    const slowness = (RUNNING * this.seconds) / longest;
    this.clock.duration = longest;
    this.clock.speed = 1 / slowness;
    this.source.textContent = source(replay.eagle.run, slowness);
    this.host.dataset.replay = this.place;
    this.host.classList.remove("k-over");
    this.outcome.textContent = outcome(replay);
    const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
    this.clock.seek(still ? longest : 0);
    if (still) this.end();
    else this.after(READING * this.seconds, () => this.clock.play());
  }

  // The time counts from each run's own first token: reading the prompt is the same for both.
  draw(time) {
    const { base, eagle } = this.replay;
    const isBegun = this.clock.isPlaying || time > 0;
    this.words.show(eagle, isBegun ? eagle.stepsAt(eagle.steps[0].elapsed_seconds + time) : 0);
    this.tracks.base.show(base, isBegun ? time : -1);
    this.tracks.eagle.show(eagle, isBegun ? time : -1);
    if (time >= this.clock.duration) this.end();
  }

  end() {
    this.host.classList.add("k-over");
  }
}

// One run as a row of blocks: a block a step, as wide as its tokens.
class Track {
  constructor(name) {
    this.blocks = make("div", "k-blocks");
    this.facts = make("span", "k-track-facts");
    this.element = make("div", "k-track", make("span", "k-track-name", name), this.facts, this.blocks);
    this.trace = null;
  }

  show(trace, time) {
    if (trace !== this.trace) this.lay(trace);
    const first = trace.steps[0].elapsed_seconds;
    const shown = time < 0 ? 0 : trace.stepsAt(first + time);
    [...this.blocks.children].forEach((block, place) => block.classList.toggle("k-lit", place < shown));
    const now = Math.min(Math.max(time, 0), decoding(trace));
    this.facts.textContent = `${EagleEye.count(shown, "step")} · ${now.toFixed(2)} s`;
    this.element.classList.toggle("k-finished", shown === trace.steps.length);
  }

  lay(trace) {
    this.trace = trace;
    this.blocks.replaceChildren(...trace.steps.map((step) => this.block(step)));
  }

  block(step) {
    const [draft, base] = EagleEye.split(step);
    const block = make("span", "k-block");
    block.style.flexGrow = draft + base;
    for (const [kind, count] of [["draft", draft], ["base", base]]) {
      for (let number = 0; number < count; number += 1) block.append(make("i", `k-${kind}`));
    }
    return block;
  }
}

const decoding = (trace) => trace.seconds - trace.steps[0].elapsed_seconds;

const source = (run, slowness) => {
  const pace = slowness < 1.5 ? "in real time" : `${Math.round(slowness)} times slower than it was`;
  return `A recording of ${run.base} with its draft, shown ${pace}.`;
};

const outcome = ({ base, eagle }) => {
  const [ours, theirs] = [eagle, base].map((trace) => trace.steps.flatMap((step) => step.token_ids));
  const isSame = ours.length === theirs.length && ours.every((id, place) => id === theirs[place]);
  if (!isSame) return "";
  const ratio = eagle.summary.decode_tokens_per_second / base.summary.decode_tokens_per_second;
  const speed = ratio ? `, ${ratio.toFixed(1)} times as fast` : "";
  return `IDENTICAL ${ours.length}/${ours.length} tokens${speed}`;
};
