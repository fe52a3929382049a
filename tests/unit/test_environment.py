"""The environment: defaults, refusals in one line, unknown names, and the secret key that is kept."""

from __future__ import annotations

import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from portal.environment import PROJECT_DIR, Environment, InvalidEnvironment, load, variable_names

KEY = "k" * 32


def parsed(**variables: str) -> Environment:
    return load({"NOVELLA_SECRET_KEY": KEY, **variables})


def test_defaults() -> None:
    assert parsed() == Environment(
        host="127.0.0.1",
        port=8000,
        data=PROJECT_DIR / "var",
        secret_key=KEY,
        allowed_hosts=("localhost", "127.0.0.1", "[::1]"),
        debug=False,
        log_level="INFO",
        virt_type="auto",
        real_host="auto",
        simulated_hosts=8,
        simulated_latency_seconds=1.0,
        lease_seconds=10.0,
        sweep_seconds=2.0,
        crash_at="",
    )


def test_an_empty_value_counts_as_not_set() -> None:
    assert load(dict.fromkeys(variable_names(), "") | {"NOVELLA_SECRET_KEY": KEY}) == parsed()


def test_other_programs_variables_are_left_alone() -> None:
    assert load({"NOVELLA_SECRET_KEY": KEY, "PATH": "/bin", "NOVELLAS": "x"}) == parsed()


@pytest.mark.parametrize(
    ("name", "value", "line"),
    [
        ("NOVELLA_PORT", "abc", 'NOVELLA_PORT: "abc" is not a port number (1 to 65535)'),
        ("NOVELLA_PORT", "0", 'NOVELLA_PORT: "0" is not a port number (1 to 65535)'),
        ("NOVELLA_PORT", "65536", 'NOVELLA_PORT: "65536" is not a port number (1 to 65535)'),
        ("NOVELLA_PORT", "8_0", 'NOVELLA_PORT: "8_0" is not a port number (1 to 65535)'),
        ("NOVELLA_PORT", "٨", 'NOVELLA_PORT: "٨" is not a port number (1 to 65535)'),
        ("NOVELLA_HOST", "1.2.3", 'NOVELLA_HOST: "1.2.3" is neither an IP address nor a host name'),
        ("NOVELLA_HOST", "a b", 'NOVELLA_HOST: "a b" is neither an IP address nor a host name'),
        ("NOVELLA_HOST", "-a", 'NOVELLA_HOST: "-a" is neither an IP address nor a host name'),
        ("NOVELLA_VIRT_TYPE", "xen", 'NOVELLA_VIRT_TYPE: "xen" is not one of auto, kvm, qemu'),
        ("NOVELLA_REAL_HOST", "yes", 'NOVELLA_REAL_HOST: "yes" is not one of auto, on, off'),
        ("NOVELLA_LEASE_SECONDS", "nan", 'NOVELLA_LEASE_SECONDS: "nan" is not a number of seconds (0.5 to 3600)'),
        ("NOVELLA_LEASE_SECONDS", "inf", 'NOVELLA_LEASE_SECONDS: "inf" is not a number of seconds (0.5 to 3600)'),
        ("NOVELLA_SWEEP_SECONDS", "0", 'NOVELLA_SWEEP_SECONDS: "0" is not a number of seconds (0.1 to 3600)'),
        (
            "NOVELLA_SIMULATED_HOSTS",
            "-1",
            'NOVELLA_SIMULATED_HOSTS: "-1" is not a number of hosts per cell (0 to 10000)',
        ),
        (
            "NOVELLA_SIMULATED_LATENCY_SECONDS",
            "1s",
            'NOVELLA_SIMULATED_LATENCY_SECONDS: "1s" is not a number of seconds (0 to 600)',
        ),
        (
            "NOVELLA_LOG_LEVEL",
            "loud",
            'NOVELLA_LOG_LEVEL: "loud" is not one of DEBUG, INFO, WARNING, ERROR, CRITICAL',
        ),
        (
            "NOVELLA_ALLOWED_HOSTS",
            "cloud.example, a/b",
            'NOVELLA_ALLOWED_HOSTS: "a/b" is not a host name (names separated by commas, or *)',
        ),
        ("NOVELLA_DEBUG", "maybe", 'NOVELLA_DEBUG: "maybe" is neither on nor off'),
        ("NOVELLA_CRASH_AT", "a b", 'NOVELLA_CRASH_AT: "a b" is not the name of a failpoint'),
        ("NOVELLA_PROT", "1", "NOVELLA_PROT: no such variable; the nearest known one is NOVELLA_PORT"),
        ("NOVELLA_", "1", "NOVELLA_: no such variable; the nearest known one is NOVELLA_PORT"),
    ],
)
def test_refusals_name_the_variable_and_what_it_may_be(name: str, value: str, line: str) -> None:
    with pytest.raises(InvalidEnvironment) as refused:
        parsed(**{name: value})
    assert str(refused.value) == line


def test_a_refused_key_is_not_shown() -> None:
    with pytest.raises(InvalidEnvironment) as refused:
        load({"NOVELLA_SECRET_KEY": "hunter2"})
    assert str(refused.value) == "NOVELLA_SECRET_KEY: the key is shorter than 32 characters"
    assert KEY not in repr(parsed())


@pytest.mark.parametrize(
    ("host", "allowed"),
    [
        ("localhost", ("localhost", "127.0.0.1", "[::1]")),
        ("::1", ("localhost", "127.0.0.1", "[::1]")),
        ("192.0.2.7", ("localhost", "127.0.0.1", "[::1]", "192.0.2.7")),
        ("2001:db8::7", ("localhost", "127.0.0.1", "[::1]", "[2001:db8::7]")),
        ("0.0.0.0", ("*",)),
    ],
)
def test_hosts_allowed_follow_the_address_served(host: str, allowed: tuple[str, ...]) -> None:
    assert parsed(NOVELLA_HOST=host).allowed_hosts == allowed
    assert parsed(NOVELLA_HOST=host, NOVELLA_ALLOWED_HOSTS="a.example,b").allowed_hosts == ("a.example", "b")


@given(st.integers(1, 65535))
def test_every_port_is_taken_as_it_is(port: int) -> None:
    assert parsed(NOVELLA_PORT=str(port)).port == port


@given(st.text(max_size=12), st.sampled_from(sorted(set(variable_names()) - {"NOVELLA_DATA"})))
def test_any_text_is_parsed_or_refused_by_its_name(text: str, name: str) -> None:
    refusal = f"{name}: "
    try:
        parsed(**{name: text})
    except InvalidEnvironment as refused:
        refusal = str(refused)
    assert refusal.startswith(f"{name}: ")


def test_data_is_always_an_absolute_path(tmp_path: Path) -> None:
    assert parsed(NOVELLA_DATA="elsewhere").data_dir == PROJECT_DIR / "elsewhere"
    assert parsed(NOVELLA_DATA=str(tmp_path)).data_dir == tmp_path


def test_the_key_is_made_once_and_kept_private(tmp_path: Path) -> None:
    first = load({"NOVELLA_DATA": str(tmp_path / "data")})
    assert load({"NOVELLA_DATA": str(tmp_path / "data")}) == first
    path = tmp_path / "data" / "secret_key"
    assert path.read_text() == first.secret_key + "\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert len(first.secret_key) == 64


def test_processes_that_start_together_agree_on_the_key(tmp_path: Path) -> None:
    keys: list[str] = []
    gate = threading.Barrier(8)

    def start() -> None:
        gate.wait()
        keys.append(load({"NOVELLA_DATA": str(tmp_path)}).secret_key)

    threads = [threading.Thread(target=start) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(keys) == 8
    assert len(set(keys)) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["secret_key"]


def test_a_spoilt_key_file_stops_the_start_and_stays(tmp_path: Path) -> None:
    (tmp_path / "secret_key").write_text("short\n")
    with pytest.raises(InvalidEnvironment, match="holds no usable key"):
        load({"NOVELLA_DATA": str(tmp_path)})
    assert (tmp_path / "secret_key").read_text() == "short\n"


def test_data_that_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidEnvironment) as refused:
        load({"NOVELLA_DATA": str(tmp_path / "file" / "data")})
    assert str(refused.value) == f"NOVELLA_DATA: cannot use {tmp_path}/file/data: Not a directory"


def test_a_wrong_variable_stops_manage_py_with_one_line(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, str(PROJECT_DIR / "manage.py"), "check"],
        env={"NOVELLA_PORT": "abc", "NOVELLA_DATA": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == 'NOVELLA_PORT: "abc" is not a port number (1 to 65535)\n'
    assert list(tmp_path.iterdir()) == []
