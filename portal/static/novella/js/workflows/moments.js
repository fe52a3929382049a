/* The slider over the events of a workflow: what it is moved to is an address, and the page as of then is fetched. */
const PAUSE = 160;
let waiting;

export function startMoments() {
  document.addEventListener("input", ({ target }) => {
    if (!target.matches("[data-as-of]")) return;
    const out = target.form.querySelector("output");
    if (out) out.textContent = `event ${target.value} of ${target.max}`;
    clearTimeout(waiting);
    waiting = setTimeout(() => go(target), PAUSE);
  });
}

function go(slider) {
  const address = new URL(slider.form.action, location.href);
  if (slider.value !== slider.max) address.searchParams.set("as_of", slider.value);

  location.assign(address);
}
