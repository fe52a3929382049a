"""Lookup of console tokens by administrators: the host, its address format, and the token's lifetime."""

from __future__ import annotations

from typing import Any

import pytest

from conductor.api_db.models import ConsoleToken
from conductor.db.transactions import database_now

TOKENS = "/compute/v2.1/os-console-auth-tokens/{}"


@pytest.fixture
def token(kept: dict[str, str], api_client: Any) -> str:
    body = {"remote_console": {"protocol": "serial", "type": "serial"}}
    path = f"/compute/v2.1/servers/{kept['web']}/remote-consoles"
    answer = api_client("ana", version="2.6").post(path, body).json()
    return str(answer["remote_console"]["url"].rpartition("/")[2])


def test_a_console_token_gives_host_and_port(kept: dict[str, str], token: str, api_client: Any) -> None:
    admin = api_client("admin", version="2.31")
    place = {"instance_uuid": kept["web"], "host": "10.0.0.7", "port": 7000, "internal_access_path": None}
    assert admin.get(TOKENS.format(token)).json() == {"console": place}
    shown = api_client("admin", version="2.99").get(TOKENS.format(token)).json()
    assert shown == {"console": {**place, "tls_port": 7000}}
    assert api_client("ana", version="2.99").get(TOKENS.format(token)).status_code == 403


@pytest.mark.parametrize("change", [{"used_at": database_now()}, {"expires_at": database_now(-1)}])
def test_an_expired_console_token_is_not_found(token: str, api_client: Any, change: dict[str, Any]) -> None:
    ConsoleToken.objects.update(**change)
    assert api_client("admin", version="2.31").get(TOKENS.format(token)).status_code == 404


def test_a_refused_console_leaves_no_token(kept: dict[str, str], api_client: Any) -> None:
    ana = api_client("ana", version="2.6")
    for name, kind in (("broken", "novnc"), ("web", "xvpvnc"), ("foreign", "novnc")):
        body = {"remote_console": {"protocol": "vnc", "type": kind}}
        assert ana.post(f"/compute/v2.1/servers/{kept[name]}/remote-consoles", body).status_code in (400, 404, 409)
    assert not ConsoleToken.objects.exists()
