"""uvicorn as our processes run it: one server in this process, or several in processes of their own."""

from __future__ import annotations

import signal
import ssl
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from socket import socket

import uvicorn
from django.conf import settings
from uvicorn.supervisors import Multiprocess

from conductor.management.http_protocol import BoundedProtocol

GRACEFUL_SECONDS = 5
# Clients poll on the same connection every five seconds: one that is closed just then would be an error for them.
IDLE_SECONDS = 75
POLL_SECONDS = 0.1


def config_of(application: str, host: str, port: int, *, workers: int = 1) -> uvicorn.Config:
    """Return the configuration. `application` is "module:attribute", so that a new process can import it.

    With a certificate it serves TLS.
    """
    return uvicorn.Config(
        application,
        host=host,
        port=port,
        workers=workers,
        http=BoundedProtocol,
        log_config=None,
        access_log=False,
        timeout_keep_alive=IDLE_SECONDS,
        timeout_graceful_shutdown=GRACEFUL_SECONDS,
        lifespan="off",
        proxy_headers=False,  # the application trusts them from the proxies that the operator names
        ssl_certfile=settings.NOVELLA_TLS_CERT,
        ssl_keyfile=settings.NOVELLA_TLS_KEY,
    )


def serve(config: uvicorn.Config, on_ready: Callable[[], None]) -> None:
    """Serve until SIGTERM or SIGINT; `on_ready` is called once it listens."""
    # The server raises its signal again once it has shut down; we ignore that, as the rest is still to be stopped.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)
    if config.workers == 1:
        _Server(config, on_ready).run()
    else:
        _serve_in_many(config, on_ready)


def _serve_in_many(config: uvicorn.Config, on_ready: Callable[[], None]) -> None:
    """Serve one socket with several processes; one that dies is restarted."""
    shared = config.bind_socket()
    stopped = threading.Event()
    prober = threading.Thread(target=_await_answer, args=(config, stopped, on_ready), name="readiness", daemon=True)
    prober.start()
    try:
        Multiprocess(config, sockets=[shared]).run()
    finally:
        stopped.set()
        shared.close()


def _await_answer(config: uvicorn.Config, stopped: threading.Event, on_ready: Callable[[], None]) -> None:
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(config.host, config.host)
    shown = f"[{host}]" if ":" in host else host
    scheme = "https" if config.is_ssl else "http"
    unchecked = ssl.create_default_context()  # without a check of the certificate: it is our own process that answers
    unchecked.check_hostname, unchecked.verify_mode = False, ssl.CERT_NONE
    while not stopped.is_set():
        try:
            urllib.request.urlopen(f"{scheme}://{shown}:{config.port}/healthz", timeout=5, context=unchecked).close()
        except urllib.error.HTTPError:
            break  # it refuses this host name, and so it is up
        except OSError:
            time.sleep(POLL_SECONDS)
        else:
            break
    if not stopped.is_set():
        on_ready()


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, on_ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_ready = on_ready

    async def startup(self, sockets: list[socket] | None = None) -> None:
        await super().startup(sockets)
        if not self.should_exit:
            self._on_ready()
