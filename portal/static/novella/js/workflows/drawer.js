/* A step beside its workflow. Its link leads to a page of its own where there is no room, or no script. */
import { fetchWhole } from "../answers.js";
import { morph, parse } from "../live/morph.js";
import { bare, bones } from "../waiting.js";

const LEAST_WIDTH = 1000;
const PAUSE = 600;
let opener;
let refreshing;
let asked = 0; // only what was asked for last is shown

export function startDrawer() {
  const drawer = document.getElementById("step-drawer");
  document.addEventListener("novella:changed", () => {
    clearTimeout(refreshing);
    if (document.querySelector("[data-step-url]")) refreshing = setTimeout(refresh, PAUSE);
  });
  if (!drawer) return;
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[data-step], a[data-step-close]");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button !== 0) return;
    if (link.matches("[data-step-close]")) {
      event.preventDefault();
      close(drawer);
    } else if (innerWidth >= LEAST_WIDTH) {
      event.preventDefault();
      if (!drawer.contains(link)) opener = link;
      open(drawer, link.href);
    }
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && !drawer.hidden && !document.querySelector("dialog[open], [popover]:popover-open")) close(drawer);
  });
  addEventListener("popstate", () => {
    const wanted = new URL(location.href).searchParams.get("step");
    if (wanted) open(drawer, addressOf(wanted), { isBack: true });
    else close(drawer, { isBack: true });
  });
}

async function open(drawer, address, { isBack = false } = {}) {
  const mine = ++asked;
  const body = drawer.querySelector("[data-step-body]");
  const come = bare(body, () => {
    if (!drawer.hidden) return; // what it shows stays, and the keys for it, until the next is there
    body.replaceChildren(bones());
    drawer.hidden = false;
  });
  const html = await fetchPiece(address);
  come();
  if (mine !== asked) return;
  if (html === undefined) {
    location.assign(address);
    return;
  }
  body.replaceChildren(...parse(html));
  drawer.hidden = false;
  if (!isBack) {
    const here = new URL(location.href);
    here.searchParams.set("step", new URL(address).searchParams.get("try") ?? "");
    history.pushState(null, "", here);
  }
  const title = drawer.querySelector("h2");
  title.tabIndex = -1;
  title.focus({ preventScroll: true });
}

function close(drawer, { isBack = false } = {}) {
  asked++;
  if (drawer.hidden) return;
  drawer.hidden = true;
  drawer.querySelector("[data-step-body]").replaceChildren();
  if (!isBack) {
    const here = new URL(location.href);
    here.searchParams.delete("step");
    history.pushState(null, "", here);
  }
  if (opener?.isConnected) opener.focus({ preventScroll: true });
}

/** What is shown goes on while it is read; what was opened or picked in it stays. */
async function refresh() {
  const shown = document.querySelector("[data-step-url]");
  const html = shown && (await fetchPiece(shown.dataset.stepUrl));
  if (html && shown.isConnected) morph(shown, parse(html)[0]);
}

async function fetchPiece(address) {
  const answer = await fetchWhole(address);
  return answer?.ok && !answer.away ? answer.text : undefined;
}

/** step-1a2b3c4d-do-1-2-1 → …/step/1a2b3c4d-2?try=step-1a2b3c4d-do-1-2-1 */
function addressOf(anchor) {
  const [, run, , , index] = anchor.split("-");
  const base = location.pathname.split("/").slice(0, 3).join("/");
  return `${location.origin}${base}/step/${run}-${index}?try=${encodeURIComponent(anchor)}`;
}
