"""What plugins did in one decision, and whether one may still be asked: in quarantine, or out of time, it may not."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from conductor.core.plugin_choice import FILTER, LET_PASS, PluginKey

Clock = Callable[[], float]
Turn = tuple[str, Any, float, int]  # kind, plugin, seconds, hosts that it turned away

OURS = "conductor"  # the package whose filters are links of the pipeline, and no plugins
IN_QUARANTINE = "in quarantine"
OUT_OF_TIME = "out of time"
NO_TIME_LEFT = "no time left for it in this decision"
NOT_ASKED = frozenset({IN_QUARANTINE, OUT_OF_TIME, NO_TIME_LEFT})
TOO_SLOW = "took too long"
TURNED_AWAY = "turned away"
USED = "its answer was used"
LEFT_OUT = "left out"
ONLY_WATCHED = "none, it only watches"
LEAST_PATIENCE_SECONDS = 1.0  # a machine may be busy

LONGEST_ERROR = 100
INTERRUPTS = frozenset({"dramatiq.threading.Interrupt"})
T = TypeVar("T")


class Nonsense(Exception):
    """A plugin's answer has the wrong type or shape."""


class Left(Exception):
    """The plugin raised something that ends threads or processes; the text is its kind."""


class NotAsked(Exception):
    """The plugin may not be asked; the text says why."""


class LeftBehind(NotAsked):
    """The plugin was asked and had not come back long after its time: it was stopped."""

    def __init__(self) -> None:
        super().__init__(OUT_OF_TIME)


class Raised(Exception):
    """What a plugin raised in a process of its own: its kind, where in the code, and what the log is to have of it."""

    def __init__(self, text: str, place: str = "", trace: str = "") -> None:
        super().__init__(text, place, trace)
        self.text, self.place, self.trace = text, place, trace

    def __str__(self) -> str:
        return self.trace or self.text


def plainly(seconds: float, method: Callable[..., T], *args: Any) -> T:
    """A call that is waited for, however long it takes."""
    return method(*args)


def ready() -> float:
    """Such a call needs nothing that would have to be made first."""
    return 0.0


@dataclass(frozen=True)
class PluginFault:
    """A plugin that raised or answered nonsense about `count` hosts, and what was done instead."""

    kind: str
    plugin: str
    count: int
    error: str
    consequence: str
    exception: Exception | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Rules:
    """How plugins run. A filter that fails turns hosts away, unless the operator named it in `fail_open`.

    `shadows` are asked and do not decide; `quarantined` are not asked. A plugin gets `plugin_seconds` of one decision,
    and all together get `decision_seconds`; the `trusted` ones take what they need.
    """

    fail_open: frozenset[str] = frozenset()
    clock: Clock = field(default=lambda: 0.0)
    shadows: frozenset[PluginKey] = frozenset()
    quarantined: frozenset[PluginKey] = frozenset()
    trusted: frozenset[PluginKey] = frozenset()
    plugin_seconds: float = math.inf
    decision_seconds: float = math.inf
    within: Callable[..., Any] = plainly  # how those are called that are held to a time: raises LeftBehind
    prepare: Callable[[], float] = ready  # makes what such a call needs; the seconds in which the plugin had to wait
    digest: str = ""  # the same exactly where the same plugins decide in the same way

    @functools.cached_property
    def plain(self) -> dict[tuple[str, str, type[Any]], bool]:
        """The plugins that nothing limits, as far as somebody has asked."""
        return {}


@dataclass(slots=True)
class Use:
    """What one plugin did in one decision. `rejected` hosts are of its first turn; those of a shadow stayed.

    `would_choose` is the host that would have been the heaviest had a weigher in the shadow had its say.
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
    would_choose: str = ""
    milliseconds: list[float] = field(default_factory=list)  # of each turn

    @property
    def key(self) -> PluginKey:
        return self.kind, self.name

    def to_json(self) -> dict[str, Any]:
        """What is kept with the decision; `would_choose` names a host and is kept elsewhere."""
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
    """The account of one decision."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self._uses: dict[PluginKey, Use] = {}
        self._noted: list[Turn] = []  # turns that are not on their plugins' accounts yet
        self._spent = 0.0  # by all that are not trusted
        self._waited = 0.0  # in the turn that is not on its plugin's account yet

    @property
    def uses(self) -> dict[PluginKey, Use]:
        """What each plugin did so far."""
        noted, self._noted = self._noted, []
        for kind, plugin, seconds, rejected in noted:
            use = self.of(kind, plugin)
            use.rejected = use.rejected if use.turns else rejected
            self.turned(use, seconds)
        return self._uses

    def is_plain(self, kind: str, plugin: Any) -> bool:
        """Whether nothing limits the plugin: its turns are only noted, as accounts cost more than what it says."""
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
        """A turn of a plain plugin."""
        self._noted.append((kind, plugin, seconds, rejected))

    def note_all(self, turns: Sequence[Turn]) -> None:
        """The same of many."""
        self._noted.extend(turns)

    def of(self, kind: str, plugin: Any) -> Use:
        key = kind, plugin.name
        use = self._uses.get(key)
        if use is None:
            rules = self.rules
            is_trusted = key in rules.trusted or _is_ours(type(plugin))  # type: ignore[arg-type]
            self._uses[key] = use = Use(*key, is_shadow=key in rules.shadows, is_trusted=is_trusted)
        return use

    def refusal(self, use: Use) -> str:
        """Why the plugin may not be asked now; empty where it may."""
        if use.key in self.rules.quarantined:
            return IN_QUARANTINE
        if use.is_trusted:
            return ""
        if self.is_overdue(use):
            return OUT_OF_TIME
        return NO_TIME_LEFT if self._spent >= self.rules.decision_seconds else ""

    def seconds_left(self, use: Use) -> float:
        """For how long the plugin may still go on."""
        if use.is_trusted:
            return math.inf
        return min(self.rules.plugin_seconds - use.seconds, self.rules.decision_seconds - self._spent)

    def call(self, use: Use, method: Callable[..., T], *args: Any) -> T:
        """What the call returns or raises. Raises LeftBehind for one that does not come back in twice its time."""
        if use.is_trusted:
            return method(*args)
        self._waited += self.rules.prepare()
        patience = max(self.rules.plugin_seconds, LEAST_PATIENCE_SECONDS)
        return self.rules.within(self.seconds_left(use) + patience, method, *args)  # type: ignore[no-any-return]

    def is_overdue(self, use: Use) -> bool:
        """Whether the plugin has had all of its own time; what others took is not its fault."""
        return not use.is_trusted and use.seconds >= self.rules.plugin_seconds

    def require(self, use: Use) -> None:
        """Raises NotAsked where the plugin may not be asked now."""
        refusal = self.refusal(use)
        if refusal:
            raise NotAsked(refusal)

    def turned(self, use: Use, seconds: float) -> bool:
        """Put one turn on the plugin's account; whether its time has run out with it."""
        was_overdue = self.is_overdue(use)
        seconds = self.took(use, seconds)
        use.milliseconds.append(seconds * 1000)
        use.turns += 1
        is_late = not was_overdue and self.is_overdue(use)
        use.overruns += is_late
        return is_late

    def late(self, use: Use, count: int) -> PluginFault:
        """An answer that could not be cut short and came too late: it is used, and named."""
        return PluginFault(use.kind, use.name, count, TOO_SLOW, ONLY_WATCHED if use.is_shadow else USED)

    def took(self, use: Use, seconds: float) -> float:
        """Put so many seconds on the plugin's account, without those in which it had to wait; returns them."""
        seconds, self._waited = max(seconds - self._waited, 0.0), 0.0
        use.seconds += seconds
        if not use.is_trusted:
            self._spent += seconds
        return seconds

    def fault(self, use: Use, count: int, error: Exception) -> PluginFault:
        """Note that the plugin failed about so many hosts, and say what becomes of them."""
        if isinstance(error, NotAsked):
            return PluginFault(use.kind, use.name, count, str(error), self.consequence(use))
        use.faults += count
        return PluginFault(use.kind, use.name, count, describe(error), self.consequence(use), error)

    def consequence(self, use: Use) -> str:
        if use.is_shadow:
            return ONLY_WATCHED
        if use.kind != FILTER:
            return LEFT_OUT
        return LET_PASS if use.name in self.rules.fail_open else TURNED_AWAY

    def lets_pass(self, use: Use) -> bool:
        """What becomes of a host that the filter fails about."""
        return use.name in self.rules.fail_open


@functools.cache
def _is_ours(kind: type[Any]) -> bool:
    return kind.__module__.partition(".")[0] == OURS


def describe(error: Exception) -> str:
    """What to show of a foreign error: its kind. Its text may hold paths or secrets."""
    if isinstance(error, Raised):
        return error.text[:LONGEST_ERROR]
    if type(error) in (Nonsense, NotAsked, Left):
        return str(error)[:LONGEST_ERROR]
    return readable(type(error).__name__, LONGEST_ERROR)


def guarded(method: Callable[..., T], *args: Any) -> T:
    """What a plugin's method returns. All that it raises is an Exception: it cannot end the thread that asks it.

    But for what is meant for that thread: an interrupt by the keyboard, a worker's time limit.
    """
    try:
        return method(*args)
    except Exception:
        raise
    except BaseException as error:
        raise contained(error) from None


def contained(error: BaseException) -> Exception:
    """What a plugin raised, as an Exception; raises what is meant for the thread that asks it."""
    if isinstance(error, Exception):
        return error
    kinds = type(error).__mro__
    if KeyboardInterrupt in kinds or any(f"{one.__module__}.{one.__name__}" in INTERRUPTS for one in kinds):
        raise error
    return Left(type(error).__name__)


def readable(text: object, longest: int) -> str:
    """A foreign text as it can be kept and shown anywhere: no control characters, nothing half, not too long."""
    if not isinstance(text, str):
        raise Nonsense(f"text expected, not {type(text).__name__}"[:LONGEST_ERROR])
    text = str(text)
    if len(text) > longest:
        text = text[: longest - 1] + "…"
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else " " for letter in text)


def is_mask(answer: Any, count: int) -> bool:
    return type(answer) is np.ndarray and answer.shape == (count,) and answer.dtype == np.bool_
