"""One host's commands: decided by the journal, done by the driver, answered by message."""

from __future__ import annotations

import logging
import time
import traceback
from collections.abc import Callable, Mapping
from typing import Any

from conductor.compute.failures import LONGEST_MESSAGE, describe, hide
from conductor.compute.host_journal import Command, Decision, HostJournal
from conductor.compute.hosts import HostConfig
from conductor.compute.lanes import Lanes
from conductor.core.compute_driver import ComputeDriver, GuestSpec, Progress
from conductor.core.errors import NovellaError, StaleToken
from conductor.rpc.codec import UnknownMessage, decode
from conductor.rpc.messages import DestroyInstance, SpawnInstance, StepAnswered, StepProgressed

log = logging.getLogger(__name__)

# Sends a message (of rpc.messages.to_conductor) to the conductor of a cell.
Send = Callable[[str, Any], None]
Answer = dict[str, Any]

PROGRESS_PAUSE_SECONDS = 1.0


class ComputeManager:
    """Receives the commands of one host. Commands for the same instance never overlap; `receive` never blocks long.

    `on_finished` is called with the instance's uuid after each command that reached the driver.
    """

    def __init__(
        self,
        config: HostConfig,
        driver: ComputeDriver,
        *,
        journal: HostJournal,
        lanes: Lanes,
        send: Send,
        on_finished: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._config = config
        self._driver = driver
        self._journal = journal
        self._lanes = lanes
        self._send = send
        self._on_finished = on_finished

    def receive(self, body: Mapping[str, Any]) -> None:
        """Take an encoded command. Never raises: what could not be taken is not answered, and so comes again."""
        try:
            self._take(decode(body))
        except UnknownMessage as error:
            log.warning("command left for a newer agent: host=%s %s", self._config.host, error)
        except Exception as error:  # raised on, the broker would log the whole body
            log.error("command not taken: host=%s %s: %s", self._config.host, type(error).__name__, error)

    def _take(self, command: Any) -> None:
        if type(command) not in HANDLERS:
            raise UnknownMessage(f"{type(command).__name__} is no command.")
        outcome = self._journal.begin(command)
        if outcome.decision is Decision.RUN:
            self._lanes.submit(
                self._config.host,
                command.instance_uuid,
                lambda: self._carry_out(command),
                most_at_once=self._config.most_at_once,
            )
        elif outcome.decision is Decision.ANSWERED:
            self._answer(command, outcome.answer or {})
        elif outcome.decision is Decision.REFUSED:
            self._answer(command, _failure(_stale(command)))

    def _carry_out(self, command: Any) -> None:
        """Do what the command says, keep the answer, and only then give it."""
        try:
            answer = self._try(command)
            self._journal.finish(command.step_key, answer)
        except BaseException:
            # What is not kept is not said: a repeated command must never get another answer.
            self._journal.abandon(command.step_key)
            raise
        self._answer(command, answer)
        self._on_finished(command.instance_uuid)

    def _try(self, command: Any) -> Answer:
        if self._journal.is_stale(command):  # it waited for its turn, and was overtaken
            return _failure(_stale(command))
        try:
            result = HANDLERS[type(command)](self, command)
            return {"ok": True, "result": result, "error": None}
        except StaleToken as error:
            log.info("overtaken: host=%s instance=%s", self._config.host, command.instance_uuid)
            return _failure(error)
        except Exception as error:
            secrets = _secrets(command)
            cause = str(error) if isinstance(error, NovellaError) else "".join(traceback.format_exception(error))
            log.warning(
                "command failed: host=%s instance=%s command=%s: %s",
                self._config.host,
                command.instance_uuid,
                type(command).__name__,
                hide(cause, secrets),
            )
            return _failure(error, secrets)

    def spawn(self, command: SpawnInstance) -> Mapping[str, Any]:
        """Build the guest. When a newer command came meanwhile nobody wants it: it goes again."""
        guest = GuestSpec.from_json(command.guest)
        try:
            self._driver.spawn(guest, self._progress(command))
        except Exception:
            if self._journal.is_stale(command):
                self._destroy_unwanted(command)
                raise _stale(command) from None
            raise
        if self._journal.is_stale(command):
            self._destroy_unwanted(command)
            raise _stale(command)
        return {}

    def destroy(self, command: DestroyInstance) -> Mapping[str, Any]:
        """End the guest; one that is gone already is as good."""
        self._driver.destroy(command.instance_uuid)
        return {}

    def _destroy_unwanted(self, command: SpawnInstance) -> None:
        try:
            self._driver.destroy(command.instance_uuid)
        except Exception as error:  # the newer command is next in the lane and meets the same guest
            log.warning(
                "unwanted guest stays for now: host=%s instance=%s %s",
                self._config.host,
                command.instance_uuid,
                type(error).__name__,
            )

    def _progress(self, command: SpawnInstance) -> Progress:
        secrets = _secrets(command)
        next_at = 0.0

        def tell(message: str, share: float | None = None) -> None:
            nonlocal next_at
            if self._journal.is_stale(command):
                raise _stale(command)
            if time.monotonic() < next_at:
                return
            next_at = time.monotonic() + PROGRESS_PAUSE_SECONDS
            self._tell(
                command,
                StepProgressed(
                    step_key=command.step_key,
                    run_uuid=command.run_uuid,
                    fencing_token=command.fencing_token,
                    host=self._config.host,
                    message=hide(message, secrets)[:LONGEST_MESSAGE],
                    share=None if share is None else min(max(float(share), 0.0), 1.0),
                ),
            )

        return tell

    def _answer(self, command: Any, answer: Mapping[str, Any]) -> None:
        self._tell(
            command,
            StepAnswered(
                step_key=command.step_key,
                run_uuid=command.run_uuid,
                fencing_token=command.fencing_token,
                host=self._config.host,
                ok=answer["ok"],
                result=dict(answer["result"]),
                error=answer["error"],
            ),
        )

    def _tell(self, command: Any, message: Any) -> None:
        try:
            self._send(command.cell, message)
        except Exception:  # an answer that is lost is asked for again; progress is not worth a build
            log.exception("could not reach the conductor: host=%s step=%s", self._config.host, command.step_key)


HANDLERS: dict[type[Any], Callable[[ComputeManager, Any], Mapping[str, Any]]] = {
    SpawnInstance: ComputeManager.spawn,
    DestroyInstance: ComputeManager.destroy,
}


def _failure(error: Exception, secrets: tuple[str, ...] = ()) -> Answer:
    return {"ok": False, "result": {}, "error": describe(error, secrets)}


def _stale(command: Command) -> StaleToken:
    return StaleToken(f"Token {command.fencing_token} is no longer the newest for instance {command.instance_uuid}.")


def _secrets(command: Any) -> tuple[str, ...]:
    """What a command carries that only the guest may read."""
    return tuple(filter(None, [getattr(command, "guest", {}).get("user_data")]))
