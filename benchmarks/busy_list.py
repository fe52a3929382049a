"""Usability of a list of 10,000 servers while 500 of them change each second, compared with the same list at rest.

    python benchmarks/busy_list.py [servers] [changes per second] [seconds]

One web process serves like `manage.py web`, another process changes servers in ten cells, each change with its event,
and headless Chromium shows the list in one long window, read to its end. First nothing changes, then everything does.
Meanwhile the benchmark scrolls and types into the filter. It measures the pauses between frames, the longest task of
the page's thread, the time until a typed letter appears and until its result appears, and the memory of the page's
process after a garbage collection. The browser's tools keep each response in that process, so a page that sends as many
requests and discards the responses is measured too. At the end everything displayed must match the databases.
"""

from __future__ import annotations

import json
import os
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.api_show import Web
from benchmarks.bench_cloud import CELLS, uuid_of
from tests.chromium import CHROMIUM, FLAGS

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

SERVERS, CHANGES, SECONDS = 10_000, 500, 120
BEATS = 10  # transactions of the other process per second
CALM_SECONDS = 20
BAR_FRAME_MS, BAR_TASK_MS, BAR_LETTER_MS, BAR_GROWTH = 100.0, 200.0, 100.0, 0.2
PATIENCE_MS = 60_000
WORDS = ("server-99", "server-12", "server-77")
STATE = "SELECT vm_state FROM cell_db_instance WHERE uuid = ?"
STATE_WORDS = {"active": "active", "paused": "paused"}
SHOWN = """() => [...document.querySelectorAll("[data-rows] > [data-row]")].map((row) =>
    [row.id.replace("server-", ""), row.querySelector(".state-word").textContent])"""
WATCH = """() => {
    globalThis.seen = { frames: [], tasks: [], letters: [] };
    let last = performance.now();
    const tick = (now) => { seen.frames.push(now - last); last = now; requestAnimationFrame(tick); };
    requestAnimationFrame(tick);
    new PerformanceObserver((list) => seen.tasks.push(...list.getEntries().map((one) => one.duration)))
        .observe({ type: "longtask" });
    addEventListener("input", ({ timeStamp }) =>
        requestAnimationFrame(() => setTimeout(() => seen.letters.push(performance.now() - timeStamp))), true);
}"""
NEW = "() => { const found = seen; globalThis.seen = { frames: [], tasks: [], letters: [] }; return found; }"
ASK = """async (times) => {
    for (let i = 0; i < times; i += 1)
        await (await fetch(location.href, { headers: { "HX-Request": "true" } })).text();
}"""
IS_FILTERED = """(word) => {
    const names = [...document.querySelectorAll("[data-rows] .name")];
    return names.length && names.every((one) => one.textContent.includes(word));
}"""


# -- changes --------------------------------------------------------------------------------------------------


def change(folder: Path, servers: int, per_second: int) -> None:
    """Pause and resume servers in turns until the input ends; prints the number of changes."""
    os.environ |= {"NOVELLA_DATA": str(folder), "NOVELLA_LOG_LEVEL": "ERROR"}
    os.environ |= {"NOVELLA_CELLS": ",".join(CELLS), "DJANGO_SETTINGS_MODULE": "portal.settings"}
    import django

    django.setup()
    ended = threading.Event()

    def wait() -> None:
        sys.stdin.read()
        ended.set()

    threading.Thread(target=wait, daemon=True).start()
    each, count = servers // len(CELLS), max(1, per_second // BEATS)
    beat, began = 0, time.monotonic()
    while not ended.wait(max(0.0, began + beat / BEATS - time.monotonic())):
        place, first = beat % len(CELLS), beat // len(CELLS) * count
        mine = [uuid_of((first + at) % each * len(CELLS) + place) for at in range(count)]
        _turn(CELLS[place], mine, is_paused=first // each % 2 == 0)
        beat += 1
    print(json.dumps({"changes": beat * count, "seconds": time.monotonic() - began}), flush=True)


def _turn(alias: str, uuids: list[Any], *, is_paused: bool) -> None:
    from conductor import events
    from conductor.cell_db.models import Instance
    from conductor.db.transactions import write_tx

    with write_tx(alias):
        found = Instance.objects.using(alias).filter(uuid__in=uuids)
        found.update(vm_state="paused" if is_paused else "active", power_state=3 if is_paused else 1)
        for uuid, project_id in found.values_list("uuid", "project_id"):
            events.append(alias, events.about_instance(uuid, project_id), "instance.updated")


# -- the browser ----------------------------------------------------------------------------------------------


@dataclass
class Look:
    """Measurements of some seconds: milliseconds, and megabytes of the page's memory over time."""

    frames: list[float]
    tasks: list[float]
    letters: list[float]
    megabytes: list[float]
    nodes: int
    rows: int

    def words(self) -> str:
        late = sum(one > BAR_FRAME_MS for one in self.frames)
        return (
            f"frames p99 {at(self.frames, 0.99):.0f} ms, longest {max(self.frames):.0f}, {late} of {len(self.frames)}"
            f" over {BAR_FRAME_MS:.0f}; longest task {max(self.tasks, default=0):.0f} ms; a letter is there after"
            f" {statistics.median(self.letters):.0f} ms, at most {max(self.letters):.0f};"
            f" {' '.join(f'{one:.0f}' for one in self.megabytes)} MB, {self.rows:,} rows known, {self.nodes:,} nodes"
        )

    @property
    def grown(self) -> float:
        """Growth in megabytes."""
        return self.megabytes[-1] - self.megabytes[0]

    def is_usable(self, kept: float) -> bool:
        """Return whether the list is usable. `kept`: megabytes of the growth that do not belong to the page."""
        share = (self.grown - kept) / self.megabytes[0]
        is_quick = at(self.frames, 0.99) <= BAR_FRAME_MS and max(self.letters) <= BAR_LETTER_MS
        return is_quick and max(self.tasks, default=0) <= BAR_TASK_MS and share <= BAR_GROWTH


def at(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def open_list(page: Page) -> None:
    """Open the whole list in the window, with a live connection."""
    page.goto("/servers?rows=10000&all=1")
    page.locator("[data-link-chip][data-link=live]").wait_for()
    while not page.locator("[data-window-words]").inner_text().startswith(("All", "The first")):
        scroll_to(page, 1)
        page.wait_for_timeout(50)
    scroll_to(page, 0)
    page.locator("[data-rows] [data-pick]").nth(1).check()


def scroll_to(page: Page, share: float) -> None:
    page.locator("[data-windowed]").evaluate("(box, share) => { box.scrollTop = box.scrollHeight * share; }", share)


def look(page: Page, seconds: float) -> Look:
    """Scroll and type for so long; then set the filter a few times and clear it again."""
    page.evaluate(NEW)
    began, megabytes = time.monotonic(), [memory_of(page)]
    way = 1
    while (spent := time.monotonic() - began) < seconds:
        page.locator("#search").press_sequentially("web-1", delay=40)
        page.locator("#search").clear()
        page.mouse.move(700, 600)
        for _ in range(30):
            page.mouse.wheel(0, way * 400)
            page.wait_for_timeout(30)
        way = -way if spent // 20 % 2 else way
        if spent > len(megabytes) * seconds / 4:
            megabytes.append(memory_of(page))
    seen = page.evaluate(NEW)
    megabytes.append(memory_of(page))
    nodes = page.evaluate("document.querySelectorAll('*').length")
    rows = int(page.locator("[data-windowed] table").get_attribute("aria-rowcount") or 0) - 1
    return Look(seen["frames"], seen["tasks"], seen["letters"], megabytes, nodes, rows)


def memory_of(page: Page) -> float:
    """Return the process's megabytes after a garbage collection: hidden rows are text outside of the script heap."""
    session = page.context.new_cdp_session(page)
    session.send("HeapProfiler.collectGarbage")
    session.detach()
    assert page.context.browser is not None
    machine = page.context.browser.new_browser_cdp_session()
    pids = [one["id"] for one in machine.send("SystemInfo.getProcessInfo")["processInfo"] if one["type"] == "renderer"]
    machine.detach()
    return max(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in pids) * 4096 / 1e6


def kept_by_who_looks_on(context: BrowserContext, answers: int) -> float:
    """Return the megabytes by which a page grows that requests the first piece so often and discards it."""
    page = context.new_page()
    page.goto("/servers?rows=200&all=1")
    before = memory_of(page)
    page.evaluate(ASK, answers)
    grown = memory_of(page) - before
    page.close()
    return grown


def filter_and_back(page: Page) -> list[float]:
    """Return milliseconds from the last typed letter to the matching rows."""
    taken = []
    for word in WORDS:
        page.locator("#name-filter").press_sequentially(word, delay=40)
        began = time.monotonic()
        page.wait_for_function(IS_FILTERED, arg=word)
        taken.append((time.monotonic() - began) * 1000)
        with page.expect_response("**/servers?*"):
            page.locator("#name-filter").clear()
        page.locator("[data-windowed]").wait_for()
    return taken


def is_true(page: Page, folder: Path) -> bool:
    """Return whether, after the last change, the page shows the databases' values within the test's patience."""
    page.wait_for_timeout(3000)
    shown = page.evaluate(SHOWN)
    with ExitStack() as stack:
        cells = [stack.enter_context(closing(sqlite3.connect(folder / f"{cell}.sqlite3"))) for cell in CELLS]
        for uuid, word in shown:
            found = [row for cell in cells for row in cell.execute(STATE, (UUID(uuid).hex,))]
            if [(STATE_WORDS[state],) for (state,) in found] != [(word,)]:
                return False
    return len(shown) > 10


def main(servers: int = SERVERS, changes: int = CHANGES, seconds: int = SECONDS) -> int:
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory(prefix="novella-bench-", ignore_cleanup_errors=True) as name:
        web = Web(Path(name), servers)
        try:
            with sync_playwright() as playwright:
                browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
                missed = watch(browser, web, Path(name), (servers, changes, seconds))
                browser.close()
        finally:
            web.stop()
    print(f"load of the machine: {os.getloadavg()[0]:.0f}")
    return int(missed)


def watch(browser: Browser, web: Web, folder: Path, amounts: tuple[int, int, int]) -> bool:
    servers, changes, seconds = amounts
    here = f"http://127.0.0.1:{web.port}"
    context = browser.new_context(base_url=here, viewport={"width": 1440, "height": 900})
    context.set_default_timeout(PATIENCE_MS)
    context.add_cookies([{**web.cookie, "url": here}])
    page = context.new_page()
    page.add_init_script(f"({WATCH})()")
    open_list(page)
    calm = look(page, CALM_SECONDS)
    print(f"{servers:,} rows at rest: {calm.words()}", flush=True)
    requested: list[str] = []
    page.on("requestfinished", lambda one: requested.append(one.url) if "/servers?" in one.url else None)
    command = [sys.executable, str(Path(__file__).resolve()), "change", str(folder), str(servers), str(changes)]
    before = web.processor_seconds()
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as changer:
        busy = look(page, seconds)
        count = len(requested)
        answers = filter_and_back(page)
        body = json.loads(changer.communicate()[0])
    share = (web.processor_seconds() - before) / body["seconds"]
    print(f"{body['changes'] / body['seconds']:.0f} changes/s for {body['seconds']:.0f} s: {busy.words()}")
    print(f"the filter's answer after {statistics.median(answers):.0f} ms, at most {max(answers):.0f};", end=" ")
    is_current = is_true(page, folder)
    print(f"the web process took {share:.0%} of a processor; all rows are {'' if is_current else 'NOT '}as they are")
    page.close()
    kept = kept_by_who_looks_on(context, count)
    print(f"its process grew by {busy.grown:.0f} MB; one that throws as many answers away ({count}) by {kept:.0f} MB")
    return not (busy.is_usable(kept) and is_current)


if __name__ == "__main__":
    arguments: list[Any] = sys.argv[1:]
    if arguments[:1] == ["change"]:
        change(Path(arguments[1]), int(arguments[2]), int(arguments[3]))
    else:
        sys.exit(main(*map(int, arguments)))
