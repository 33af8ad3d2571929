// What the kiosk asks of its server. Every call ends in one of three ways: an answer, `Refused` with
// a sentence for the visitor, or `Lost`: nobody is there.
export class Refused extends Error {}
export class Lost extends Error {}

const ANSWER_MILLISECONDS = 8000;
const SILENCE_MILLISECONDS = 15000; // the server sends a line every two seconds

export class Server {
  config() {
    return this.json("GET", "/kiosk/config");
  }

  hello(visit) {
    return this.json("GET", "/kiosk/hello", { headers: visit ? { "x-visit": visit } : {} });
  }

  async begin() {
    return (await this.json("POST", "/kiosk/visits")).visit;
  }

  // Also while the page is being left.
  end(visit) {
    return this.call("DELETE", `/kiosk/visits/${visit}`, { keepalive: true, milliseconds: 2000 });
  }

  putPicture(visit, picture) {
    return this.call("PUT", `/kiosk/visits/${visit}/picture`, { body: picture, milliseconds: 60000 });
  }

  stop(visit) {
    return this.call("POST", `/kiosk/visits/${visit}/stop`);
  }

  answer(visit, asked, signal) {
    return this.lines(`/kiosk/visits/${visit}/answer`, asked, signal);
  }

  race(visit, signal) {
    return this.lines(`/kiosk/visits/${visit}/race`, {}, signal);
  }

  figures(pin) {
    return this.json("POST", "/kiosk/staff/figures", { body: JSON.stringify({ pin }) });
  }

  restart(pin) {
    return this.call("POST", "/kiosk/staff/restart", { body: JSON.stringify({ pin }) });
  }

  async json(method, path, options) {
    return (await this.call(method, path, options)).json();
  }

  async call(method, path, { milliseconds = ANSWER_MILLISECONDS, ...options } = {}) {
    return this.fetch(method, path, { signal: AbortSignal.timeout(milliseconds), ...options });
  }

  async fetch(method, path, options) {
    let response;
    try {
      response = await fetch(path, { method, cache: "no-store", ...options });
    } catch (error) {
      if (options.signal?.reason?.name === "AbortError") throw error;
      throw new Lost(error.message);
    }
    if (response.ok) return response;
    if (response.status >= 500) throw new Lost(`status ${response.status}`);
    const { sentence } = await response.json().catch(() => ({}));
    throw new Refused(sentence ?? "That did not work. Please try again.");
  }

  // Batches of the records that a run streams. Aborting `signal` ends the run on the server too.
  async *lines(path, asked, signal) {
    const response = await this.fetch("POST", path, { body: JSON.stringify(asked), signal });
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      const { done, value } = await this.read(reader, signal);
      if (done) return;
      const lines = (rest + value).split("\n");
      rest = lines.pop();
      yield lines.filter(Boolean).map((line) => JSON.parse(line));
    }
  }

  async read(reader, signal) {
    let timer;
    const silence = new Promise((_, reject) => {
      timer = setTimeout(() => reject(new Lost("silence")), SILENCE_MILLISECONDS);
    });
    try {
      return await Promise.race([reader.read(), silence]);
    } catch (error) {
      reader.cancel().catch(() => {});
      if (signal.aborted || error instanceof Lost) throw error;
      throw new Lost(error.message);
    } finally {
      clearTimeout(timer);
    }
  }
}
