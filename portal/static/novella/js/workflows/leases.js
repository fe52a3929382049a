/* The bar of a lease drains as its time passes; heartbeats fill it again, and make no event: they are read from time to time. */
import { fetchWhole } from "../answers.js";
import { morph } from "../live/morph.js";

const READ_EVERY = 5000;

export function startLeases() {
  if (!document.querySelector("[data-lease-until]")) return;
  setInterval(drain, 500);
  setInterval(read, READ_EVERY);
}

function isIdle() {
  return document.hidden || document.documentElement.hasAttribute("data-stale");
}

function drain() {
  if (isIdle()) return;
  for (const bar of document.querySelectorAll("[data-lease-until]")) {
    const left = (Date.parse(bar.dataset.leaseUntil) - Date.now()) / 1000;
    const share = Math.min(1, Math.max(0, left / Number(bar.dataset.leaseTtl)));
    bar.querySelector("rect").setAttribute("width", `${(share * 100).toFixed(1)}%`);
    bar.dataset.tone = share > 0.5 ? "good" : share > 0 ? "waiting" : "bad";
  }
}

async function read() {
  const before = document.querySelector(".leases");
  if (isIdle() || !before) return;
  const answer = await fetchWhole(location.href);
  if (!answer?.ok || answer.redirected) return;
  const after = new DOMParser().parseFromString(answer.text, "text/html").querySelector(".leases");
  if (after && before.isConnected) morph(before, document.importNode(after, true));
}
