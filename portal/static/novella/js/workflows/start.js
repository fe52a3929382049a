/* What only the pages of workflows need. */
import { startDrawer } from "./drawer.js";
import { startWorkflowKeys } from "./keys.js";
import { startLeases } from "./leases.js";
import { startLog } from "./log.js";
import { startHistory } from "./history.js";
import { startQueue } from "./queue.js";
import { startWhy } from "./why.js";
import { startZoom } from "./zoom.js";

export function startWorkflows() {
  for (const start of [startDrawer, startWhy, startLeases, startLog, startHistory, startQueue, startWorkflowKeys, startZoom]) start();
}
