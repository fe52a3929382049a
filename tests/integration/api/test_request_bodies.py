"""Uploads through the real web server: chunked or not, ended or broken off."""

from __future__ import annotations

import hashlib
import socket
import threading
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
import requests
import uvicorn
from django.db import connections

from conductor.image.models import Image
from tests.waiting import WAIT_SECONDS, wait_until

RAW = {"name": "boots", "disk_format": "raw", "container_format": "bare"}
CHUNKS = [bytes([number]) * 100_000 for number in range(30)]


@pytest.fixture
def server(databases: None) -> Iterator[str]:
    from portal.asgi import application

    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    web = uvicorn.Server(uvicorn.Config(application, log_level="warning", lifespan="off"))
    thread = threading.Thread(target=web.run, kwargs={"sockets": [listener]})
    thread.start()
    wait_until("the server listens", lambda: web.started)
    yield f"http://127.0.0.1:{listener.getsockname()[1]}/image/v2/images"
    web.should_exit = True
    thread.join(timeout=WAIT_SECONDS)


@pytest.fixture
def client(server: str, people: Any) -> Iterator[requests.Session]:
    with requests.Session() as made:
        made.headers["X-Auth-Token"] = people.ana.token()
        yield made


def make(client: requests.Session, server: str) -> str:
    answer = client.post(server, json=RAW)
    assert answer.status_code == 201
    return f"{server}/{answer.json()['id']}/file"


def send_and_leave(url: str, token: str, head: str, body: bytes) -> None:
    target = urlsplit(url)
    with socket.create_connection((target.hostname, target.port)) as connection:
        lines = [f"PUT {target.path} HTTP/1.1", f"Host: {target.netloc}", f"X-Auth-Token: {token}", head]
        lines += ["Content-Type: application/octet-stream", "", ""]
        connection.sendall("\r\n".join(lines).encode() + body)
        _wait_for({"saving"})


def _wait_for(statuses: set[str]) -> None:
    def is_there() -> bool:
        connections["default"].close()
        return Image.objects.get().status in statuses

    wait_until(f"the image is {statuses}", is_there)


@pytest.mark.parametrize("is_chunked", [True, False])
def test_a_whole_body_arrives(client: requests.Session, server: str, is_chunked: bool) -> None:
    url = make(client, server)
    content: Any = iter(CHUNKS) if is_chunked else b"".join(CHUNKS)
    answer = client.put(url, data=content, headers={"Content-Type": "application/octet-stream"})
    assert (answer.status_code, answer.content) == (204, b"")
    image = Image.objects.get()
    assert (image.status, image.size) == ("active", 3_000_000)
    assert image.checksum == hashlib.md5(b"".join(CHUNKS)).hexdigest()
    assert client.get(url).content == b"".join(CHUNKS)


@pytest.mark.parametrize(
    ("head", "body"),
    [
        ("Transfer-Encoding: chunked", b"5\r\nhello\r\n"),
        ("Transfer-Encoding: chunked", b"5\r\nhello\r\n50\r\nhalf a ch"),
        ("Content-Length: 500", b"hello"),
    ],
)
def test_an_incomplete_upload_makes_no_image(
    client: requests.Session, server: str, people: Any, head: str, body: bytes
) -> None:
    url = make(client, server)
    send_and_leave(url, people.ana.token(), head, body)
    _wait_for({"queued", "active"})
    assert Image.objects.get().status == "queued"
    answer = client.put(url, data=b"whole", headers={"Content-Type": "application/octet-stream"})
    assert answer.status_code == 204
    assert client.get(url).content == b"whole"
