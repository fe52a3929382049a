/* Dialogs and menus. A link to a page that asks first opens the dialog with the same question instead. */
export function startDialogs() {
  document.addEventListener("click", (event) => {
    const opener = event.target.closest("[data-open-dialog], a[data-dialog]");
    if (opener && !event.ctrlKey && !event.metaKey && !event.shiftKey) {
      const dialog = document.getElementById(opener.dataset.openDialog ?? opener.dataset.dialog);
      if (dialog) {
        event.preventDefault();
        opener.closest("details[data-menu]")?.removeAttribute("open");
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
    const menu = document.querySelector("details[data-menu][open]");
    if (event.key === "Escape" && menu) {
      menu.removeAttribute("open");
      menu.querySelector("summary").focus();
    }
  });
}
