/* The serial console follows its end, unless the person reads further up or has selected something. */
const NEAR = 24;

export function startConsole() {
  toEnd();
  document.addEventListener("scroll", (event) => {
    if (event.target instanceof Element && event.target.matches("[data-follow]")) showPill();
  }, true);
  document.addEventListener("click", (event) => {
    if (event.target.closest("[data-to-latest]")) toEnd();
  });
}

export function isReading(element) {
  const selection = getSelection();
  const hasSelected = selection && !selection.isCollapsed && element.contains(selection.anchorNode);
  return hasSelected || element.scrollHeight - element.scrollTop - element.clientHeight > NEAR;
}

/** Called around an update: remembers whether the end was in view, and goes there again. */
export function holdingConsole(update) {
  const before = document.querySelector("[data-follow]");
  const stays = before ? isReading(before) : false;
  const top = before?.scrollTop ?? 0;
  update();
  const after = document.querySelector("[data-follow]");
  if (!after) return;
  after.scrollTop = stays ? top : after.scrollHeight;
  showPill();
}

function toEnd() {
  const element = document.querySelector("[data-follow]");
  if (element) element.scrollTop = element.scrollHeight;
  showPill();
}

function showPill() {
  const element = document.querySelector("[data-follow]");
  const pill = document.querySelector("[data-to-latest]");
  if (element && pill) pill.hidden = element.scrollHeight - element.scrollTop - element.clientHeight <= NEAR;
}
