/* For networks that let no sockets through: a request that is answered when something happens, and then the next. */
const LEAST_PAUSE = 250;
const PATIENCE = 40000; // longer than the server holds a request

/** Ask for the topics that `topics()` gives until `stop()`; `again()` when they are others. */
export function poll(address, topics, { hear, well, lost }) {
  const url = new URL(address);
  url.protocol = url.protocol.replace("ws", "http");
  url.pathname += "/poll";
  let isStopped = false;
  let isFirst = true;
  let request;

  async function ask() {
    request = new AbortController();
    const { signal } = request;
    const impatience = setTimeout(() => request.abort(), PATIENCE);
    const body = JSON.stringify({ first: isFirst, follow: topics().map(({ topic, view, since }) => ({ topic, view, since })) });
    isFirst = false;
    try {
      const headers = { "Content-Type": "application/json" };
      const response = await fetch(url, { method: "POST", headers, body, signal });
      return response.ok ? await response.json() : undefined;
    } finally {
      clearTimeout(impatience);
    }
  }

  async function go() {
    while (!isStopped) {
      const answer = await ask().catch(() => undefined);
      if (isStopped) return;
      if (!answer && isFirst) continue; // asked anew in the middle
      if (!answer || answer.code) {
        isStopped = true;
        lost(answer?.code);
        return;
      }
      well();
      answer.messages.forEach(hear);
      await new Promise((done) => setTimeout(done, LEAST_PAUSE));
    }
  }

  go();
  return {
    again() {
      isFirst = true;
      request?.abort();
    },
    stop() {
      isStopped = true;
      request?.abort();
    },
  };
}
