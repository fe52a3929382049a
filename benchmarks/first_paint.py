"""Time to first paint of a list page in a real browser, compared with a one-word page of the same web process.

    python benchmarks/first_paint.py [servers] [rounds]

One web process serves like `manage.py web`; servers of one project are in ten cells. Headless Chromium, with a normal
cache, opens each page in turns with the empty one. The browser itself reports its first paint, counted from the start
of the navigation.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.api_show import EMPTY, Web
from benchmarks.results import Figure, record
from tests.chromium import CHROMIUM, FLAGS

SERVERS = 10_000
ROUNDS = 15
BAR_MS = 500.0
PAGES = ("/", "/servers", "/workflows", "/hosts", "/volumes", "/images", "/networks", "/audit")
FIRST_PAINT = """() => new Promise((resolve) => new PerformanceObserver((list) =>
    list.getEntriesByName("first-contentful-paint").forEach((one) => resolve(one.startTime))
).observe({ type: "paint", buffered: true }))"""


def main(servers: int = SERVERS, rounds: int = ROUNDS) -> int:
    with tempfile.TemporaryDirectory(prefix="novella-bench-", ignore_cleanup_errors=True) as name:
        web = Web(Path(name), servers)
        try:
            painted = watch(web, rounds)
        finally:
            web.stop()
    empty = statistics.median(painted.pop(EMPTY))
    print(f"{servers:,} servers, {rounds} rounds; a page that says one word is painted after {empty:.0f} ms")
    record("first_paint", (_figure(path, statistics.median(times)) for path, times in painted.items()))
    for path, times in painted.items():
        middle = statistics.median(times)
        ratio = middle / empty
        print(f"{path:12s} {middle:6.0f} ms (bar {BAR_MS:.0f}), at most {max(times):.0f}, {ratio:.1f} of that page")
    return int(any(statistics.median(times) > BAR_MS for times in painted.values()))


def _figure(path: str, middle: float) -> Figure:
    return Figure(f"`{path}`", f"{middle:.0f} ms", f"{BAR_MS:.0f} ms", round(middle / BAR_MS, 2), "≤ 1")


def watch(web: Web, rounds: int) -> dict[str, list[float]]:
    """Return milliseconds to the first paint of each page, without the first round, which fills caches."""
    from playwright.sync_api import sync_playwright

    here = f"http://127.0.0.1:{web.port}"
    painted: dict[str, list[float]] = {path: [] for path in (EMPTY, *PAGES)}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        context = browser.new_context(base_url=here, viewport={"width": 1440, "height": 900})
        context.add_cookies([{**web.cookie, "url": here}])
        page = context.new_page()
        for number in range(rounds + 1):
            for path, times in painted.items():
                page.goto(path)
                seen = page.evaluate(FIRST_PAINT)
                times += [seen] if number else []
        browser.close()
    return painted


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
