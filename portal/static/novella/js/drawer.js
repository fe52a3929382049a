/* The drawer: a resource beside its list, where there is room for both; its page where there is not. */
import { fetchWhole } from "./answers.js";
import { bare, bones } from "./waiting.js";
const WIDE = 1000;
let opener;
let asked = 0; // only what was asked for last is shown

export function startDrawer() {
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[data-drawer]");
    const is_plain = !event.ctrlKey && !event.metaKey && !event.shiftKey && event.button === 0;
    if (link && is_plain && innerWidth >= WIDE && link.closest("[data-list]") && drawer()) {
      event.preventDefault();
      open(link);
    }
    if (event.target.closest("[data-close-drawer]")) close();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && drawer() && !drawer().hidden && !document.querySelector("dialog[open], details[data-menu][open]")) close();
  });
}

function drawer() {
  return document.getElementById("drawer");
}

async function open(link) {
  const mine = ++asked;
  const body = drawer().querySelector("[data-drawer-body]");
  const come = bare(body, () => {
    if (!drawer().hidden) return; // what it shows stays until the next is there
    body.replaceChildren(bones());
    drawer().hidden = false;
  });
  const answer = await fetchWhole(link.href);
  come();
  if (mine !== asked) return;
  if (!answer?.ok || answer.redirected || answer.status === 204) {
    location.assign(link.href);
    return;
  }
  body.innerHTML = answer.text;
  drawer().querySelector("[data-drawer-page]").href = link.href;
  drawer().hidden = false;
  opener = link;
  document.dispatchEvent(new CustomEvent("novella:changed"));
  body.querySelector("h1")?.focus();
}

function close() {
  asked++;
  if (!drawer() || drawer().hidden) return;
  drawer().hidden = true;
  drawer().querySelector("[data-drawer-body]").replaceChildren();
  if (opener?.isConnected) opener.focus();
  else document.getElementById("main")?.focus();
}
