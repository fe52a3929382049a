/* One way to the server: a socket, or where none gets through, polls. It comes back with a growing pause and some
   chance, and goes on from where it was. */
import { poll } from "./polls.js";
import { isReachable } from "./reachable.js";

const FIRST_PAUSE = 500;
const LONGEST_PAUSE = 15000;
const SILENCE = 8000; // of a socket that should have answered: something between swallows it
const BEAT = 2500; // between two pings; a frozen server keeps its sockets open and says nothing
const PONG_WITHIN = 4000;
const DEAF_SOCKETS = 2; // so many in a row that nothing was heard on, and polls begin
const PROBE_AFTER = 120000; // of polls: perhaps a socket gets through by now
const SIGN_IN_AGAIN = 4401;
const FINAL = new Set([SIGN_IN_AGAIN, 4403]);

function keyOf(topic, view) {
  return `${topic} ${view}`;
}

export class Link {
  /** `receive` gets {link: state, …} when the connection changes, and every message of the server. */
  constructor(address, receive) {
    this.address = address;
    this.receive = receive;
    this.topics = new Map();
    this.tries = 0;
    this.deaf = 0;
    this.heardAt = 0;
    this.state = "off";
  }

  follow(topic, view, since) {
    const key = keyOf(topic, view);
    const users = (this.topics.get(key)?.users ?? 0) + 1;
    this.topics.set(key, { topic, view, since, users });
    if (this.socket?.readyState === WebSocket.OPEN) this.subscribe(key);
    else if (this.polls) this.polls.again();
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
    this.polls?.again();
    if (!this.topics.size) this.close();
  }

  connect() {
    if (this.socket || this.polls || this.timer || !this.topics.size || this.isOver) return;
    this.say(this.tries ? "reconnecting" : "connecting");
    if (this.deaf < DEAF_SOCKETS) this.use(new WebSocket(this.address));
    else this.usePolls();
  }

  use(socket) {
    this.socket = socket;
    const impatience = setTimeout(() => socket.close(), SILENCE);
    this.deaf += 1;
    socket.onopen = () => {
      for (const key of this.topics.keys()) this.subscribe(key);
    };
    socket.onmessage = (event) => {
      clearTimeout(impatience);
      this.deaf = 0;
      this.hear(JSON.parse(event.data));
    };
    const stopBeating = this.beat(socket);
    socket.onclose = (event) => {
      clearTimeout(impatience);
      stopBeating();
      if (this.socket === socket) this.lost(event.code);
    };
    if (socket.readyState === WebSocket.OPEN) socket.onopen();
  }

  /** Pings the server; a socket whose ping stays unanswered is given up. Returns how to stop. */
  beat(socket) {
    let pingedAt = 0;
    const timer = setInterval(() => {
      if (socket.readyState !== WebSocket.OPEN) return;
      if (pingedAt && this.heardAt < pingedAt) {
        if (Date.now() - pingedAt >= PONG_WITHIN) this.giveUp(socket);
        return;
      }
      pingedAt = Date.now();
      socket.send('{"ping": 1}');
    }, BEAT);
    return () => clearInterval(timer);
  }

  giveUp(socket) {
    this.tries = Math.max(this.tries, 1); // stale at once: it has been silent for seconds
    socket.onclose({ code: 0 });
    socket.onclose = socket.onmessage = null;
    socket.close();
  }

  /** Polls are held for long: whether the server lives is asked beside them. */
  beatBesidePolls(polls) {
    let failures = 0;
    const timer = setInterval(async () => {
      failures = (await isReachable(PONG_WITHIN)) ? 0 : failures + 1;
      if (this.polls !== polls || !failures) return;
      this.polls = undefined;
      polls.stop();
      clearInterval(timer);
      this.tries = Math.max(this.tries, 1);
      this.deaf = DEAF_SOCKETS;
      this.lost(0);
    }, BEAT * 2);
    return () => clearInterval(timer);
  }

  usePolls() {
    const probing = setInterval(() => this.probe(), PROBE_AFTER);
    const polls = poll(this.address, () => [...this.topics.values()], {
      hear: (message) => this.hear(message),
      well: () => this.well(),
      lost: (code) => {
        clearInterval(probing);
        stopBeating();
        if (this.polls !== polls) return;
        this.polls = undefined;
        this.deaf = DEAF_SOCKETS - 1;
        this.lost(code);
      },
    });
    this.polls = polls;
    const stopBeating = this.beatBesidePolls(polls);
  }

  /** The page stays current by polls meanwhile; a socket that opens takes their place. */
  probe() {
    const socket = new WebSocket(this.address);
    socket.onopen = () => {
      if (!this.polls) return socket.close();
      const { polls } = this;
      this.polls = undefined;
      polls.stop();
      this.deaf = DEAF_SOCKETS - 1;
      this.use(socket);
    };
  }

  subscribe(key) {
    const { topic, view, since } = this.topics.get(key);
    this.socket.send(JSON.stringify({ subscribe: topic, view, since }));
  }

  hear(message) {
    this.heardAt = Date.now();
    if (message.kind === "pong") return;
    const known = this.topics.get(keyOf(message.topic, message.view));
    if (known && message.seq) known.since = message.seq;
    this.receive(message); // first: a page that learns how far it is behind does not show live in between
    this.well();
  }

  well() {
    this.tries = 0;
    this.say("live", { way: this.polls ? "polls" : "socket" });
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
    if (state === this.state && state === "live" && more.way === this.way) return;
    if (state !== "live" && this.state === "live") this.liveUntil = Date.now();
    this.state = state;
    this.way = more.way;
    this.receive({ link: state, liveUntil: this.liveUntil, ...more });
  }

  close() {
    clearTimeout(this.timer);
    this.timer = undefined;
    const { socket, polls } = this;
    this.socket = this.polls = undefined;
    socket?.close();
    polls?.stop();
    this.state = "off";
  }
}
