// Says every few seconds that the screen is there, and notices when the server is not.
const EVERY_MILLISECONDS = 3000;
const WHEN_LOST_MILLISECONDS = 1000;

export class Connection {
  // `on`: visit() gives the visit's id; lost() the visit is over; changed(isThere); renewed() the
  // server has other files than this page was made of
  constructor(server, version, on) {
    this.server = server;
    this.version = version;
    this.on = on;
    this.isThere = true;
    this.timer = null;
  }

  start() {
    this.plan();
  }

  plan() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.check(), this.isThere ? EVERY_MILLISECONDS : WHEN_LOST_MILLISECONDS);
  }

  async check() {
    clearTimeout(this.timer);
    const visit = this.on.visit();
    let reply = null;
    try {
      reply = await this.server.hello(visit);
    } catch {
      // Nobody there: said below.
    }
    const isThere = Boolean(reply?.is_ready);
    if (isThere !== this.isThere) {
      this.isThere = isThere;
      this.on.changed(isThere);
    }
    if (visit && visit === this.on.visit() && !reply?.visit) this.on.lost();
    if (reply && reply.version !== this.version) this.on.renewed();
    this.plan();
  }
}
