"""A PostgreSQL server of a test's own: Debian's binaries, a private cluster in a folder, loopback only.

service = postgresql.start(folder)
service.url                      # postgresql://novella@127.0.0.1:40123/novella
service.kill(); service.restart()  # SIGKILL, and back on the same port with all that was committed
service.stop()
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.services import process
from tests.waiting import wait_until

INSTALLED = Path("/usr/lib/postgresql")  # one folder per major version
ACCOUNT = "postgres"  # the server refuses to run as root; Debian makes this account with the package
ROLE = "novella"
START_SECONDS = 120.0
# Small and quick: what a test proves does not depend on the size of the caches. The system keeps what a killed server
# has written, so nothing waits for the disk; a killed server may have written half a page.
CONFIGURATION = """
listen_addresses = '127.0.0.1'
port = {port}
unix_socket_directories = ''
max_connections = 500
shared_buffers = 64MB
max_wal_size = 512MB
autovacuum_naptime = 10s
wal_level = minimal
max_wal_senders = 0
log_min_messages = warning
log_lock_waits = on
deadlock_timeout = 200ms
fsync = off
synchronous_commit = {durable}
full_page_writes = {durable}
"""


@dataclass
class Service:
    """A running server; `folder` holds its cluster (`data`) and its log."""

    folder: Path
    port: int
    pid: int = 0

    @property
    def url(self) -> str:
        """The value for NOVELLA_DATABASE_URL; databases are `novella_api`, `novella_cell0`, …"""
        return f"postgresql://{ROLE}@127.0.0.1:{self.port}/novella"

    @property
    def log_path(self) -> Path:
        return self.folder / "postgresql.log"

    def psql(self, statement: str, database: str = "postgres") -> str:
        """Return the result of a statement, a line per row, columns separated by |."""
        command = [
            "-h",
            "127.0.0.1",
            "-p",
            str(self.port),
            "-U",
            ROLE,
            "-d",
            database,
            "-XAtq",
            "-v",
            "ON_ERROR_STOP=1",
        ]
        requested = subprocess.run(
            [binaries() / "psql", *command, "-c", statement], capture_output=True, text=True, check=False, timeout=60
        )
        if requested.returncode:
            raise RuntimeError(requested.stderr.strip())
        return requested.stdout.strip()

    def kill(self) -> None:
        """SIGKILL to the server and every backend, and wait until all are gone."""
        children = _children(self.pid)
        for pid in (self.pid, *children):
            _signal(pid, signal.SIGKILL)
        _await_gone([self.pid, *children])

    def stop(self) -> None:
        """Stop it cleanly; sessions are cut. Stopping twice does nothing."""
        if self.pid and _is_alive(self.pid):
            _signal(self.pid, signal.SIGINT)  # fast shutdown
            _await_gone([self.pid])
        self.pid = 0

    def restart(self) -> None:
        """Start again on the same port and data, after `kill` or `stop`."""
        self.stop()
        (self.folder / "data" / "postmaster.pid").unlink(missing_ok=True)
        _launch(self)


def binaries() -> Path:
    """Return the programs of the newest version that is installed."""
    found = sorted(INSTALLED.glob("*/bin"), key=lambda path: float(path.parent.name))
    if not found:
        raise RuntimeError(f"nothing in {INSTALLED}: install Debian's package postgresql (make test does)")
    return found[-1]


def start(folder: Path, *, is_durable: bool = True) -> Service:
    """Start a fresh cluster in `folder`. Durable: what is committed outlives `kill`, which few tests need."""
    folder.mkdir(parents=True, exist_ok=True)
    service = Service(folder, process.free_port())
    _own(folder)
    data = folder / "data"
    initdb = [binaries() / "initdb", "-D", data, "-U", ROLE, "-A", "trust", "-E", "UTF8", "--no-sync"]
    _run([*initdb, "--lc-collate=C", "--lc-ctype=C.UTF-8", "--lc-messages=C"])
    written = CONFIGURATION.format(port=service.port, durable="on" if is_durable else "off")
    with (data / "postgresql.conf").open("a") as file:
        file.write(written)
    (data / "pg_hba.conf").write_text("local all all trust\nhost all all 127.0.0.1/32 trust\n")
    _launch(service)
    return service


def start_copy(data: Path, folder: Path, *, is_durable: bool = True) -> Service:
    """Return a cluster in `folder` that begins with what is in `data`: the data directory of one that was stopped."""
    folder.mkdir(parents=True, exist_ok=True)
    _own(folder)
    subprocess.run(["cp", "-a", str(data), str(folder / "data")], check=True)
    return start_there(folder, is_durable=is_durable)


def start_there(folder: Path, *, is_durable: bool = True) -> Service:
    """Start a server on the data directory of a stopped one, which is in `folder` as `data`."""
    service = Service(folder, process.free_port())
    _own(folder)
    with (folder / "data" / "postgresql.conf").open("a") as file:  # of two lines the later counts
        file.write(CONFIGURATION.format(port=service.port, durable="on" if is_durable else "off"))
    _launch(service)
    return service


def _launch(service: Service) -> None:
    log = service.log_path.open("a")
    started = subprocess.Popen(
        _as_account([binaries() / "postgres", "-D", service.folder / "data"]),
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        start_new_session=True,
    )
    log.close()
    service.pid = started.pid
    asks = [binaries() / "pg_isready", "-q", "-h", "127.0.0.1", "-p", str(service.port), "-U", ROLE]

    def has_ended_or_answers() -> bool:
        return started.poll() is not None or subprocess.run(asks, check=False).returncode == 0

    def tail() -> str:
        return service.log_path.read_text()[-2000:]

    wait_until("PostgreSQL answers", has_ended_or_answers, START_SECONDS, pause=0.05, details=tail)
    if started.poll() is not None:
        raise RuntimeError(f"PostgreSQL did not start: {tail()}")


def _as_account(command: Sequence[object]) -> list[str]:
    """Return the command for an account that may run it. setpriv becomes the program, so the pid is the server's."""
    words = [str(word) for word in command]
    if os.geteuid() != 0:
        return words
    return ["setpriv", "--reuid", ACCOUNT, "--regid", ACCOUNT, "--init-groups", *words]


def _run(command: Sequence[object]) -> None:
    ended = subprocess.run(_as_account(command), capture_output=True, text=True, check=False, cwd="/")
    if ended.returncode:
        raise RuntimeError(ended.stderr.strip())


def _own(folder: Path) -> None:
    """Let the account reach its folder, also below a private temporary one."""
    if os.geteuid() != 0:
        return
    account = pwd.getpwnam(ACCOUNT)
    shutil.chown(folder, account.pw_uid, account.pw_gid)
    for parent in folder.parents:
        mode = parent.stat().st_mode
        if not mode & 0o001:
            parent.chmod(mode | 0o001)


def _children(pid: int) -> list[int]:
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def _signal(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


def _is_alive(pid: int) -> bool:
    try:
        done, _ = os.waitpid(pid, os.WNOHANG)  # ours is a child: reap it
        if done == pid:
            return False
    except ChildProcessError:
        pass
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def _await_gone(pids: Sequence[int]) -> None:
    wait_until(f"processes {pids} are gone", lambda: not any(_is_alive(pid) for pid in pids))
