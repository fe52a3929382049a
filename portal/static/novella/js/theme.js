/* The theme changes at once and is kept with the person, so that the next page comes in it. */
export function startTheme() {
  const form = document.querySelector("[data-theme-form]");
  form?.addEventListener("submit", async (event) => {
    const button = event.submitter;
    if (!button?.value) return;
    event.preventDefault();
    document.documentElement.dataset.theme = button.value;
    for (const other of form.querySelectorAll("[aria-pressed]")) other.setAttribute("aria-pressed", String(other === button));
    const body = new FormData(form, button);
    try {
      await fetch(form.action, { method: "POST", body, headers: { "HX-Request": "true" } });
    } catch {
      /* Offline: the choice holds for this page. */
    }
  });
}
