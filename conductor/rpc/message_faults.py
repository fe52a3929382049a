"""Test aid: a sender that loses, repeats and delays messages, so that they arrive twice, late or in another order."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from dramatiq import Message

from conductor.rpc.senders import Sender

LONGEST_DELAY_MILLISECONDS = 2_000


class Unreliable:
    """Sends by another sender, with faults in the given `shares` (of "lose", "repeat" and "delay")."""

    def __init__(self, sender: Sender, shares: Mapping[str, float]) -> None:
        self._sender = sender
        self._shares = shares

    def send(self, message: Message[Any], delay: int | None = None) -> None:
        if self._happens("lose"):
            return
        self._sender.send(message, delay or self._delay())
        if self._happens("repeat"):
            self._sender.send(message.copy(), self._delay())

    def forget(self, queue_name: str) -> None:
        self._sender.forget(queue_name)

    def drain(self, seconds: float) -> bool:
        return self._sender.drain(seconds)

    def close(self) -> None:
        self._sender.close()

    def _delay(self) -> int | None:
        return random.randrange(LONGEST_DELAY_MILLISECONDS) if self._happens("delay") else None

    def _happens(self, fault: str) -> bool:
        return random.random() < self._shares.get(fault, 0.0)
