/* Starts what a page needs. Everything here makes pages nicer; none of it is needed to read them. */
import { startReauthentication } from "./reauthentication.js";
import { startClock } from "./clock.js";
import { startConsole } from "./console.js";
import { startCopying, startSaving } from "./copy.js";
import { startDrawer } from "./drawer.js";
import { startDialogs } from "./dialogs.js";
import { startFleet } from "./fleet.js";
import { startForms } from "./forms.js";
import { startKeymap } from "./keymap.js";
import { startKeys } from "./keys.js";
import { startLive } from "./live/page.js";
import { startMetrics } from "./metrics.js";
import { startPalette } from "./palette.js";
import { startQuestions } from "./questions.js";
import { startScrollers } from "./scrollers.js";
import { startSession } from "./session.js";
import { startTables } from "./tables.js";
import { startTheme } from "./theme.js";
import { startTray } from "./tray.js";
import { startTriage } from "./triage.js";
import { startWaiting } from "./waiting.js";
import { startWindows } from "./window.js";
import { startWorkflows } from "./workflows/start.js";

for (const start of [startTheme, startDialogs, startDrawer, startForms, startWindows, startTables, startScrollers, startFleet, startKeymap, startKeys, startCopying, startSaving, startConsole, startClock, startWorkflows, startMetrics, startPalette, startQuestions, startWaiting, startReauthentication, startSession, startLive, startTray, startTriage]) start();

/** Show what only works with scripts; again for whatever arrives later. */
function showScripted(root) {
  for (const element of root.querySelectorAll("[data-needs-script]")) element.hidden = false;
}
showScripted(document);
document.addEventListener("novella:changed", () => showScripted(document));
document.addEventListener("htmx:afterSwap", () => document.dispatchEvent(new CustomEvent("novella:changed")));

/** The navigation of operators is longer than most screens: show where one is. */
const here = document.querySelector(".nav [aria-current]");
if (here) here.closest(".nav").scrollTop = here.offsetTop - here.closest(".nav").clientHeight / 2;

// From here on the keyboard is heard; tests wait for it.
document.documentElement.dataset.ready = "";
