"""Protocol between a process and its plugin workers: messages over a socket, and the pickling of values."""

from __future__ import annotations

import io
import pickle
import socket
import struct
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from conductor.core import errors
from conductor.core.errors import NovellaError
from conductor.core.extensions import Extension
from conductor.core.filter import Filter
from conductor.core.host_state import HostState, HostTable
from conductor.core.notification_sink import NotificationSink, SinkFailed
from conductor.core.plugin_choice import FILTER, WEIGHER, PluginKindSettings
from conductor.core.scheduling.watching import InvalidResult, NotCalled, PluginException, PluginExited, describe
from conductor.core.weigher import Weigher
from conductor.plugins.log import place_of
from conductor.plugins.registry import LoadParameters, SourceKey

FORK, END, DONE = b"f", b"e", b"\n"
READY = b"ready"
HOSTS, SINK = "hosts", "sink"
PLUGINS = (Filter, Weigher, Extension, NotificationSink)
T = TypeVar("T")


@dataclass(frozen=True)
class Start:
    """First message to a new worker: the plugins to load.

    With `describes`, the worker returns the description of that source and ends.
    """

    path: Sequence[str]
    loads: LoadParameters
    describes: SourceKey | None = None


@dataclass(frozen=True)
class WorkerCall:
    """One call of a plugin. `body` is the pickled call, without the data that the worker already has.

    `choices` is None if they are the same as in the previous call. `states` are all hosts, or, by row, the hosts that
    changed since the previous call.
    """

    seconds: float
    choices: Mapping[str, PluginKindSettings] | None
    states: Sequence[HostState] | Mapping[int, HostState]
    age_seconds: float
    claimed_rows: frozenset[int]
    body: bytes


@dataclass
class CallResult:
    """Return value or exception of the call, and its plugin's log lines during the call."""

    value: Any = None
    error: BaseException | None = None
    lines: list[dict[str, Any]] = field(default_factory=list)


class UserFacingError(PluginException):
    """A plugin's error whose message is meant for users: its class, message and details, and where it was raised."""

    def __init__(self, kind: str, message: str, details: Mapping[str, Any], place: str = "") -> None:
        super().__init__(message, place)
        self.kind, self.details = kind, details

    def __reduce__(self) -> tuple[Any, ...]:
        return UserFacingError, (self.kind, self.text, self.details, self.place)

    def error(self) -> NovellaError | SinkFailed:
        """Return the error that the plugin raised."""
        if self.kind == SinkFailed.__name__:
            return SinkFailed(self.text)
        known = getattr(errors, self.kind, None)
        kind = known if isinstance(known, type) and issubclass(known, NovellaError) else NovellaError
        return kind(self.text, **{str(name): value for name, value in self.details.items()})


def speaking(method: Callable[..., T], *args: Any) -> T:
    """Call a method of an extension or a sink. Raises UserFacingError for an error whose message is for users."""
    try:
        return method(*args)
    except SinkFailed as error:
        raise UserFacingError(SinkFailed.__name__, str(error), {}, place_of(error)) from None
    except NovellaError as error:
        raise UserFacingError(type(error).__name__, error.message, error.details, place_of(error)) from None


OURS = (
    InvalidResult,
    NotCalled,
    PluginExited,
    PluginException,
    UserFacingError,
)  # errors that are pickled unchanged


class Pickler(pickle.Pickler):
    """Pickles values without hosts and plugins, which the receiver has, and reduces errors to their description."""

    def persistent_id(self, value: Any) -> tuple[Any, ...] | None:
        if isinstance(value, HostTable):
            return (HOSTS,)
        if isinstance(value, Filter):
            return FILTER, value.name
        if isinstance(value, Weigher):
            return WEIGHER, value.name
        if isinstance(value, Extension):
            return value.kind, value.name, value.options
        if isinstance(value, NotificationSink):
            return SINK, value.name, value.options
        return None

    def reducer_override(self, value: Any) -> Any:
        """Reduce errors of plugins, whose classes the receiver may be unable to import, to description and location."""
        if isinstance(value, Exception) and type(value) not in OURS:
            return PluginException, (describe(value), place_of(value), "".join(traceback.format_exception(value)))
        return NotImplemented


class Unpickler(pickle.Unpickler):
    """Restores the hosts and plugins that Pickler left out."""

    def __init__(self, data: bytes, find: Callable[[tuple[Any, ...]], Any]) -> None:
        super().__init__(io.BytesIO(data))
        self._find = find

    def persistent_load(self, name: Any) -> Any:
        return self._find(name)


# Names allowed in an answer, by module. Classes of `conductor.core` are values of the contract.
CORE = "conductor.core."
PLAIN: Mapping[str, frozenset[str]] = {
    "builtins": frozenset({"bytearray", "complex", "frozenset", "range", "set", "slice"}),
    "conductor.plugins.registry": frozenset({"PluginDeclaration", "SourceDescription"}),
    "collections": frozenset({"Counter", "OrderedDict", "defaultdict", "deque"}),
    "copyreg": frozenset({"_reconstructor"}),
    "datetime": frozenset({"date", "datetime", "time", "timedelta", "timezone"}),
    "decimal": frozenset({"Decimal"}),
    "fractions": frozenset({"Fraction"}),
    "ipaddress": frozenset({"IPv4Address", "IPv4Network", "IPv6Address", "IPv6Network"}),
    "pathlib": frozenset({"Path", "PosixPath", "PurePath", "PurePosixPath"}),
    "pathlib._local": frozenset({"Path", "PosixPath", "PurePath", "PurePosixPath"}),
    "time": frozenset({"perf_counter"}),
    "uuid": frozenset({"UUID", "SafeUUID"}),
    "numpy": frozenset({"dtype", "ndarray"}),
    "numpy._core.multiarray": frozenset({"_reconstruct", "scalar"}),
    "numpy._core.numeric": frozenset({"_frombuffer"}),
    __name__: frozenset({"CallResult", "UserFacingError"}),
}


class AnswerUnpickler(Unpickler):
    """Reads a worker's answer: plain values and those of the contract. No answer runs code or imports a plugin."""

    def find_class(self, module: str, name: str) -> Any:
        if name in PLAIN.get(module, ()):
            return super().find_class(module, name)
        if module.startswith(CORE):
            found = super().find_class(module, name)
            # a name that a module of the core has imported is refused
            if isinstance(found, type) and found.__module__.startswith(CORE):
                return found
        raise InvalidResult(f"its answer cannot be used ({name})")


def packed(value: Any) -> bytes:
    data = io.BytesIO()
    Pickler(data, pickle.HIGHEST_PROTOCOL).dump(value)
    return data.getvalue()


def send(link: socket.socket, data: bytes) -> None:
    """Send one message. Raises OSError."""
    link.sendall(struct.pack("!Q", len(data)) + data)


def receive(link: socket.socket, ends: float | None = None) -> bytes:
    """Receive one message.

    Raises:
        TimeoutError: no message came until `ends`, by the monotonic clock.
        EOFError: the peer has closed the connection.
    """
    (size,) = struct.unpack("!Q", _exactly(link, 8, ends))
    return _exactly(link, size, ends)


def _exactly(link: socket.socket, size: int, ends: float | None) -> bytes:
    found = bytearray()
    while len(found) < size:
        if ends is not None:
            link.settimeout(max(ends - time.monotonic(), 0.001))
        part = link.recv(min(size - len(found), 1 << 20))
        if not part:
            raise EOFError
        found += part
    return bytes(found)
