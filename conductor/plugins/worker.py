"""Worker process for foreign plugins, and the small process that forks it: `main` of this module."""

from __future__ import annotations

import importlib
import logging.config
import os
import pickle
import signal
import socket
import sys
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import jsonschema  # noqa: F401 - checks the options of plugins; here, so that no fork loads it in the time of a call
from django.conf import settings

from conductor.core.extensions import BY_KIND
from conductor.core.host_state import HostTable
from conductor.core.plugin_choice import FILTER
from conductor.core.plugin_log import PREFIX
from conductor.core.scheduling.watching import InvalidResult, NotCalled, PluginExited
from conductor.plugins.extensions import made
from conductor.plugins.loading import SHIPPED, describe, load
from conductor.plugins.ordering import ActivePlugins, chosen
from conductor.plugins.registry import Registry
from conductor.plugins.sinks import sink_of
from conductor.plugins.worker_protocol import (
    DONE,
    END,
    FORK,
    HOSTS,
    READY,
    SINK,
    CallResult,
    Start,
    Unpickler,
    WorkerCall,
    packed,
    receive,
    send,
)

MOST_BYTES = 65536
MOST_LINES = 200  # of a plugin's log, per call
NOT_FOUND = "it was not found in the process for plugins"
GRACE_SECONDS = 1.0  # the parent ends it first


class _LogCollector(logging.Handler):
    """Collects log lines of plugins for the parent, which logs them."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[dict[str, Any]] = []

    def emit(self, record: logging.LogRecord) -> None:
        if len(self.found) >= MOST_LINES:
            return
        text, trace = record.getMessage(), None
        if record.exc_info and record.exc_info[0]:
            text = f"{text} ({record.exc_info[0].__name__})"
            trace = "".join(traceback.format_exception(*record.exc_info))
        kept = ("name", "levelno", "levelname", "created", "pathname", "filename", "module", "lineno", "funcName")
        self.found.append({**{key: getattr(record, key) for key in kept}, "msg": text, "exc_text": trace})

    def take(self) -> list[dict[str, Any]]:
        taken, self.found = self.found, []
        return taken


class _Server:
    """Answers one call after another."""

    def __init__(self, found: Registry) -> None:
        self._found = found
        self._force: ActivePlugins = chosen(found, {})
        self._hosts = HostTable.from_states(())
        self._made: dict[tuple[str, str], tuple[Any, Any]] = {}  # sinks and extensions, with their options
        self._lines = _LogCollector()
        logger = logging.getLogger(PREFIX.rstrip("."))
        logger.handlers, logger.propagate = [self._lines], False

    def answer(self, question: WorkerCall) -> CallResult:
        """Answer a call. Never raises, as an exception of the plugin is part of the answer."""
        try:
            if question.choices is not None:
                self._force = chosen(self._found, question.choices)
            self._see(question)
            method, args = Unpickler(question.body, self._named).load()
            return CallResult(method(*args), None, self._lines.take())
        except Exception as error:
            return CallResult(None, error, self._lines.take())
        except BaseException as error:
            return CallResult(None, PluginExited(type(error).__name__), self._lines.take())

    def _see(self, question: WorkerCall) -> None:
        if not isinstance(question.states, Mapping):
            self._hosts = HostTable.from_states(question.states)
        elif question.states:
            self._hosts = self._hosts.with_rows(question.states)
        self._hosts = replace(self._hosts, age_seconds=question.age_seconds, claimed_rows=question.claimed_rows)

    def _named(self, name: tuple[Any, ...]) -> Any:
        if name == (HOSTS,):
            return self._hosts
        kind, called, *options = name
        if options:
            return self._made_of(kind, called, options[0])
        in_use: Sequence[Any] = self._force.filters if kind == FILTER else self._force.weighers
        brought: Sequence[Any] = self._found.loaded_filters if kind == FILTER else self._found.loaded_weighers
        for one in (*in_use, *brought):
            if one.name == called:
                return one
        raise NotCalled(NOT_FOUND)

    def _made_of(self, kind: str, name: str, options: Any) -> Any:
        """Return the sink or extension with these options. It keeps its state within this process."""
        kept = self._made.get((kind, name))
        if kept is not None and kept[0] == options:
            return kept[1]
        if name not in (self._found.sinks if kind == SINK else self._found.extensions.get(kind, {})):
            raise NotCalled(NOT_FOUND)
        new = made(self._found, kind, name, options) if kind in BY_KIND else sink_of(self._found.sinks, name, options)
        self._made[kind, name] = options, new
        return new


def serve(link: socket.socket) -> None:
    """Answer calls until the other side closes."""
    start: Start = pickle.loads(receive(link))
    sys.path[:] = start.path
    if start.describes is not None:
        send(link, packed(describe(start.loads, start.describes)))
        return
    server = _Server(load(start.loads.import_names, start.loads.options, without=start.loads.without))
    send(link, READY)
    while True:
        question: WorkerCall = pickle.loads(receive(link))
        # the signal ends this process if the parent does not live to do so
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, question.seconds + GRACE_SECONDS)
        answer = server.answer(question)
        try:
            data = packed(answer)
        except Exception as error:
            data = packed(
                CallResult(None, InvalidResult(f"its answer cannot be used ({type(error).__name__})"), answer.lines)
            )
        signal.setitimer(signal.ITIMER_REAL, 0)
        send(link, data)


def fork_for(control: socket.socket) -> None:
    """Fork a process at each request, and end those that requests name. It runs no plugin, so it always responds."""
    children: set[int] = set()
    while True:
        data, links, _, _ = socket.recv_fds(control, MOST_BYTES, 1)
        if not data:
            for pid in children:
                _end(pid)
            return
        if data.startswith(FORK):
            pid = os.fork()
            if pid == 0:
                control.close()
                _serve_and_exit(socket.socket(fileno=links[0]))
            os.close(links[0])
            children.add(pid)
            control.sendall(b"%d" % pid + DONE)
        else:
            pid = int(data[len(END) :].strip())
            if pid in children:  # not reaped yet, so no other process can have its pid
                _end(pid)
                children.discard(pid)
            control.sendall(DONE)


def _serve_and_exit(link: socket.socket) -> None:
    code = 1
    try:
        os.setsid()  # child processes of a plugin are in its group
        serve(link)
    except (EOFError, ConnectionError):
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def _end(pid: int) -> None:
    for kill in (os.killpg, os.kill):  # it has no group of its own at first
        with suppress(ProcessLookupError):
            kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def main() -> None:
    control = socket.socket(fileno=int(sys.argv[1]))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # this process ends with the parent
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")
    logging.config.dictConfig(settings.LOGGING)  # all that plugins need of Django, as they have no database
    for name in SHIPPED:  # loaded once for all forks
        with suppress(Exception):  # failures are logged where they occur
            importlib.import_module(name)
    control.sendall(DONE)
    fork_for(control)
