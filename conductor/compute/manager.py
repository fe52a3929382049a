"""One host's commands: decided by the journal, done by the driver, answered by message."""

from __future__ import annotations

import logging
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO

from conductor.compute.attempts import Attempts
from conductor.compute.console_door import DoorOffer
from conductor.compute.driver_account import DriverAccount
from conductor.compute.driver_words import ENDS_THREADS
from conductor.compute.failures import LONGEST_MESSAGE, describe, hide
from conductor.compute.handlers import HANDLERS, Hands, carry_out
from conductor.compute.host_journal import Command, Decision, HostJournal
from conductor.compute.hosts import HostConfig
from conductor.compute.lanes import Lanes
from conductor.core.compute_driver import ComputeDriver, Progress, StoreImage
from conductor.core.errors import DriverError, NotSupported, NovellaError, StaleToken, Unavailable
from conductor.failpoints import reach
from conductor.rpc.codec import UnknownMessage, decode
from conductor.rpc.messages import StepAnswered, StepProgressed

log = logging.getLogger(__name__)

# Sends a message (of rpc.messages.to_conductor) to the conductor of a cell.
Send = Callable[[str, Any], None]
Answer = dict[str, Any]

PROGRESS_PAUSE_SECONDS = 1.0
MOST_ENDS = 3  # of the agent's process within one command, until that has failed


def store_nowhere(image_id: str, disk_format: str, data: BinaryIO) -> None:
    """What stands for the image store where there is none."""
    raise Unavailable("This agent has nowhere to send images to.")


@dataclass(frozen=True)
class Shared:
    """What the hosts of one agent share. Urgent commands have threads of their own: the others may all be at work."""

    commands: Lanes
    urgent: Lanes
    send: Send
    wake: Callable[[], None] = lambda: None
    store_image: StoreImage = store_nowhere
    console_offer: Callable[[], DoorOffer | None] = lambda: None


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
        shared: Shared,
        on_finished: Callable[[str], None] = lambda _: None,
        account: DriverAccount | None = None,
    ) -> None:
        self._config = config
        self._driver = driver
        self._journal = journal
        self._shared = shared
        self._on_finished = on_finished
        self._attempts = Attempts(config.journal_path.with_suffix(".underway"))
        self._account = account or DriverAccount(driver.name)

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
            lanes = self._shared.urgent if command.IS_URGENT else self._shared.commands
            lanes.submit(
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
        place = f"host.{command.MESSAGE_NAME}"
        try:
            ended = self._attempts.begin(command.step_key)
            reach(f"{place}.before")
            answer = self._try(command) if ended < MOST_ENDS else self._given_up(command, ended)
            reach(f"{place}.effect")
            self._journal.finish(command.step_key, answer)
            reach(f"{place}.kept")
        except BaseException:
            # What is not kept is not said: a repeated command must never get another answer.
            self._journal.abandon(command.step_key)
            raise
        finally:
            self._attempts.end(command.step_key)
        self._answer(command, answer)
        self._on_finished(command.instance_uuid)

    def _given_up(self, command: Any, ended: int) -> Answer:
        words = self._config.host, command.instance_uuid, type(command).__name__
        log.error("command ends the process and is given up: host=%s instance=%s command=%s", *words)
        return _failure(
            DriverError(f"The agent's process ended {ended} times while the driver was at this: it is not tried again.")
        )

    def _try(self, command: Any) -> Answer:
        if self._journal.is_stale(command):  # it waited for its turn, and was overtaken
            return _failure(_stale(command))
        try:
            with self._account.call(command.MESSAGE_NAME, _secrets(command)):
                result = self._do(command)
            return {"ok": True, "result": dict(result), "error": None}
        except NotImplementedError:
            return _failure(NotSupported(f"The driver of host {self._config.host} cannot do that."))
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

    def _do(self, command: Any) -> Mapping[str, Any]:
        """What a command built goes again when a newer one came meanwhile: nobody wants it."""
        hands = Hands(self._driver, self._shared.store_image, self._progress(command))
        if not HANDLERS[type(command)].builds:
            return carry_out(hands, command)
        try:
            result = carry_out(hands, command)
        except Exception:
            if self._journal.is_stale(command):
                self._destroy_unwanted(command)
                raise _stale(command) from None
            raise
        if self._journal.is_stale(command):
            self._destroy_unwanted(command)
            raise _stale(command)
        return result

    def _destroy_unwanted(self, command: Any) -> None:
        try:
            self._driver.destroy(command.instance_uuid)
        except (Exception, *ENDS_THREADS) as error:  # the newer command is next in the lane and meets the same guest
            log.warning(
                "unwanted guest stays for now: host=%s instance=%s %s",
                self._config.host,
                command.instance_uuid,
                type(error).__name__,
            )

    def _progress(self, command: Any) -> Progress:
        secrets = _secrets(command)
        next_at = 0.0

        def tell(message: str, share: float | None = None, figures: Mapping[str, int] | None = None, /) -> None:
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
                    figures={name: int(amount) for name, amount in (figures or {}).items()},
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
            self._shared.send(command.cell, message)
        except Exception:  # an answer that is lost is asked for again; progress is not worth a build
            log.exception("could not reach the conductor: host=%s step=%s", self._config.host, command.step_key)


def _failure(error: Exception, secrets: tuple[str, ...] = ()) -> Answer:
    return {"ok": False, "result": {}, "error": describe(error, secrets)}


def _stale(command: Command) -> StaleToken:
    return StaleToken(f"Token {command.fencing_token} is no longer the newest for instance {command.instance_uuid}.")


def _secrets(command: Any) -> tuple[str, ...]:
    """What a command carries that only the guest may read."""
    guest = getattr(command, "guest", {})
    files = [file.get("contents") for file in guest.get("files", ())]
    carried = (guest.get("user_data"), guest.get("admin_password"), getattr(command, "password", ""), *files)
    return tuple(secret for secret in carried if secret)
