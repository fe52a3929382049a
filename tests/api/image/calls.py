"""Common calls of the tests of the Image API."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.conf import settings

BASE = "/image/v2/images"
PATCH = {"Content-Type": "application/openstack-images-v2.1-json-patch"}
OCTETS = {"Content-Type": "application/octet-stream"}
DATA = b"sectors" * 1000
RAW = {"disk_format": "raw", "container_format": "bare"}


def create(client: Any, **values: Any) -> dict[str, Any]:
    answer = client.post(BASE, {"name": "boots", **RAW, **values})
    assert answer.status_code == 201, answer.content
    body: dict[str, Any] = answer.json()
    return body


def upload(client: Any, image_id: str, data: bytes = DATA) -> Any:
    return client.put(f"{BASE}/{image_id}/file", data, headers=OCTETS)


def patch(client: Any, image_id: str, *operations: Any) -> Any:
    return client.patch(f"{BASE}/{image_id}", list(operations), headers=PATCH)


def names(answer: Any) -> list[str]:
    assert answer.status_code == 200, answer.content
    return [image["name"] for image in answer.json()["images"]]


def on_disk() -> set[str]:
    directory = Path(settings.NOVELLA_DATA) / "images"
    return {path.name for path in directory.iterdir()} if directory.exists() else set()
