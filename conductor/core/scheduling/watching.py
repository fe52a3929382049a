"""Runs plugins under quarantine and time limits, and records what each did in one decision."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from conductor.core.plugin_choice import FILTER, LET_PASS, PluginKey

Clock = Callable[[], float]
Turn = tuple[str, Any, float, int]  # kind, plugin, seconds, rejected hosts

OURS = "conductor"  # the package of the built-in filters, which are no plugins
IN_QUARANTINE = "in quarantine"
OUT_OF_TIME = "out of time"
ENDED = "it ended its process"
NO_TIME_LEFT = "no time left for it in this decision"
NOT_ASKED = frozenset({IN_QUARANTINE, OUT_OF_TIME, NO_TIME_LEFT})
TOO_SLOW = "took too long"
REJECTED_HOSTS = "rejected"
USED = "its answer was used"
LEFT_OUT = "left out"
ONLY_WATCHED = "none, it only watches"
LEAST_PATIENCE_SECONDS = 1.0  # a lower limit would stop plugins on a busy machine

LONGEST_ERROR = 100
INTERRUPTS = frozenset({"dramatiq.threading.Interrupt"})
T = TypeVar("T")


class InvalidResult(Exception):
    """A plugin returned a value of the wrong type or shape."""


class PluginExited(Exception):
    """A plugin raised an exception that ends threads or processes; the text is its type."""


class PluginProcessEnded(PluginExited):
    """The plugin's process ended during a call."""

    def __init__(self) -> None:
        super().__init__(ENDED)


class NotCalled(Exception):
    """The plugin was not called; the text says why."""


class PluginTimedOut(NotCalled):
    """The plugin was called and exceeded its time limit by far: it was stopped."""

    def __init__(self) -> None:
        super().__init__(OUT_OF_TIME)


class PluginException(Exception):
    """Exception of a plugin in a process of its own: its type, its place in the code, and its text for the log."""

    def __init__(self, text: str, place: str = "", trace: str = "") -> None:
        super().__init__(text, place, trace)
        self.text, self.place, self.trace = text, place, trace

    def __str__(self) -> str:
        return self.trace or self.text


def plainly(seconds: float, method: Callable[..., T], *args: Any) -> T:
    """Call without a time limit."""
    return method(*args)


def ready() -> float:
    """Return 0: such a call needs no preparation."""
    return 0.0


@dataclass(frozen=True)
class PluginFault:
    """A failure of a plugin for `count` hosts, and its consequence."""

    kind: str
    plugin: str
    count: int
    error: str
    consequence: str
    exception: Exception | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Rules:
    """Rules by which plugins run.

    A filter that fails rejects hosts, unless the operator named it in `fail_open`. A plugin gets `plugin_seconds` of
    one decision, and all together get `decision_seconds`; plugins that are `trusted` have no limit.

    Attributes:
        shadows: Plugins that run and do not decide.
        quarantined: Plugins that do not run.
    """

    fail_open: frozenset[str] = frozenset()
    clock: Clock = field(default=lambda: 0.0)
    shadows: frozenset[PluginKey] = frozenset()
    quarantined: frozenset[PluginKey] = frozenset()
    trusted: frozenset[PluginKey] = frozenset()
    plugin_seconds: float = math.inf
    decision_seconds: float = math.inf
    within: Callable[..., Any] = plainly  # calls plugins with a time limit: raises PluginTimedOut
    prepare: Callable[[], float] = ready  # prepares such a call; returns the seconds that the plugin had to wait
    digest: str = ""  # equal exactly where the same plugins decide in the same way

    @functools.cached_property
    def plain(self) -> dict[tuple[str, str, type[Any]], bool]:
        """Cache of whether a plugin has no limits."""
        return {}

    @functools.cached_property
    def lost(self) -> dict[PluginKey, str]:
        """Plugins that ended a worker process, and how. They do not run again, not even to explain a decision."""
        return {}


@dataclass(slots=True)
class PluginUse:
    """Record of one plugin in one decision.

    Attributes:
        rejected: Hosts that it rejected in its first run. Hosts that a shadow plugin rejects stay candidates.
        losses: The number of worker processes that it ended. A plugin that hangs is killed with its process.
        would_choose: The host that would have been the heaviest with the weight of this shadow weigher.
    """

    kind: str
    name: str
    is_shadow: bool = False
    is_trusted: bool = False
    turns: int = 0
    seconds: float = 0.0
    rejected: int = 0
    faults: int = 0
    overruns: int = 0
    losses: int = 0
    would_choose: str = ""
    milliseconds: list[float] = field(default_factory=list)  # of each turn

    @property
    def key(self) -> PluginKey:
        return self.kind, self.name

    def to_json(self) -> dict[str, Any]:
        """Return what is kept with the decision; `would_choose` names a host and is kept elsewhere."""
        return {
            "kind": self.kind,
            "plugin": self.name,
            "mode": "shadow" if self.is_shadow else "decides",
            "turns": self.turns,
            "milliseconds": round(self.seconds * 1000, 3),
            "rejected": self.rejected,
            "faults": self.faults,
            "overruns": self.overruns,
        }


class Watch:
    """Record of the plugins in one decision, with their time budgets."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self._uses: dict[PluginKey, PluginUse] = {}
        self._noted: list[Turn] = []  # turns not yet added to their plugins' records
        self._spent = 0.0  # by all untrusted plugins
        self._waited = 0.0  # in the turn that is not yet recorded

    @property
    def uses(self) -> dict[PluginKey, PluginUse]:
        """Return the record of each plugin so far."""
        noted, self._noted = self._noted, []
        for kind, plugin, seconds, rejected in noted:
            use = self.of(kind, plugin)
            use.rejected = use.rejected if use.turns else rejected
            self.turned(use, seconds)
        return self._uses

    def is_plain(self, kind: str, plugin: Any) -> bool:
        """Whether nothing limits the plugin. Its runs are only noted, as full accounting costs more than the call."""
        key = kind, plugin.name, type(plugin)
        known = self.rules.plain.get(key)
        if known is None:
            self.rules.plain[key] = known = self._is_plain(key)
        return known

    def _is_plain(self, named: tuple[str, str, type[Any]]) -> bool:
        rules, key = self.rules, named[:2]
        if key not in rules.trusted and not _is_ours(named[2]):  # type: ignore[arg-type]
            return False
        return not (key in rules.quarantined or key in rules.shadows)

    def note(self, kind: str, plugin: Any, seconds: float, rejected: int = 0) -> None:
        """Note a turn of a plain plugin."""
        self._noted.append((kind, plugin, seconds, rejected))

    def note_all(self, turns: Sequence[Turn]) -> None:
        """Note several turns."""
        self._noted.extend(turns)

    def of(self, kind: str, plugin: Any) -> PluginUse:
        key = kind, plugin.name
        use = self._uses.get(key)
        if use is None:
            rules = self.rules
            is_trusted = key in rules.trusted or _is_ours(type(plugin))  # type: ignore[arg-type]
            self._uses[key] = use = PluginUse(*key, is_shadow=key in rules.shadows, is_trusted=is_trusted)
        return use

    def refusal(self, use: PluginUse) -> str:
        """Return why the plugin may not run now; empty where it may."""
        if use.key in self.rules.quarantined:
            return IN_QUARANTINE
        if use.is_trusted:
            return ""
        if use.key in self.rules.lost:
            return self.rules.lost[use.key]
        if self.is_overdue(use):
            return OUT_OF_TIME
        return NO_TIME_LEFT if self._spent >= self.rules.decision_seconds else ""

    def seconds_left(self, use: PluginUse) -> float:
        """Return for how many seconds the plugin may still run."""
        if use.is_trusted:
            return math.inf
        return min(self.rules.plugin_seconds - use.seconds, self.rules.decision_seconds - self._spent)

    def call(self, use: PluginUse, method: Callable[..., T], *args: Any) -> T:
        """Call a plugin's method. Raises PluginTimedOut where it takes twice its time."""
        if use.is_trusted:
            return method(*args)
        self._waited += self.rules.prepare()
        patience = max(self.rules.plugin_seconds, LEAST_PATIENCE_SECONDS)
        try:
            return self.rules.within(self.seconds_left(use) + patience, method, *args)  # type: ignore[no-any-return]
        except (PluginTimedOut, PluginProcessEnded) as error:
            use.losses += 1
            self.rules.lost[use.key] = str(error)
            raise

    def is_overdue(self, use: PluginUse) -> bool:
        """Whether the plugin has used its own time. Time of other plugins does not count."""
        return not use.is_trusted and use.seconds >= self.rules.plugin_seconds

    def require(self, use: PluginUse) -> None:
        """Raise NotCalled where the plugin may not run now."""
        refusal = self.refusal(use)
        if refusal:
            raise NotCalled(refusal)

    def turned(self, use: PluginUse, seconds: float) -> bool:
        """Record one run of the plugin. Return whether its time ran out with this run."""
        was_overdue = self.is_overdue(use)
        seconds = self.took(use, seconds)
        use.milliseconds.append(seconds * 1000)
        use.turns += 1
        is_late = not was_overdue and self.is_overdue(use)
        use.overruns += is_late
        return is_late

    def late(self, use: PluginUse, count: int) -> PluginFault:
        """Return the fault for a result that came too late and could not be interrupted. The result is used."""
        return PluginFault(use.kind, use.name, count, TOO_SLOW, ONLY_WATCHED if use.is_shadow else USED)

    def took(self, use: PluginUse, seconds: float) -> float:
        """Add seconds to the plugin's record, without the time that it had to wait; return them."""
        seconds, self._waited = max(seconds - self._waited, 0.0), 0.0
        use.seconds += seconds
        if not use.is_trusted:
            self._spent += seconds
        return seconds

    def fault(self, use: PluginUse, count: int, error: Exception) -> PluginFault:
        """Record that the plugin failed for `count` hosts, and return the fault with its consequence."""
        if isinstance(error, NotCalled):
            return PluginFault(use.kind, use.name, count, str(error), self.consequence(use))
        use.faults += count
        return PluginFault(use.kind, use.name, count, describe(error), self.consequence(use), error)

    def consequence(self, use: PluginUse) -> str:
        if use.is_shadow:
            return ONLY_WATCHED
        if use.kind != FILTER:
            return LEFT_OUT
        return LET_PASS if use.name in self.rules.fail_open else REJECTED_HOSTS

    def lets_pass(self, use: PluginUse) -> bool:
        """Whether a host passes if the filter fails for it."""
        return use.name in self.rules.fail_open


@functools.cache
def _is_ours(kind: type[Any]) -> bool:
    return kind.__module__.partition(".")[0] == OURS


def describe(error: Exception) -> str:
    """Return the text to show of a foreign error: its type only, as its message may hold paths or secrets."""
    if isinstance(error, PluginException):
        return error.text[:LONGEST_ERROR]
    if type(error) in (InvalidResult, NotCalled, PluginExited, PluginProcessEnded):
        return str(error)[:LONGEST_ERROR]
    return readable(type(error).__name__, LONGEST_ERROR)


def guarded(method: Callable[..., T], *args: Any) -> T:
    """Call a plugin's method. It can raise only an Exception, so it cannot end the caller's thread.

    Interrupts of the thread itself pass through: by the keyboard, or by a worker's time limit.
    """
    try:
        return method(*args)
    except Exception:
        raise
    except BaseException as error:
        raise contained(error) from None


def contained(error: BaseException) -> Exception:
    """Return a plugin's exception as an Exception. Raises it where it is meant for the caller's thread."""
    if isinstance(error, Exception):
        return error
    kinds = type(error).__mro__
    if KeyboardInterrupt in kinds or any(f"{one.__module__}.{one.__name__}" in INTERRUPTS for one in kinds):
        raise error
    return PluginExited(type(error).__name__)


def readable(text: object, longest: int) -> str:
    """Return a foreign text that can be stored and shown anywhere: no control characters, not too long."""
    if not isinstance(text, str):
        raise InvalidResult(f"text expected, not {type(text).__name__}"[:LONGEST_ERROR])
    text = str(text)
    if len(text) > longest:
        text = text[: longest - 1] + "…"
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else " " for letter in text)


def is_mask(answer: Any, count: int) -> bool:
    return type(answer) is np.ndarray and answer.shape == (count,) and answer.dtype == np.bool_
