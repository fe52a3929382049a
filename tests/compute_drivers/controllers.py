"""Management controllers that are programs: sushy-tools with its fake machines, and a web server for media."""

from __future__ import annotations

import copy
import functools
import http.server
import json
import ssl
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any
from uuid import UUID

import bcrypt
import sushy_tools.emulator.main as emulator
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from sushy_tools import error
from sushy_tools.emulator import auth_basic
from sushy_tools.emulator.resources.systems import fakedriver
from werkzeug.serving import WSGIRequestHandler, make_server

USER, PASSWORD = "novella", "correct horse"
SPARE = 7  # a machine that tests of faults may spoil
COUNT = 8
VCPUS, MEMORY_GB, DISK_GB = 8, 32, 480
ERASE = "/Actions/Drive.SecureErase"


def uuid_of(number: int) -> str:
    return str(UUID(int=0xAA00 + number))


class Machines(fakedriver.FakeDriver):
    """Machines that execute commands at once, and report their size."""

    deaf: set[str] = set()  # machines whose systems ignore the power button
    interrupts: list[str] = []

    def __init__(self) -> None:
        super().__init__()
        self._systems = dict(self._systems)

    def set_power_state(self, identity: str, state: str) -> None:
        if state == "Nmi":
            self.interrupts.append(identity)
            return
        if state == "GracefulShutdown" and identity in self.deaf:
            return
        self._update(identity, power_state="On" if "On" in state else "Off")

    def get_total_cpus(self, identity: str) -> int:
        return VCPUS

    def get_total_memory(self, identity: str) -> int:
        return MEMORY_GB

    def get_processors(self, identity: str) -> Any:
        raise error.NotSupportedError("they are not listed one by one")


class _Copies(dict[Any, Any]):
    """Inserted media are copies of those that exist, as the emulator expects."""

    def update(self, *others: Any) -> None:
        super().update(copy.deepcopy(dict(*others)))


@dataclass
class Between:
    """Proxy in front of the controllers: gives drives an erase action, records the erased ones, and breaks what it is
    that are to fail, as path → status."""

    app: Callable[..., Iterable[bytes]]
    erased: list[str] = field(default_factory=list)
    breaks: dict[str, int] = field(default_factory=dict)
    asked: list[tuple[str, str]] = field(default_factory=list)

    def __call__(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        path, method = environ["PATH_INFO"], environ["REQUEST_METHOD"]
        self.asked.append((method, path))
        broken = next((status for part, status in self.breaks.items() if part in path), 0)
        if broken:
            start(f"{broken} Broken", [("Content-Type", "text/plain")])
            return [b"no JSON at all"]
        if path.endswith(ERASE):
            self.erased.append(path)
            start("204 No Content", [])
            return [b""]
        if "/Drives/" not in path:
            return self.app(environ, start)
        started: list[Any] = []
        body = json.loads(b"".join(self.app(environ, lambda *words: started.extend(words))))
        body["Actions"] = {"#Drive.SecureErase": {"target": f"{path}{ERASE}"}}
        encoded = json.dumps(body).encode()
        start(started[0], [("Content-Type", "application/json"), ("Content-Length", str(len(encoded)))])
        return [encoded]


class _Quiet(WSGIRequestHandler):
    def log(self, kind: str, message: str, *args: Any) -> None:
        """Log nothing: tests report by themselves."""


class _QuietFiles(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Log nothing either."""


@dataclass
class Rack:
    """The controllers' addresses, plain and encrypted, and the proxy before them."""

    url: str
    secure_url: str
    between: Between
    machines: Machines
    media_dir: Path
    media_url: str

    def state(self, number: int) -> dict[str, Any]:
        """Return the machine as it really is."""
        return dict(self.machines._get(uuid_of(number)))

    def media(self, number: int) -> dict[str, str]:
        """Return the inserted media, by device."""
        devices = emulator.app.vmedia
        found = {name: devices.get_device_image_info(uuid_of(number), name) for name in devices.devices}
        return {name: info.image_url for name, info in found.items() if info.inserted}


def _set_up(folder: Path) -> None:
    auth = folder / "users"
    auth.write_text(f"{USER}:{bcrypt.hashpw(PASSWORD.encode(), bcrypt.gensalt(4)).decode()}\n")
    systems = [
        {
            "uuid": uuid_of(number),
            "name": f"m{number}",
            "power_state": "Off",
            "nics": [{"mac": f"52:54:00:00:0{number}:0{card}", "ip": "192.0.2.9"} for card in range(2)],
        }
        for number in range(COUNT)
    ]
    drives = [f"d{number}" for number in range(2)]
    fakedriver.FakeDriver = Machines  # type: ignore[misc]
    emulator.app.configure(
        extra_config={
            "SUSHY_EMULATOR_FAKE_DRIVER": True,
            "SUSHY_EMULATOR_FAKE_SYSTEMS": systems,
            "SUSHY_EMULATOR_STATE_DIR": str(folder),
            "SUSHY_EMULATOR_AUTH_FILE": str(auth),
            "SUSHY_EMULATOR_STORAGE": {
                uuid_of(number): [{"Id": "1", "Name": "Controller", "StorageControllers": [], "Drives": drives}]
                for number in range(COUNT)
            },
            "SUSHY_EMULATOR_DRIVES": {
                (uuid_of(number), "1"): [
                    {"Id": name, "Name": name, "CapacityBytes": DISK_GB << 30, "Protocol": "SATA"} for name in drives
                ]
                for number in range(COUNT)
            },
        }
    )


@contextmanager
def rack(folder: Path, certificate: Path) -> Iterator[Rack]:
    """Controllers of COUNT machines. The emulator is one per process, so its state is in a folder of this one."""
    _set_up(folder)
    # Its own are databases that are opened for each look, and passwords that are hashed anew for each request.
    emulator.app.vmedia._devices = _Copies()
    emulator.app.indicators._indicators = {}
    auth_basic.authenticate = functools.cache(auth_basic.authenticate)
    between = Between(emulator.app)
    media_dir = folder / "media"
    media_dir.mkdir()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    with ExitStack() as stack:
        plain = make_server("127.0.0.1", 0, between, threaded=True, request_handler=_Quiet)
        secure = make_server("127.0.0.1", 0, between, threaded=True, request_handler=_Quiet, ssl_context=context)
        files = http.server.ThreadingHTTPServer(
            ("127.0.0.1", 0), functools.partial(_QuietFiles, directory=str(media_dir))
        )
        for server in (plain, secure, files):
            stack.enter_context(_serving(server))
        yield Rack(
            f"http://127.0.0.1:{plain.server_port}",
            f"https://127.0.0.1:{secure.server_port}",
            between,
            emulator.app.systems,
            media_dir,
            f"http://127.0.0.1:{files.server_port}",
        )


def certificate_of(folder: Path) -> Path:
    """Key and certificate of 127.0.0.1, which only this file vouches for."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "controllers")])
    began = datetime.now(UTC) - timedelta(hours=1)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(began)
        .not_valid_after(began + timedelta(days=2))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(IPv4Address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    path = folder / "certificate.pem"
    path.write_bytes(private + made.public_bytes(pem))
    return path


@contextmanager
def _serving(server: Any) -> Iterator[None]:
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.2}, daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join(timeout=240)
        server.server_close()
