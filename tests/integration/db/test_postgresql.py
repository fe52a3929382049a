"""A PostgreSQL server for this module: databases are created, its death is survived, its limits are respected."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from django.core.management.base import CommandError
from django.db import OperationalError
from django.db.utils import ConnectionHandler

from conductor.db import dialect
from conductor.db.postgresql import spare_connections
from conductor.db.postgresql.base import PREPARED_AFTER
from conductor.db.transactions import is_serialization_failure
from conductor.management import databases
from portal.databases import databases as described
from portal.environment import Environment, load
from tests.services import postgresql
from tests.services.postgresql import Service
from tests.waiting import WAIT_SECONDS


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    service = postgresql.start(tmp_path_factory.mktemp("postgresql") / "server")
    service.psql("CREATE ROLE guest LOGIN PASSWORD 'hunter2'")
    yield service
    service.stop()


@pytest.fixture(autouse=True)
def _databases_may_be_used(django_db_blocker: Any) -> Iterator[None]:
    with django_db_blocker.unblock():
        yield


def environment(url: str, **more: str) -> Environment:
    return load({"NOVELLA_SECRET_KEY": "k" * 32, "NOVELLA_DATABASE_URL": url, **more})


@pytest.fixture
def connection(server: Service, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The API's database on the server, empty but there."""
    monkeypatch.setattr(spare_connections, "SPARES", spare_connections.SpareConnections())
    monkeypatch.setattr("conductor.db.postgresql.base.SPARES", spare_connections.SPARES)
    found = handler(environment(server.url))["default"]
    databases._create(found)
    yield found
    found.close()
    found.close_pool()


def handler(wanted: Environment) -> ConnectionHandler:
    return ConnectionHandler(described(wanted))


def ask(connection: Any, statement: str) -> Any:
    with connection.cursor() as cursor:
        cursor.execute(statement)
        return cursor.fetchone()[0]


def test_missing_databases_are_made_once(server: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = environment(server.url + "_two", NOVELLA_CELLS="east")
    monkeypatch.setattr(databases, "connections", handler(wanted))
    monkeypatch.setattr(databases.settings, "DATABASES", described(wanted))
    assert databases.create_missing() == ["novella_two_api", "novella_two_cell0", "novella_two_east"]
    assert databases.create_missing() == []
    rows = server.psql("SELECT datcollate, datctype FROM pg_database WHERE datname LIKE 'novella_two_%'").splitlines()
    assert rows == ["C|C.UTF-8"] * 3


def test_a_role_that_may_not_create_databases_gets_a_hint(server: Service) -> None:
    url = f"postgresql://guest:hunter2@127.0.0.1:{server.port}/guests"
    with pytest.raises(CommandError) as refused:
        databases._create(handler(environment(url))["cell0"])
    assert str(refused.value) == (
        "The database guests_cell0 is missing and this role may not make it. As the server's administrator: "
        "CREATE DATABASE \"guests_cell0\" TEMPLATE template0 ENCODING 'UTF8' LC_COLLATE 'C' LC_CTYPE 'C.UTF-8'"
    )
    assert server.psql("SELECT count(*) FROM pg_database WHERE datname LIKE 'guests%'") == "0"


def test_a_database_that_sorts_otherwise_is_refused(server: Service) -> None:
    server.psql("CREATE DATABASE odd_api TEMPLATE template0 LOCALE_PROVIDER icu ICU_LOCALE 'en' LC_COLLATE 'C'")
    url = f"postgresql://novella@127.0.0.1:{server.port}/odd"
    with pytest.raises(CommandError, match="The database odd_api sorts by en, so lists of several cells"):
        databases._require_collation("default", handler(environment(url))["default"])


def test_a_server_that_is_not_there_is_named_without_the_password() -> None:
    url = "postgresql://ana:hunter2@127.0.0.1:9/novella"
    with pytest.raises(CommandError) as refused:
        databases._create(handler(environment(url))["default"])
    assert str(refused.value).startswith("NOVELLA_DATABASE_URL: no connection to novella_api on 127.0.0.1:9: ")
    assert "hunter2" not in str(refused.value)


def test_each_session_has_limits_and_a_name(connection: Any) -> None:
    assert ask(connection, "SHOW lock_timeout") == "10s"
    assert ask(connection, "SHOW statement_timeout") == "30s"
    assert ask(connection, "SHOW idle_in_transaction_session_timeout") == "10s"
    assert ask(connection, "SHOW application_name").startswith("novella ")


@pytest.mark.parametrize(("lease", "limit"), [("0.5", "5000ms"), ("7.5", "7500ms"), ("3600", "30000ms")])
def test_a_client_frozen_in_a_transaction_delays_others_for_at_most_a_lease(lease: str, limit: str) -> None:
    wanted = described(environment("postgresql://ana@db.example/novella", NOVELLA_LEASE_SECONDS=lease))
    assert f"idle_in_transaction_session_timeout={limit}" in wanted["cell1"]["OPTIONS"]["options"].split()


def test_a_connection_is_given_back_and_taken_again(connection: Any) -> None:
    first = ask(connection, "SELECT pg_backend_pid()")
    connection.close()
    assert ask(connection, "SELECT pg_backend_pid()") == first


def test_the_server_keeps_the_plan_of_what_is_evaluated_again(connection: Any) -> None:
    """One plan for small and large numbers, also where a newer release has given the table a column meanwhile."""
    template = "SELECT number FROM known WHERE number = %s"
    plans = f"SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE '{template.partition('=')[0]}%'"
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE known (number bigint)")
        cursor.execute("INSERT INTO known VALUES (1), (70000), (5000000000)")
    requested = [1, 70_000, 5_000_000_000] * PREPARED_AFTER
    assert [dialect.run(connection, template, (number,)) for number in requested] == [
        [(number,)] for number in requested
    ]
    assert ask(connection, plans) == 1
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE known ADD COLUMN name text")
    assert dialect.run(connection, template, (70_000,)) == [(70_000,)]
    with connection.cursor() as cursor:
        cursor.execute("DROP TABLE known")


def test_a_session_left_in_a_transaction_is_cut(connection: Any) -> None:
    first = ask(connection, "SELECT pg_backend_pid()")
    connection.set_autocommit(False)
    ask(connection, "SELECT 1")
    connection.close()
    assert ask(connection, "SELECT pg_backend_pid()") != first


def test_connections_that_died_are_replaced(connection: Any, server: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """kill -9 and back on the same port: the first request after it finds a fresh connection, not a dead one."""
    others = [handler(environment(server.url))["default"] for _ in range(4)]
    for other in (*others, connection):
        ask(other, "SELECT 1")
    for other in (*others, connection):
        other.close()
    server.kill()
    monkeypatch.setattr(spare_connections, "BELIEVED_SECONDS", 0.0)  # as if a second had passed
    with pytest.raises(OperationalError):
        ask(connection, "SELECT 1")
    server.restart()
    for other in (*others, connection):
        assert ask(other, "SELECT 1") == 1
        other.close()


def test_a_connection_that_dies_in_use_is_not_kept(connection: Any, server: Service) -> None:
    first = ask(connection, "SELECT pg_backend_pid()")
    server.psql(f"SELECT pg_terminate_backend({first})")
    with pytest.raises(OperationalError):
        ask(connection, "SELECT 1")
    connection.close_if_unusable_or_obsolete()  # what ends each request, message and tick
    assert ask(connection, "SELECT pg_backend_pid()") != first


def test_serialization_failures_are_distinguished_from_other_errors(connection: Any, server: Service) -> None:
    other = handler(environment(server.url))["default"]
    errors: list[OperationalError] = []
    barrier = threading.Barrier(2)

    def hold(first: int, second: int) -> None:
        mine = handler(environment(server.url))["default"]
        try:
            with mine.cursor() as cursor:
                cursor.execute("BEGIN")
                cursor.execute("SELECT pg_advisory_xact_lock(%s)", [first])
                barrier.wait(WAIT_SECONDS)
                cursor.execute("SELECT pg_advisory_xact_lock(%s)", [second])
                cursor.execute("COMMIT")
        except OperationalError as error:
            errors.append(error)
        finally:
            mine.close()

    threads = [threading.Thread(target=hold, args=pair) for pair in ((1, 2), (2, 1))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_SECONDS)
    assert [is_serialization_failure(error) for error in errors] == [True]
    with pytest.raises(OperationalError) as late:
        ask(other, "SET statement_timeout = 1; SELECT pg_sleep(1)")
    assert not is_serialization_failure(late.value)
    other.close()
