"""Helpers for tests of real guests: the boot sector as an image, and checks of processes, files and consoles."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from conductor.core.compute_driver import ComputeDriver
from conductor.core.consoles import ConsoleKind
from tests.guests import ImageShelf, boot_disk, image_of
from tests.waiting import Stopwatch, wait_until

PROJECT = Path(__file__).resolve().parents[2]
SECONDS = 240.0
# A boot sector overhears the power button.
QUICK = {"shutdown_seconds": 0.0}
DISK = boot_disk()
IMAGE = image_of("boot-sector", DISK)
SHELF = ImageShelf({IMAGE.image_id: DISK})


def state_dir(driver: ComputeDriver) -> Path:
    return Path(driver.options["state_dir"])


def files_of(driver: ComputeDriver, uuid: str) -> list[Path]:
    return [path for path in state_dir(driver).rglob("*") if uuid in path.name]


def ask(driver: ComputeDriver, uuid: str, words: bytes, *answers: bytes) -> bytes:
    """Return the output of a guest's shell for `words`, once all `answers` came, in order.

    It is read at once: QEMU blocks after a few unread bytes.
    """
    output, heard = b"", 0
    watch = Stopwatch()
    with driver.open_console(uuid, ConsoleKind.SERIAL) as line:
        line.settimeout(1.0)
        line.sendall(words)
        for answer in answers:
            while answer not in output[heard:]:
                assert watch.seconds < SECONDS, f"{answer!r} is missing after {SECONDS} seconds: {output[-2000:]!r}"
                with suppress(TimeoutError):
                    output += line.recv(4096)
            heard = output.index(answer, heard) + len(answer)
    return output


def wait_for(driver: ComputeDriver, uuid: str, words: bytes, *, after: int = 0) -> bytes:
    """Return the console's text, once it has `words` after so many bytes."""

    def look() -> bytes:
        text = driver.console_log(uuid, 0)
        return text if words in text[after:] else b""

    found: bytes = wait_until(
        f"{words!r} on the console", look, SECONDS, details=lambda: driver.console_log(uuid, 0)[-2000:]
    )
    return found
