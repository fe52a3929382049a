/* One socket: connects, comes back with a growing pause and some chance, and goes on from where it was. */
const FIRST_PAUSE = 500;
const LONGEST_PAUSE = 15000;
const SIGN_IN_AGAIN = 4401;
const FINAL = new Set([SIGN_IN_AGAIN, 4403]);

function keyOf(topic, view) {
  return `${topic} ${view}`;
}

export class Link {
  /** `tell` gets {link: state, …} when the connection changes, and every message of the server. */
  constructor(address, tell) {
    this.address = address;
    this.tell = tell;
    this.topics = new Map();
    this.tries = 0;
    this.state = "off";
  }

  follow(topic, view, since) {
    const key = keyOf(topic, view);
    const users = (this.topics.get(key)?.users ?? 0) + 1;
    this.topics.set(key, { topic, view, since, users });
    if (this.socket?.readyState === WebSocket.OPEN) this.subscribe(key);
    else this.connect();
  }

  leave(topic, view) {
    const key = keyOf(topic, view);
    const known = this.topics.get(key);
    if (!known) return;
    known.users -= 1;
    if (known.users > 0) return;
    this.topics.delete(key);
    if (this.socket?.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify({ unsubscribe: topic, view }));
    if (!this.topics.size) this.close();
  }

  connect() {
    if (this.socket || this.timer || !this.topics.size || this.isOver) return;
    this.say(this.tries ? "reconnecting" : "connecting");
    const socket = new WebSocket(this.address);
    this.socket = socket;
    socket.onopen = () => {
      for (const key of this.topics.keys()) this.subscribe(key);
    };
    socket.onmessage = (event) => this.hear(JSON.parse(event.data));
    socket.onclose = (event) => {
      if (this.socket === socket) this.lost(event.code);
    };
  }

  subscribe(key) {
    const { topic, view, since } = this.topics.get(key);
    this.socket.send(JSON.stringify({ subscribe: topic, view, since }));
  }

  hear(message) {
    this.tries = 0;
    const known = this.topics.get(keyOf(message.topic, message.view));
    if (known && message.seq) known.since = message.seq;
    this.say("live");
    this.tell(message);
  }

  lost(code) {
    this.socket = undefined;
    if (FINAL.has(code)) {
      this.isOver = true;
      this.say(code === SIGN_IN_AGAIN ? "signed-out" : "stale");
      return;
    }
    this.tries += 1;
    const pause = Math.min(FIRST_PAUSE * 2 ** (this.tries - 1), LONGEST_PAUSE) * (0.5 + Math.random());
    this.say(this.tries > 1 ? "stale" : "reconnecting", { pause });
    this.timer = setTimeout(() => {
      this.timer = undefined;
      this.connect();
    }, pause);
  }

  /** The network is back, or the person looks at the page again: do not wait for the timer. */
  hurry() {
    if (!this.timer) return;
    clearTimeout(this.timer);
    this.timer = undefined;
    this.connect();
  }

  say(state, more = {}) {
    if (state === this.state && state === "live") return;
    if (state !== "live" && this.state === "live") this.liveUntil = Date.now();
    this.state = state;
    this.tell({ link: state, liveUntil: this.liveUntil, ...more });
  }

  close() {
    clearTimeout(this.timer);
    this.timer = undefined;
    const socket = this.socket;
    this.socket = undefined;
    socket?.close();
    this.state = "off";
  }
}
