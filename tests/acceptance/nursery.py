"""Starts `manage.py` processes quickly: a parent that has imported the product forks each of them.

There is a parent for the libraries, and below it one for each command, which has imported what that command needs. A
process that it forks takes its own environment, assembles Django's settings from it, and then behaves like
`python manage.py …`, except that it starts faster. Where an import has read a setting, or may have read a
variable, that is another one in this environment, the process starts `python manage.py …` in its place.

A parent reads one JSON line per process to start and writes one when a process has begun or ended; when its own parent
is gone it ends all that it started.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import json
import os
import queue
import select
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parents[2]
START_SECONDS = 240.0
END_WITH_PARENT = 1  # PR_SET_PDEATHSIG
# The most expensive imports of a start. dramatiq is not here: it reads its options when it is imported.
LIBRARIES = (
    "django.core.management.commands.migrate",
    "django.core.wsgi",
    "django.db.models",
    "django.db.backends.sqlite3.base",
    "django.db.backends.postgresql.base",
    "django.template.loader",
    "django.template.loader_tags",
    "django.template.defaulttags",
    "django.contrib.sessions.backends.db",
    "django.contrib.messages.storage.fallback",
    "django.contrib.staticfiles.finders",
    "django.forms",
    "django.views.generic",
    "django.http",
    "rest_framework.exceptions",
    "rest_framework.request",
    "channels.generic.websocket",
    "channels.sessions",
    "channels.routing",
    "channels_redis.pubsub",
    "uvicorn.server",
    "uvicorn.supervisors",
    "uvicorn.protocols.http.httptools_impl",
    "uvloop",
    "websockets.asyncio.server",
    "numpy",
    "jsonschema",
    "cryptography.hazmat.primitives.serialization",
    "cryptography.hazmat.primitives.asymmetric.rsa",
    "cryptography.x509",
    "psycopg",
    "psycopg.types.json",
    "pika",
    "redis",
    "a2wsgi",
    "whitenoise.middleware",
    "django_htmx.middleware",
    "pluggy",
    "importlib.metadata",
    "logging.config",
    "asyncio",
    "multiprocessing",
)

# Variables of this test run, or of the operator: children do not inherit them.
NOT_INHERITED = ("NOVELLA_", "OS_", "DJANGO_", "PYTEST_")

# Imports of a command that read no variable of a deployment: no actors, which need the broker, and no ASGI application.
_WORK = (
    "conductor.workflows.catalog",
    "conductor.workflows.engine.executor",
    "conductor.workflows.scheduler_calls",
    "conductor.scheduler.manager",
    "conductor.management.preflight",
    "conductor.actors.liveness",
    "conductor.actors.periodic",
    "conductor.actors.report_intake",
)
_HOST = ("conductor.compute.agent", "conductor.management.preflight")
_WEB = (
    "portal.urls",
    "portal.request_limits",
    "portal.live.event_streams",
    "portal.live.polls",
    "portal.live.routing",
)
PRODUCT = {"up": (*_WEB, *_WORK, *_HOST), "web": _WEB, "compute": _HOST}
# Settings that imports have read and that a process reads again.
READ_AGAIN = {"DATABASES", "LOGGING"}


def inherited_environment() -> dict[str, str]:
    """Return the part of this process's environment that a test's child process inherits."""
    return {name: value for name, value in os.environ.items() if not name.startswith(NOT_INHERITED)}


@dataclass
class Child:
    """A process that the nursery started; `code` is its exit code once it has ended, negative for a signal.

    It has the attributes of `subprocess.Popen` too, so that a test need not know which of them it has.
    """

    pid: int
    code: int | None = None
    ended: threading.Event = field(default_factory=threading.Event)

    def send_signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            if self.code is None:
                os.kill(self.pid, number)

    def wait(self, timeout: float) -> int:
        if not self.ended.wait(timeout):
            raise TimeoutError(f"process {self.pid} does not end")
        assert self.code is not None
        return self.code

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def poll(self) -> int | None:
        return self.code

    @property
    def returncode(self) -> int | None:
        return self.code


class Nursery:
    """The parent, and the children that live."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.acceptance.nursery"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=PROJECT,
            start_new_session=True,  # what ends the tests' group must leave it the time to end its children
        )
        self._begun: queue.Queue[int] = queue.Queue()
        self._children: dict[int, Child] = {}
        self._lock = threading.Lock()
        self._reader = threading.Thread(target=self._read, name="nursery", daemon=True)
        self._reader.start()

    def spawn(self, arguments: Sequence[str], environment: Mapping[str, str], log: Path) -> Child:
        """Start `manage.py` with these arguments; its output is appended to `log`."""
        assert self._process.stdin is not None
        with self._lock:
            requested = {"arguments": list(arguments), "environment": dict(environment), "log": str(log)}
            self._process.stdin.write(json.dumps(requested) + "\n")
            self._process.stdin.flush()
            return self._children[self._begun.get(timeout=START_SECONDS)]

    def close(self) -> None:
        """End whatever still lives, and the nursery."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=START_SECONDS)
        self._reader.join(timeout=START_SECONDS)
        assert self._process.stdout is not None
        self._process.stdout.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            body = json.loads(line)
            if "code" not in body:
                self._children[body["pid"]] = Child(body["pid"])
                self._begun.put(body["pid"])
                continue
            child = self._children[body["pid"]]
            child.code = body["code"]
            child.ended.set()


# -- inside the nursery -------------------------------------------------------------------------------------------


def main() -> None:
    gc.disable()  # until a child has loaded its command
    for name in LIBRARIES:
        importlib.import_module(name)
    from django.conf import settings

    assert not settings.configured, "a library has read the settings: children would have the nursery's"
    _serve(0, _Parents())


@dataclass
class _Parents:
    """The parents below this one, by command."""

    pipes: dict[str, int] = field(default_factory=dict)  # for their requests
    pids: set[int] = field(default_factory=set)

    def of(self, requested: dict[str, Any]) -> int:
        """Return the pipe of the parent for a requested command. The first request for a command starts it."""
        command = requested["arguments"][0]
        if command not in self.pipes:
            read, self.pipes[command] = os.pipe()
            pid = os.fork()
            if pid == 0:
                for written in self.pipes.values():  # otherwise the pipes would never reach their end
                    os.close(written)
                _be_parent(read, requested)
            os.close(read)
            self.pids.add(pid)
        return self.pipes[command]


# What imports of this parent may have read, besides settings.
_parents_variables: dict[str, str] = {}


def _fixed_variables(requested: dict[str, Any]) -> dict[str, str]:
    """Return the variables of a request that are no settings."""
    environment: dict[str, str] = requested["environment"]
    return {name: value for name, value in environment.items() if not name.startswith("NOVELLA_")}


def _be_parent(requests: int, requested: dict[str, Any]) -> None:
    """Import what a command needs, in the environment of its first request, and serve; never returns."""
    code = 70
    try:
        ctypes.CDLL(None).prctl(END_WITH_PARENT, signal.SIGKILL)
        _parents_variables.update(_fixed_variables(requested))
        _take_environment(requested)
        os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")
        import django

        django.setup()
        for name in PRODUCT.get(requested["arguments"][0], _WORK):
            importlib.import_module(name)
        _serve(requests, None)
        code = 0
    except BaseException:
        traceback.print_exc()  # otherwise the waiting caller would not see why no child starts
    finally:
        os._exit(code)


def _serve(requests: int, parents: _Parents | None) -> None:
    """Fork a child for each line that is read, until there will be none."""
    gc.collect()
    gc.freeze()  # children share these pages until one of them writes
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    alive: set[int] = set()
    lines = os.fdopen(requests, "rb", buffering=0)  # a buffer would hide lines from select
    sources = (lines.fileno(), woken)
    while True:
        readable, _, _ = select.select(sources, [], [])
        if woken in readable:
            os.read(woken, 4096)
            _reap(alive)
        if lines.fileno() in readable:
            line = lines.readline()
            if not line:
                break
            requested = json.loads(line)
            if parents:
                os.write(parents.of(requested), line)
            else:
                alive.add(_fork(requested))
    for below in parents.pipes.values() if parents else ():
        os.close(below)  # they end what they started
    _end_all(alive)
    for pid in parents.pids if parents else ():
        os.waitpid(pid, 0)


def _fork(requested: dict[str, Any]) -> int:
    pid = os.fork()
    if pid == 0:
        _become(requested)
    _say({"pid": pid})
    return pid


def _take_environment(requested: dict[str, Any]) -> None:
    os.environ.clear()
    os.environ.update(requested["environment"])


def _take_settings() -> bool:
    """Assemble the settings from this process's environment.

    Returns False where they cannot be assembled, or where an import of the parent has read a setting that differs here.
    """
    from django.conf import Settings, settings
    from django.db import connections

    from portal import environment

    read = {name: value for name, value in vars(settings).items() if name.isupper() and name not in READ_AGAIN}
    environment.current.cache_clear()
    try:
        importlib.reload(sys.modules["portal.settings"])
    except environment.InvalidEnvironment:
        return False
    settings._wrapped = Settings("portal.settings")
    for made in connections.all(initialized_only=True):
        del connections[made.alias]
    connections.settings = connections._settings = connections.configure_settings(None)
    return all(getattr(settings, name) == value for name, value in read.items())


def _become(requested: dict[str, Any]) -> None:
    """Become `manage.py` with the requested arguments and environment; never returns."""
    code = 70
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.setsid()
        ctypes.CDLL(None).prctl(END_WITH_PARENT, signal.SIGKILL)
        log = os.open(requested["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        nothing = os.open(os.devnull, os.O_RDONLY)
        for descriptor, place in ((nothing, 0), (log, 1), (log, 2)):
            os.dup2(descriptor, place)
        os.closerange(3, 256)
        sys.stdin = os.fdopen(0, closefd=False)
        sys.stdout = os.fdopen(1, "w", closefd=False, buffering=1)
        sys.stderr = os.fdopen(2, "w", closefd=False, buffering=1)
        _take_environment(requested)
        if _fixed_variables(requested) != _parents_variables or not _take_settings():
            os.execv(sys.executable, [sys.executable, str(PROJECT / "manage.py"), *requested["arguments"]])
        gc.unfreeze()
        from portal import cli

        sys.argv = ["manage.py", *requested["arguments"]]
        code = cli.main(sys.argv)
    except SystemExit as counted:
        code = counted.code if isinstance(counted.code, int) else int(counted.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _reap(alive: set[int]) -> None:
    for pid in list(alive):
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            alive.discard(pid)
            _say({"pid": pid, "code": os.waitstatus_to_exitcode(status)})


def _end_all(alive: set[int]) -> None:
    for pid in alive:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    for pid in list(alive):  # a process that was killed ends soon, however slow the machine is
        _, status = os.waitpid(pid, 0)
        alive.discard(pid)
        _say({"pid": pid, "code": os.waitstatus_to_exitcode(status)})


def _say(what: dict[str, Any]) -> None:
    os.write(1, (json.dumps(what) + "\n").encode())


if __name__ == "__main__":
    main()
