/* Forms that ask the server as they are filled: an answer to what stood there before must not undo what was chosen since.

   Their questions wait for one another (hx-sync "queue last"): one that is cut off would be an error in the browser's log. */
const changes = new WeakMap(); // of each form, how often it was changed
const asked = new WeakMap(); // of each question, how often by then

export function startQuestions() {
  for (const kind of ["input", "change"]) document.addEventListener(kind, note, true); // before whoever asks
  document.addEventListener("htmx:beforeRequest", ({ detail }) => asked.set(detail.xhr, seen(detail.elt)));
  document.addEventListener("htmx:beforeSwap", ({ detail }) => {
    const { elt, verb } = detail.requestConfig;
    if (verb === "post" && elt.matches("[hx-sync]") && asked.get(detail.xhr) !== seen(elt)) detail.shouldSwap = false;
  });
}

function note({ target }) {
  const form = target.closest?.("form");
  if (form) changes.set(form, seen(form) + 1);
}

function seen(element) {
  return changes.get(element.closest("form")) ?? 0;
}
