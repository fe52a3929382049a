/* The theme changes at once and is kept with the person, so that the next page comes in it. */
import { fetchWhole } from "./answers.js";
export function startTheme() {
  const form = document.querySelector("[data-theme-form]");
  form?.addEventListener("submit", async (event) => {
    const button = event.submitter;
    if (!button?.value) return;
    event.preventDefault();
    document.documentElement.dataset.theme = button.value;
    for (const other of form.querySelectorAll("[aria-pressed]")) other.setAttribute("aria-pressed", String(other === button));
    const body = new FormData(form, button);
    await fetchWhole(form.action, { method: "POST", body }); // offline, the choice holds for this page
  });
}
