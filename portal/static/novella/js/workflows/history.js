/* The slider over the events of a workflow: what it is moved to is an address, and the page as of then is fetched. */
import { gettext } from "../words.js";
const PAUSE = 160;
let waiting;

export function startHistory() {
  document.addEventListener("input", ({ target }) => {
    if (!target.matches("[data-as-of]")) return;
    const out = target.form.querySelector("output");
    if (out) out.textContent = gettext("event {place} of {count}", { place: target.value, count: target.max });
    clearTimeout(waiting);
    waiting = setTimeout(() => go(target), PAUSE);
  });
}

function go(slider) {
  const address = new URL(slider.form.action, location.href);
  if (slider.value !== slider.max) address.searchParams.set("as_of", slider.value);

  location.assign(address);
}
