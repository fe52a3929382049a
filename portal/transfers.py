"""Limits on concurrent image transfers in this process, so that no project takes all of them."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from django.conf import settings

from conductor.core.errors import Unavailable

RETRY_SECONDS = 5


class TransferShares:
    """`total` concurrent transfers, up to `per_project` for one project.

    A project with a transfer gets another one only while less than half of all are taken: the rest is for projects
    without one.
    """

    def __init__(self, total: int, per_project: int) -> None:
        self._total, self._per_project = total, per_project
        self._taken: Counter[str] = Counter()
        self._lock = threading.Lock()

    def take(self, project_id: str) -> None:
        """Take a transfer. Raises Unavailable when the project has its share, or all are taken.

        Every `take` needs a `release`.
        """
        with self._lock:
            own, all_taken = self._taken[project_id], self._taken.total()
            if own >= self._per_project or (own and 2 * all_taken >= self._total):
                raise Unavailable(
                    f"Your project has {own} transfers of image data under way; try again when one has ended.",
                    retry_after=RETRY_SECONDS,
                )
            if all_taken >= self._total:
                raise Unavailable(
                    "Too many transfers of image data are under way; try again in a moment.", retry_after=RETRY_SECONDS
                )
            self._taken[project_id] += 1

    def release(self, project_id: str) -> None:
        with self._lock:
            self._taken[project_id] -= 1
            if self._taken[project_id] <= 0:
                del self._taken[project_id]

    @contextmanager
    def share(self, project_id: str) -> Iterator[None]:
        """`take` and `release` around the block."""
        self.take(project_id)
        try:
            yield
        finally:
            self.release(project_id)


shares = TransferShares(settings.NOVELLA_IMAGE_TRANSFERS, settings.NOVELLA_PROJECT_IMAGE_TRANSFERS)
