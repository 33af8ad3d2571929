// Is the server still there, and the same one? A line above the page says when it is not; what was
// written stays on the page meanwhile.
EagleEye.connection = {
  every: 4000,

  start() {
    this.line = EagleEye.make("div", "ee-connection");
    this.line.setAttribute("role", "alert");
    this.line.hidden = true;
    document.body.prepend(this.line);
    this.look();
  },

  async look() {
    const now = await this.ask();
    if (now && !this.server) this.server = now.server;
    if (!now) this.say("The connection to the server is lost. Your conversation stays here; trying again…");
    else if (now.server !== this.server) this.say("The server was started again: this conversation can be read but not continued.", true);
    else this.line.hidden = true;
    setTimeout(() => this.look(), this.every);
  },

  async ask() {
    try {
      const response = await fetch("/healthz", { cache: "no-store", signal: AbortSignal.timeout(this.every) });
      return response.ok ? await response.json() : null;
    } catch {
      return null;
    }
  },

  say(text, reload = false) {
    if (this.said === text && !this.line.hidden) return;
    this.said = text;
    this.line.replaceChildren(text);
    if (reload) {
      const button = EagleEye.make("button", "", "Start anew");
      button.addEventListener("click", () => location.reload());
      this.line.append(" ", button);
    }
    this.line.hidden = false;
  },
};
