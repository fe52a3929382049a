/* Dialogs and menus. A link to a page that asks first opens the dialog with the same question instead. */
export function startDialogs() {
  document.addEventListener("click", (event) => {
    const opener = event.target.closest("[data-open-dialog], a[data-dialog]");
    if (opener && !event.ctrlKey && !event.metaKey && !event.shiftKey) {
      const dialog = document.getElementById(opener.dataset.openDialog ?? opener.dataset.dialog);
      if (dialog) {
        event.preventDefault();
        close(opener.closest("details[data-menu]")); // the focus comes back to what is seen then
        dialog.showModal();
      }
    }
    if (event.target.closest("[data-close-dialog]")) event.target.closest("dialog")?.close();
    if (event.target instanceof HTMLDialogElement) event.target.close();
    for (const menu of document.querySelectorAll("details[data-menu][open]")) {
      if (!menu.contains(event.target)) menu.removeAttribute("open");
    }
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") close(document.querySelector("details[data-menu][open]"));
  });
  // A menu that is left by keyboard would stay open over what has the focus now.
  document.addEventListener("focusout", ({ target, relatedTarget }) => {
    const menu = target.closest?.("details[data-menu][open]");
    if (menu && relatedTarget && !menu.contains(relatedTarget)) menu.removeAttribute("open");
  });
  // What had the focus may be gone from a dialog that was answered: it goes to the way out, where the answer wants none.
  document.addEventListener("htmx:afterSettle", ({ target }) => {
    const dialog = target.closest?.("dialog[open]");
    if (dialog && !dialog.contains(document.activeElement)) dialog.querySelector("[data-close-dialog]")?.focus();
  });
}

function close(menu) {
  if (!menu) return;
  menu.removeAttribute("open");
  menu.querySelector("summary").focus();
}
