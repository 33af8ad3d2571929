// The kiosk: which screen is shown, what a touch does, and how every visit ends. What belongs to a
// visitor lives in `visit` and in the screens' own state; `wipe` empties both.
import { AnswerScreen, RaceScreen } from "./answer.js";
import { Attract } from "./attract.js";
import { Camera } from "./camera.js";
import { Connection } from "./connection.js";
import { Idle, Machine } from "./machine.js";
import { Lost, Refused, Server } from "./server.js";
import { Staff } from "./staff.js";
import { Start } from "./start.js";
import { clearStorage } from "./storage.js";
import { Warning } from "./warning.js";

const GOODBYE_MILLISECONDS = 1500;
const BANNER_MILLISECONDS = 12000;
const GONE = "The demo was interrupted, so your visit has ended. Please touch the screen to try again.";
const AWAY = "The demo is starting up. Please try again in a moment.";

const find = (selector) => document.querySelector(selector);

class Kiosk {
  constructor(config) {
    this.config = config;
    this.server = new Server();
    this.machine = new Machine((state, before) => this.entered(state, before));
    this.idle = new Idle(() => this.machine.to("warn"));
    this.screens = Object.fromEntries([...document.querySelectorAll("main > section")].map((one) => [one.id, one]));
    this.attract = new Attract(this.screens.attract, config.attract_seconds);
    this.start = new Start(this.screens, config, {
      card: (number) => this.when("start", () => this.askCard(number)),
      picture: (picture) => this.when("start", () => this.takePicture(picture)),
      question: (asked) => this.when("start", () => this.askOwn(asked)),
      problem: (sentence) => this.showBanner(sentence),
    });
    this.camera = new Camera(find("video"));
    this.answer = new AnswerScreen(this.screens.answer, config.max_tokens_per_step);
    this.race = new RaceScreen(this.screens.race, config.max_tokens_per_step);
    this.warning = new Warning(find("#warn"), config.warning_seconds, {
      stay: () => this.machine.to(this.shown === "start" ? "start" : "read"),
      gone: () => this.wipe(),
    });
    this.connection = new Connection(this.server, config.version, {
      visit: () => this.visit?.id,
      lost: () => this.visit && this.wipe(GONE),
      changed: (isThere) => this.showSign(isThere),
      renewed: () => this.machine.state === "attract" && location.reload(),
    });
    this.visit = null; // {id, question, picture: an object URL, abort}
    this.shown = "attract"; // the state whose screen is to be seen, under the warning too
    this.listen();
  }

  listen() {
    this.screens.attract.addEventListener("click", () => this.guard(() => this.begin()));
    this.on(".k-camera-button", "start", () => this.openCamera());
    this.on(".k-shoot", "start", async () => this.takePicture(await this.camera.shoot()));
    this.on(".k-back", "start", () => this.showStart());
    this.on(".k-stop", "busy", () => this.stop());
    this.on(".k-again", "read", () => this.machine.to("start"));
    this.on(".k-race", "read", () => this.runRace());
    document.querySelectorAll(".k-done").forEach((button) => button.addEventListener("click", () => this.wipe()));
    find(".k-camera-button").hidden = !(this.config.takes_pictures && Camera.isOffered);
    find(".k-race").hidden = !this.config.can_race;
    find(".k-privacy p").hidden = !this.config.takes_pictures;
    if (this.config.has_staff) {
      this.staff = new Staff(find(".k-corner"), find("#staff"), this.server, {
        isVisited: () => this.machine.isVisited,
        endVisit: () => this.machine.isVisited && this.wipe(),
      });
    }
    addEventListener("keydown", (event) => {
      if (event.key === "Escape") this.when("busy", () => this.stop());
    });
    for (const kind of ["contextmenu", "dragstart"]) addEventListener(kind, (event) => event.preventDefault());
    addEventListener("pagehide", () => this.visit && this.server.end(this.visit.id).catch(() => {}));
    // A fault of our own must not leave a screen that answers nothing.
    addEventListener("unhandledrejection", () => this.fault());
    addEventListener("error", () => this.fault());
  }

  on(selector, state, act) {
    const click = () => this.when(state, act);
    document.querySelectorAll(selector).forEach((button) => button.addEventListener("click", click));
  }

  // What comes too late, a second tap or a file chosen after the visit ended, does nothing.
  when(state, act) {
    if (this.machine.state === state) this.guard(act);
  }

  open() {
    this.attract.play();
    this.connection.start();
    this.loadReplays();
  }

  // Without recordings the screen still says what it is; they are fetched once the server is back.
  loadReplays() {
    if (!this.attract.replays.length) this.attract.load(this.config.replays).catch(() => {});
  }

  // Do what a visitor asked for. A refusal leaves him where he can choose again; whatever else goes
  // wrong ends the visit with a sentence.
  async guard(act) {
    const { visit } = this;
    try {
      await act();
    } catch (error) {
      if (visit !== this.visit || error.name === "AbortError") return;
      if (error instanceof Refused && this.machine.state !== "attract") this.refuse(error.message);
      else if (this.visit) this.wipe(error instanceof Refused ? error.message : GONE);
      else this.showBanner(error instanceof Refused ? error.message : AWAY);
      if (error instanceof Lost) this.connection.check();
    }
  }

  refuse(sentence) {
    if (this.machine.state !== "start") this.machine.to("start");
    this.showStart();
    this.showBanner(sentence);
  }

  fault() {
    if (this.machine.isVisited) this.wipe(GONE);
  }

  // --- the states -------------------------------------------------------------------------------

  entered(state, before) {
    document.body.dataset.state = state;
    if (state === "warn") return this.warning.open();
    this.warning.close();
    if (before !== "warn" || state !== this.shown) this.change(state);
    if (state === "start" || state === "read") this.idle.start(this.config.idle_seconds);
    else this.idle.stop();
    return undefined;
  }

  change(state) {
    this.shown = state;
    this.showBanner("");
    if (state === "start") this.showStart();
    if (state === "wipe" || state === "attract") this.show(state);
    if (state === "attract") this.attract.play();
    else this.attract.pause();
  }

  // The section that is seen; its heading takes the focus, so that it is read out.
  show(name) {
    for (const [id, section] of Object.entries(this.screens)) section.hidden = id !== name;
    scrollTo(0, 0);
    const first = this.screens[name].querySelector("h1, .k-touch");
    first?.focus({ preventScroll: true });
  }

  showStart() {
    this.camera.close();
    this.dropPicture();
    this.start.clear();
    this.show("start");
  }

  async begin() {
    if (this.machine.state !== "attract" || this.beginning) return;
    this.beginning = true;
    try {
      if (!this.connection.isThere) return this.showBanner(AWAY);
      const id = await this.server.begin();
      this.visit = { id, question: "", picture: null, abort: null };
      this.machine.to("start");
    } finally {
      this.beginning = false;
    }
    return undefined;
  }

  async openCamera() {
    this.show("camera");
    find(".k-shoot").disabled = true;
    try {
      if (await this.camera.open()) find(".k-shoot").disabled = false;
    } catch {
      throw new Refused("The camera cannot be used here. Please choose a picture instead.");
    }
  }

  async takePicture(picture) {
    const { visit } = this;
    this.camera.close();
    this.dropPicture();
    await this.server.putPicture(visit.id, picture);
    if (visit !== this.visit || this.machine.state === "wipe") return;
    visit.picture = URL.createObjectURL(picture);
    this.screens.ask.querySelector("img").src = visit.picture;
    this.show("ask");
  }

  dropPicture() {
    if (this.visit?.picture) URL.revokeObjectURL(this.visit.picture);
    if (this.visit) this.visit.picture = null;
  }

  askCard(number) {
    const { question, picture } = this.config.cards[number];
    return this.runAnswer(question, picture, { card: number });
  }

  askOwn(asked) {
    const question = asked.text ?? this.config.questions[asked.question];
    return this.runAnswer(question, this.visit.picture, asked);
  }

  async runAnswer(question, picture, asked) {
    this.machine.to("busy");
    this.visit.question = question;
    this.answer.begin(question, picture);
    this.show("answer");
    await this.follow((signal) => this.server.answer(this.visit.id, asked, signal), this.answer);
    if (this.machine.state !== "busy") return;
    this.machine.to("read");
    this.announce(this.answer.announcement());
    this.screens.answer.querySelector(this.config.can_race ? ".k-race" : ".k-again").focus({ preventScroll: true });
  }

  async runRace() {
    this.machine.to("busy");
    this.race.begin(this.visit.question);
    this.show("race");
    await this.follow((signal) => this.server.race(this.visit.id, signal), this.race);
    if (this.machine.state !== "busy") return;
    this.machine.to("read");
    if (this.race.result) this.announce(this.race.finish());
    else this.show("answer");
  }

  async follow(ask, screen) {
    const { visit } = this;
    visit.abort = new AbortController();
    for await (const records of ask(visit.abort.signal)) {
      if (visit !== this.visit) return;
      for (const { type, sentence } of records) {
        if (type === "refused") throw new Refused(sentence);
        if (type === "failed") return this.wipe(sentence);
      }
      screen.add(records);
    }
    visit.abort = null;
    return undefined;
  }

  // The engine stops within a step; the answer so far stays to be read.
  async stop() {
    await this.server.stop(this.visit.id);
  }

  // The end of every visit, whatever was the reason: nothing of it stays, here or on the server.
  async wipe(sentence = "") {
    if (!this.machine.isVisited) return;
    const { visit } = this;
    this.machine.to("wipe");
    visit.abort?.abort();
    this.dropPicture();
    this.visit = null;
    this.camera.close();
    this.start.clear();
    this.answer.clear();
    this.race.clear();
    this.announce("");
    const goodbye = new Promise((resolve) => setTimeout(resolve, GOODBYE_MILLISECONDS));
    // A server that is not there has lost the visit already, or ends it when it hears nothing more.
    await Promise.allSettled([this.server.end(visit.id), clearStorage(), goodbye]);
    this.machine.to("attract");
    this.showBanner(sentence);
  }

  // --- words ------------------------------------------------------------------------------------

  showBanner(sentence) {
    clearTimeout(this.bannerTimer);
    find(".k-banner").textContent = sentence;
    if (sentence) this.bannerTimer = setTimeout(() => this.showBanner(""), BANNER_MILLISECONDS);
  }

  showSign(isThere) {
    if (isThere) this.loadReplays();
    find(".k-sign").textContent = isThere ? "" : "Reconnecting";
  }

  announce(text) {
    find(".k-announcement").textContent = text;
  }
}

const boot = async () => {
  const server = new Server();
  for (;;) {
    try {
      return new Kiosk(await server.config()).open();
    } catch (error) {
      if (!(error instanceof Lost)) throw error;
      await new Promise((resolve) => setTimeout(resolve, 2000));
    }
  }
};

boot();
