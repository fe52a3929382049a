/* Whether the server answers at all: its liveness page touches no database. */

/** Resolves to true when the server answers within so many milliseconds. */
export async function isReachable(milliseconds) {
  try {
    const response = await fetch("/healthz", { cache: "no-store", signal: AbortSignal.timeout(milliseconds) });
    return response.ok;
  } catch {
    return false;
  }
}
