"""The environment: refusals in one line, unknown names, and the secret key that is kept."""

from __future__ import annotations

import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from portal import places
from portal.database_urls import DatabaseUrl
from portal.environment import Environment, InvalidEnvironment, load, variable_names
from portal.places import PROJECT_DIR
from tests.waiting import WAIT_SECONDS

KEY = "k" * 32


def parsed(**variables: str) -> Environment:
    return load({"NOVELLA_SECRET_KEY": KEY, **variables})


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("off", None),
        ("0.0.0.0:7000", ("0.0.0.0", 7000)),
        ("[::1]:0", ("::1", 0)),
        ("sim.example:1", ("sim.example", 1)),
    ],
)
def test_values_of_console_listen(text: str, place: tuple[str, int] | None) -> None:
    assert parsed(NOVELLA_CONSOLE_LISTEN=text).console_listen == place


@pytest.mark.parametrize("text", ["7000", "0.0.0.0", "a:b", "host:70000", ":1", "a b:1"])
def test_a_place_for_consoles_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(InvalidEnvironment, match="NOVELLA_CONSOLE_LISTEN"):
        parsed(NOVELLA_CONSOLE_LISTEN=text)


@pytest.mark.parametrize("remotes", ["tcp:10.0.0.1:6641,tcp:[fd00::1]:6641", "unix:/run/ovn/ovnnb_db.sock"])
def test_the_servers_of_ovn(remotes: str) -> None:
    found = parsed(NOVELLA_OVN_NORTHBOUND=remotes, NOVELLA_OVN_SOUTHBOUND=remotes)
    assert (found.ovn_northbound, found.ovn_southbound) == (remotes, remotes)


@pytest.mark.parametrize("remotes", ["10.0.0.1", "http://a:6641", "unix:ovn.sock", "tcp:a:6641,", "tcp:a b:1"])
def test_invalid_ovn_servers_are_refused(remotes: str) -> None:
    with pytest.raises(InvalidEnvironment, match=r"NOVELLA_OVN_NORTHBOUND: .* is not a server of OVN"):
        parsed(NOVELLA_OVN_NORTHBOUND=remotes, NOVELLA_OVN_SOUTHBOUND="tcp:a:6642")


def test_ovn_over_tls_needs_files_that_can_be_read(tmp_path: Path) -> None:
    remotes = dict.fromkeys(("NOVELLA_OVN_NORTHBOUND", "NOVELLA_OVN_SOUTHBOUND"), "ssl:a:6641,ssl:b:6641")
    names = [f"NOVELLA_OVN_{name}" for name in ("PRIVATE_KEY", "CERTIFICATE", "CA_CERTIFICATE")]
    files = {name: str(tmp_path / name) for name in names}
    for path in files.values():
        Path(path).write_text("PEM")
    found = parsed(**remotes, **files)
    assert [found.ovn_private_key, found.ovn_certificate, found.ovn_ca_certificate] == [*map(Path, files.values())]
    with pytest.raises(InvalidEnvironment, match="NOVELLA_OVN_PRIVATE_KEY: servers of OVN with ssl: need it"):
        parsed(**remotes)
    for name, path in files.items():
        with pytest.raises(InvalidEnvironment, match="with it, or neither of them"):
            parsed(**remotes, **{**files, name: ""})
        Path(path).unlink()
        with pytest.raises(InvalidEnvironment, match=f"{name}: {path} cannot be read: No such file or directory"):
            parsed(**remotes, **files)
        Path(path).write_text("PEM")


def test_one_database_of_ovn_is_not_enough() -> None:
    with pytest.raises(InvalidEnvironment, match="give NOVELLA_OVN_SOUTHBOUND with it, or neither of them"):
        parsed(NOVELLA_OVN_NORTHBOUND="tcp:a:6641")


@pytest.mark.parametrize(
    "url", ["zookeeper://a", "zookeeper://a:2181,b:2181/novella", "etcd://[::1]:2379/x", "third+party://a/b"]
)
def test_the_url_of_a_group(url: str) -> None:
    assert parsed(NOVELLA_MEMBERSHIP_URL=url).membership_url == url


@pytest.mark.parametrize("url", ["etcd", "etcd://", "etcd://a,/x", "etcd://ana:hunter2@a/x", "etcd://a/x?y", "://a"])
def test_invalid_group_urls_are_refused_without_showing_them(url: str) -> None:
    with pytest.raises(InvalidEnvironment) as refused:
        parsed(NOVELLA_MEMBERSHIP_URL=url)
    assert str(refused.value) == (
        "NOVELLA_MEMBERSHIP_URL: the URL is not one of a group service (zookeeper://host:port,host:port/path)"
    )


@pytest.mark.parametrize("url", ["http://id.example", "https://", "ftp://a", "https://a/?x=y", "https://ana:pw@a/"])
def test_an_issuer_is_reached_through_tls(url: str) -> None:
    with pytest.raises(InvalidEnvironment, match="NOVELLA_OIDC_ISSUER"):
        parsed(NOVELLA_OIDC_ISSUER=url, NOVELLA_OIDC_CLIENT_ID="cloud")


def test_settings_of_the_openid_provider() -> None:
    found = parsed(
        NOVELLA_OIDC_ISSUER="http://127.0.0.1:8080/realms/a",
        NOVELLA_OIDC_CLIENT_ID="cloud",
        NOVELLA_OIDC_SCOPES="openid groups",
        NOVELLA_OIDC_ROLES="crew=shop:member, a=b = admin : admin,*=lab:reader",
    )
    assert found.oidc_issuer == "http://127.0.0.1:8080/realms/a"
    assert found.oidc_scopes == ("openid", "groups")
    assert found.oidc_roles == (("crew", "shop", "member"), ("a=b", "admin", "admin"), ("*", "lab", "reader"))
    for lone in ("NOVELLA_OIDC_ISSUER", "NOVELLA_OIDC_CLIENT_ID"):
        with pytest.raises(InvalidEnvironment, match=f"^{lone}: give NOVELLA_OIDC_"):
            parsed(**{lone: "https://id.example"})
    for name, text in (("SCOPES", "profile"), ("ROLES", "crew"), ("ROLES", "crew=shop"), ("ROLES", "=shop:member")):
        with pytest.raises(InvalidEnvironment, match=f"NOVELLA_OIDC_{name}"):
            parsed(**{f"NOVELLA_OIDC_{name}": text})


def test_webhooks_are_signed() -> None:
    with pytest.raises(InvalidEnvironment, match="NOVELLA_NOTIFICATION_SECRET"):
        parsed(NOVELLA_NOTIFICATION_WEBHOOKS="https://a.example/x")
    with pytest.raises(InvalidEnvironment, match="NOVELLA_NOTIFICATION_WEBHOOKS"):
        parsed(NOVELLA_NOTIFICATION_WEBHOOKS="https://a.example/x,ftp://b.example/", NOVELLA_NOTIFICATION_SECRET=KEY)
    found = parsed(
        NOVELLA_NOTIFICATION_WEBHOOKS="https://a.example/x, http://b.example/", NOVELLA_NOTIFICATION_SECRET=KEY
    )
    assert found.notification_webhooks == ("https://a.example/x", "http://b.example/")


def test_an_empty_value_counts_as_not_set() -> None:
    assert load(dict.fromkeys(variable_names(), "") | {"NOVELLA_SECRET_KEY": KEY}) == parsed()


def test_other_programs_variables_are_left_alone() -> None:
    assert load({"NOVELLA_SECRET_KEY": KEY, "PATH": "/bin", "NOVELLAS": "x"}) == parsed()


@pytest.mark.parametrize(
    ("name", "value", "line"),
    [
        (
            "NOVELLA_MESSAGE_FAULTS",
            "lose=2",
            'NOVELLA_MESSAGE_FAULTS: "lose=2" is not one of lose, repeat, delay with a share from 0 to 1: lose=0.05',
        ),
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
        ("NOVELLA_CRASH_AT", "a b", 'NOVELLA_CRASH_AT: "a b" is not the name of a failpoint, nor @ and a file'),
        *(
            (
                "NOVELLA_CELLS",
                name,
                (
                    f'NOVELLA_CELLS: "{name}" is not the name of a cell '
                    "(a letter, then letters, digits and _, in lower case)"
                ),
            )
            for name in ("cell0", "api", "default", "Cell1", "1cell", "a-b")
        ),
        ("NOVELLA_CELLS", "east, west, east", "NOVELLA_CELLS: a cell is named twice"),
        ("NOVELLA_PROT", "1", "NOVELLA_PROT: no such variable; the nearest known one is NOVELLA_PORT"),
        ("NOVELLA_", "1", "NOVELLA_: no such variable; the nearest known one is NOVELLA_PORT"),
    ],
)
def test_refusals_name_the_variable_and_what_it_may_be(name: str, value: str, line: str) -> None:
    with pytest.raises(InvalidEnvironment) as refused:
        parsed(**{name: value})
    assert str(refused.value) == line


FORM = "it looks like postgresql://user:password@host:port/name"


@pytest.mark.parametrize("variable", ["NOVELLA_DATABASE_URL", "NOVELLA_DATABASE_URL_API", "NOVELLA_DATABASE_URL_CELL1"])
@pytest.mark.parametrize(
    ("url", "refusal"),
    [
        ("mysql://ana:hunter2@db/novella", f"the URL does not begin with postgresql://; {FORM}"),
        ("postgresql:/hunter2", f"the URL does not begin with postgresql://; {FORM}"),
        ("hunter2", f"the URL does not begin with postgresql://; {FORM}"),
        ("postgresql://ana:hunter2@[db/novella", f"the URL cannot be read; {FORM}"),
        ("postgresql://ana:hunter2@db", f"the URL names no database; {FORM}"),
        ("postgresql://ana:hunter2@/novella", f"the URL names no host; {FORM}"),
        (
            "postgresql://ana:hunter2@db/no vella",
            "the database's name may have lower-case letters, digits and _ only (48 at most)",
        ),
        (
            "postgresql://ana:hunter2@db:65536/novella",
            "the port is not a number (1 to 65535); in a password write %2F for / and %3A for :",
        ),
        ("postgresql://ana:hunter#2@db/novella", "the URL has a #: write %23 for one in a password"),
        (
            "postgresql://db/novella?hunter2=1",
            "a parameter is not one of host, sslmode, sslrootcert, sslcert, sslkey, target_session_attrs",
        ),
    ],
)
def test_a_refused_database_url_is_not_shown(variable: str, url: str, refusal: str) -> None:
    with pytest.raises(InvalidEnvironment) as refused:
        parsed(**{variable: url})
    assert str(refused.value) == f"{variable}: {refusal}"


def test_one_url_gives_a_database_to_each_name() -> None:
    environment = parsed(
        NOVELLA_CELLS="east,west",
        NOVELLA_DATABASE_URL="postgresql://ana:p%40ss@db.example:6432/novella?sslmode=require",
        NOVELLA_DATABASE_URL_WEST="postgresql://bo@far.example/west",
    )
    common = {"host": "db.example", "port": 6432, "user": "ana", "password": "p@ss"}
    parameters = (("sslmode", "require"),)
    assert environment.database_of("api") == DatabaseUrl(**common, name="novella_api", parameters=parameters)
    assert environment.database_of("east") == DatabaseUrl(**common, name="novella_east", parameters=parameters)
    assert environment.database_of("west") == DatabaseUrl(
        host="far.example", port=5432, user="bo", password="", name="west"
    )
    assert "p@ss" not in repr(environment)
    assert "p@ss" not in repr(environment.database_of("api"))


def test_without_a_url_databases_are_files() -> None:
    assert [parsed().database_of(name) for name in ("api", "cell0", "cell1")] == [None, None, None]
    one = parsed(NOVELLA_DATABASE_URL_CELL1="postgresql://bo@/c1?host=/run/postgresql")
    assert one.database_of("api") is None
    assert one.database_of("cell1") == DatabaseUrl(host="/run/postgresql", port=5432, user="bo", password="", name="c1")


def test_a_url_for_a_cell_that_is_not_there_is_refused() -> None:
    with pytest.raises(InvalidEnvironment) as refused:
        parsed(NOVELLA_CELLS="east", NOVELLA_DATABASE_URL_WEST="postgresql://db/west")
    assert str(refused.value) == (
        "NOVELLA_DATABASE_URL_WEST: no such variable; the nearest known one is NOVELLA_DATABASE_URL_EAST"
    )


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
    ],
)
def test_hosts_allowed_follow_the_address_served(host: str, allowed: tuple[str, ...]) -> None:
    assert parsed(NOVELLA_HOST=host).allowed_hosts == allowed
    assert parsed(NOVELLA_HOST=host, NOVELLA_ALLOWED_HOSTS="a.example,b").allowed_hosts == ("a.example", "b")


@pytest.mark.parametrize("name", ["NOVELLA_BROKER_URL", "NOVELLA_CHANNEL_URL"])
@pytest.mark.parametrize(
    "url", ["hunter2", "http://u:hunter2@h", "redis://", "redis://u:hunter2@h:0", "redis://[hunter2"]
)
def test_a_refused_url_is_not_shown(name: str, url: str) -> None:
    with pytest.raises(InvalidEnvironment) as refused:
        parsed(**{name: url})
    assert str(refused.value).startswith(f"{name}: the URL ")
    assert "hunter2" not in str(refused.value)


def test_urls_with_passwords_are_not_shown() -> None:
    environment = parsed(NOVELLA_BROKER_URL="amqps://u:hunter2@mq/v", NOVELLA_CHANNEL_URL="redis://:hunter2@r:1/2")
    assert "hunter2" not in repr(environment)
    assert environment.broker_url == "amqps://u:hunter2@mq/v"


def test_hosts_share_a_queue_only_where_all_are_in_one_process() -> None:
    assert parsed(NOVELLA_BROKER_URL="redis://r").compute_queues == "per-host"
    assert parsed(NOVELLA_BROKER_URL="redis://r", NOVELLA_COMPUTE_QUEUES="shared").compute_queues == "shared"


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
    barrier = threading.Barrier(8)

    def start() -> None:
        barrier.wait(timeout=WAIT_SECONDS)
        keys.append(load({"NOVELLA_DATA": str(tmp_path)}).secret_key)

    threads = [threading.Thread(target=start) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=WAIT_SECONDS)
    assert len(keys) == 8
    assert len(set(keys)) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["secret_key"]


def test_an_installed_package_keeps_its_data_in_the_folder_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "IS_CHECKOUT", False)
    assert load({"NOVELLA_SECRET_KEY": KEY}).data == Path("~/.local/share/novella").expanduser()
    assert load({"NOVELLA_SECRET_KEY": KEY, "XDG_DATA_HOME": "/srv"}).data == Path("/srv/novella")
    assert load({"NOVELLA_SECRET_KEY": KEY, "NOVELLA_DATA": "here"}).data == Path.cwd() / "here"


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
        timeout=WAIT_SECONDS,
        check=False,
    )
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == 'NOVELLA_PORT: "abc" is not a port number (1 to 65535)\n'
    assert list(tmp_path.iterdir()) == []


def test_origins_are_as_browsers_name_them() -> None:
    found = load({"NOVELLA_SECRET_KEY": KEY, "NOVELLA_CORS_ORIGINS": "https://Shop.example/, http://localhost:5173"})
    assert found.cors_origins == ("https://shop.example", "http://localhost:5173")
    for text in ("shop.example", "https://shop.example/page", "ftp://shop.example", "null"):
        with pytest.raises(InvalidEnvironment, match="NOVELLA_CORS_ORIGINS"):
            load({"NOVELLA_SECRET_KEY": KEY, "NOVELLA_CORS_ORIGINS": text})
