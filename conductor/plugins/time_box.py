"""Asks foreign code on a thread of its own, for a while: what hangs is left behind, and not asked before it is back."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


class TooLate(Exception):
    """There was no answer in time; the text says for how long was waited, or that it hangs from before."""


@dataclass
class TimeBox:
    """One for each plugin that may hang."""

    name: str
    _stuck: threading.Thread | None = field(default=None, repr=False)

    def ask(self, work: Callable[[], Any], seconds: float) -> Any:
        """What `work` returns; what it raises is raised here. Raises TooLate."""
        if self._stuck is not None and self._stuck.is_alive():
            raise TooLate("still hangs")
        answers: list[Any] = []
        errors: list[BaseException] = []

        def run() -> None:
            try:
                answers.append(work())
            except BaseException as error:  # foreign code may raise anything, also what ends threads
                errors.append(error)

        worker = threading.Thread(target=run, name=self.name, daemon=True)
        worker.start()
        worker.join(seconds)
        if worker.is_alive():
            self._stuck = worker
            raise TooLate(f"did not answer within {seconds:g} seconds")
        if errors:
            raise errors[0]
        return answers[0]
