/* Metrics of a server: counters are read repeatedly while the page is visible, and drawn as rates per second. */
import { fetchWhole, parsed } from "./answers.js";
import { gettext, number } from "./words.js";

const EVERY = 2000;
const KEPT = 150;
const LEAST_SHOWN = 30; // readings: so wide is a chart that has begun just now
const WIDTH = 300;
const HEIGHT = 60;
const MB = 1 << 20;
let before;
let seen = { cpu: [], memory: [], disk: [], network: [] };

export function startMetrics() {
  if (!document.querySelector("[data-metrics]")) return;
  read();
  setInterval(() => document.hidden || read(), EVERY);
  document.addEventListener("novella:changed", draw);
}

async function read() {
  const place = document.querySelector("[data-metrics]");
  if (!place) return;
  const answer = await fetchWhole(place.dataset.metrics);
  const metrics = answer?.ok && !answer.redirected ? parsed(answer.text) : undefined;
  say(place, metrics?.why_none ?? (metrics ? "" : gettext("The host doesn't respond now.")));
  if (!metrics || metrics.why_none) return;
  if (before && metrics.at > before.at) keep(metrics, metrics.at - before.at);
  before = metrics;
  draw();
}

/** A counter that has gone back began anew with its guest: that turn says nothing. */
function keep(metrics, seconds) {
  const rate = (name) => (name in metrics && metrics[name] >= before[name] ? (metrics[name] - before[name]) / seconds : undefined);
  const cpu = rate("cpu_seconds");
  add("cpu", [cpu && Math.min(100, (100 * cpu) / metrics.vcpus)]);
  add("memory", [metrics.memory_mb]);
  add("disk", [rate("read_bytes"), rate("written_bytes")]);
  add("network", [rate("received_bytes"), rate("sent_bytes")]);
}

function add(id, values) {
  if (values.every((value) => value === undefined)) return;
  seen[id] = [...seen[id], values.map((value) => value ?? 0)].slice(-KEPT);
}

function draw() {
  for (const [id, points] of Object.entries(seen)) {
    const chart = document.querySelector(`[data-chart="${id}"]`);
    if (!chart || !points.length) continue;
    const most = Math.max(...points.flat());
    const top = id === "cpu" ? 100 : id === "memory" ? before.memory_limit_mb : most || 1;
    chart.querySelectorAll("polyline").forEach((line, at) => line.setAttribute("points", points.map((values, index) => point(values[at], index, points.length, top)).join(" ")));
    put(chart.querySelector("[data-chart-top]"), words(id, top));
    const now = points.at(-1).map((value) => words(id, value)).join(" / ");
    put(document.querySelector(`[data-figure="${id}"] [data-figure-now]`), now);
    put(document.querySelector(`[data-figure="${id}"] [data-figure-most]`), words(id, most));
    chart.setAttribute("aria-label", `${chart.querySelector("figcaption span").textContent}: ${now}`);
  }
}

/** The newest at the right edge. */
function point(value, index, count, top) {
  if (value === undefined) return "";
  const x = WIDTH - ((count - 1 - index) * WIDTH) / (Math.max(count, LEAST_SHOWN) - 1);
  return `${x.toFixed(1)},${((1 - value / top) * (HEIGHT - 2) + 1).toFixed(1)}`;
}

function words(id, value) {
  if (id === "cpu") return `${number(value, 1)} %`;
  if (id === "memory") return `${number(value)} MB`;
  return value < MB ? gettext("{amount} KB/s", { amount: number(value / 1024, 1) }) : gettext("{amount} MB/s", { amount: number(value / MB, 1) });
}

function say(place, text) {
  put(place.querySelector("[data-metrics-state]"), text);
}

function put(element, text) {
  if (element && element.textContent !== text) element.textContent = text;
}
