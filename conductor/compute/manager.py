"""Carries out the commands of one host: the journal decides, the driver acts, a message answers."""

from __future__ import annotations

import logging
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO

from conductor.compute.console_relay import RelayAnnouncement
from conductor.compute.driver_statistics import DriverStatistics
from conductor.compute.failures import MAX_MESSAGE_LENGTH, THREAD_EXITS, describe_error, redact
from conductor.compute.handlers import HANDLERS, CommandContext, carry_out
from conductor.compute.host_journal import CommandAttempts, CommandDecision, HostCommand, HostJournal
from conductor.compute.hosts import HostConfig
from conductor.compute.keyed_executor import KeyedExecutor
from conductor.core.compute_driver import ComputeDriver, Progress, StoreImage
from conductor.core.errors import DriverError, NotSupported, NovellaError, StaleToken, Unavailable
from conductor.failpoints import reach
from conductor.rpc.codec import UnknownMessage, decode
from conductor.rpc.messages import StepAnswered, StepProgressed

log = logging.getLogger(__name__)

# Sends a message (of rpc.messages.to_conductor) to the conductor of a cell.
Send = Callable[[str, Any], None]
Answer = dict[str, Any]

PROGRESS_INTERVAL_SECONDS = 1.0
MAX_PROCESS_ENDS = 3  # after so many ends of the agent's process the command fails


def no_image_store(image_id: str, disk_format: str, data: BinaryIO) -> None:
    """Refuse to store an image: for an agent without an image store."""
    raise Unavailable("This agent has nowhere to send images to.")


@dataclass(frozen=True)
class AgentResources:
    """Shared resources of the hosts of one agent. Urgent commands have their own threads, as all others may be busy.

    `report` sends the reports of hosts, where that is not `send`; `bring_forward` has a host report earlier.
    """

    commands: KeyedExecutor
    urgent: KeyedExecutor
    send: Send
    report: Send | None = None
    bring_forward: Callable[[Any, float], None] = lambda host, due_at: None
    store_image: StoreImage = no_image_store
    console_announcement: Callable[[], RelayAnnouncement | None] = lambda: None

    @property
    def send_report(self) -> Send:
        return self.report or self.send


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
        resources: AgentResources,
        on_finished: Callable[[str], None] = lambda _: None,
        statistics: DriverStatistics | None = None,
    ) -> None:
        self._config = config
        self._driver = driver
        self._journal = journal
        self._resources = resources
        self._on_finished = on_finished
        self._attempts = CommandAttempts(config.journal_path.with_suffix(".underway"))
        self._statistics = statistics or DriverStatistics(driver.name)

    def receive(self, body: Mapping[str, Any]) -> None:
        """Accept an encoded command. Never raises: a command that is not accepted gets no answer and is repeated."""
        try:
            self._accept(decode(body))
        except UnknownMessage as error:
            log.warning("command left for a newer agent: host=%s %s", self._config.host, error)
        except Exception as error:  # if raised, the broker would log the whole body
            log.error("command not accepted: host=%s %s: %s", self._config.host, type(error).__name__, error)

    def _accept(self, command: Any) -> None:
        if type(command) not in HANDLERS:
            raise UnknownMessage(f"{type(command).__name__} is no command.")
        outcome = self._journal.begin(command)
        if outcome.decision is CommandDecision.RUN:
            executor = self._resources.urgent if command.IS_URGENT else self._resources.commands
            executor.submit(
                (self._config.host, command.MESSAGE_NAME) if command.IS_CHECK else self._config.host,
                command.instance_uuid,
                lambda: self._carry_out(command),
                max_parallel=self._config.most_at_once,
            )
        elif outcome.decision is CommandDecision.ANSWERED:
            self._answer(command, outcome.answer or {})
        elif outcome.decision is CommandDecision.REFUSED:
            self._answer(command, _failure(_stale(command)))

    def _carry_out(self, command: Any) -> None:
        """Carry out a command, keep the answer, and only then send it."""
        failpoint = f"host.{command.MESSAGE_NAME}"
        try:
            ended = self._attempts.begin(command.step_key)
            reach(f"{failpoint}.before")
            answer = self._try(command) if ended < MAX_PROCESS_ENDS else self._give_up(command, ended)
            reach(f"{failpoint}.effect")
            self._journal.finish(command.step_key, answer)
            reach(f"{failpoint}.kept")
        except BaseException:
            # An answer that is not kept is not sent: a repeated command must never get a different one.
            self._journal.abandon(command.step_key)
            raise
        finally:
            self._attempts.end(command.step_key)
        self._answer(command, answer)
        self._on_finished(command.instance_uuid)

    def _give_up(self, command: Any, ended: int) -> Answer:
        names = self._config.host, command.instance_uuid, type(command).__name__
        log.error("command ends the process and is given up: host=%s instance=%s command=%s", *names)
        return _failure(
            DriverError(f"The agent's process ended {ended} times while the driver was at this: it is not tried again.")
        )

    def _try(self, command: Any) -> Answer:
        if self._journal.is_stale(command):  # a newer command came while it was queued
            return _failure(_stale(command))
        try:
            with self._statistics.measure(command.MESSAGE_NAME, _secrets(command)):
                result = self._run(command)
            return {"ok": True, "result": dict(result), "error": None}
        except NotImplementedError:
            return _failure(NotSupported(f"The driver of host {self._config.host} cannot do that."))
        except StaleToken as error:
            log.info("stale command: host=%s instance=%s", self._config.host, command.instance_uuid)
            return _failure(error)
        except Exception as error:
            secrets = _secrets(command)
            cause = str(error) if isinstance(error, NovellaError) else "".join(traceback.format_exception(error))
            log.warning(
                "command failed: host=%s instance=%s command=%s: %s",
                self._config.host,
                command.instance_uuid,
                type(command).__name__,
                redact(cause, secrets),
            )
            return _failure(error, secrets)

    def _run(self, command: Any) -> Mapping[str, Any]:
        """Call the handler; what it built is destroyed when a newer command has made this one stale."""
        context = CommandContext(self._driver, self._resources.store_image, self._progress(command))
        if not HANDLERS[type(command)].builds:
            return carry_out(context, command)
        try:
            result = carry_out(context, command)
        except Exception:
            if self._journal.is_stale(command):
                self._destroy_stale(command)
                raise _stale(command) from None
            raise
        if self._journal.is_stale(command):
            self._destroy_stale(command)
            raise _stale(command)
        return result

    def _destroy_stale(self, command: Any) -> None:
        try:
            self._driver.destroy(command.instance_uuid)
        except (Exception, *THREAD_EXITS) as error:  # the newer command runs next and finds the same guest
            log.warning(
                "guest of a stale command not destroyed: host=%s instance=%s %s",
                self._config.host,
                command.instance_uuid,
                type(error).__name__,
            )

    def _progress(self, command: Any) -> Progress:
        secrets = _secrets(command)
        report_at = 0.0

        def report(message: str, share: float | None = None, figures: Mapping[str, int] | None = None, /) -> None:
            nonlocal report_at
            if self._journal.is_stale(command):
                raise _stale(command)
            if time.monotonic() < report_at:
                return
            report_at = time.monotonic() + PROGRESS_INTERVAL_SECONDS
            self._send(
                command,
                StepProgressed(
                    step_key=command.step_key,
                    run_uuid=command.run_uuid,
                    fencing_token=command.fencing_token,
                    host=self._config.host,
                    message=redact(message, secrets)[:MAX_MESSAGE_LENGTH],
                    share=None if share is None else min(max(float(share), 0.0), 1.0),
                    figures={name: int(amount) for name, amount in (figures or {}).items()},
                ),
            )

        return report

    def _answer(self, command: Any, answer: Mapping[str, Any]) -> None:
        self._send(
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

    def _send(self, command: Any, message: Any) -> None:
        try:
            self._resources.send(command.cell, message)
        except Exception:  # a lost answer is requested again; lost progress must not fail a build
            log.exception("could not reach the conductor: host=%s step=%s", self._config.host, command.step_key)


def _failure(error: Exception, secrets: tuple[str, ...] = ()) -> Answer:
    return {"ok": False, "result": {}, "error": describe_error(error, secrets)}


def _stale(command: HostCommand) -> StaleToken:
    return StaleToken(f"Token {command.fencing_token} is no longer the newest for instance {command.instance_uuid}.")


def _secrets(command: Any) -> tuple[str, ...]:
    """Return the secrets that a command carries for the guest."""
    guest = getattr(command, "guest", {})
    files = [file.get("contents") for file in guest.get("files", ())]
    carried = (guest.get("user_data"), guest.get("admin_password"), getattr(command, "password", ""), *files)
    return tuple(secret for secret in carried if secret)
