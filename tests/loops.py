"""An event loop for one test, which ends: tasks that wait for ever are cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable


def run_at_most(seconds: float, work: Awaitable[None]) -> None:
    """Raises TimeoutError for what takes longer."""

    async def bounded() -> None:
        async with asyncio.timeout(seconds):
            await work

    asyncio.run(bounded())
