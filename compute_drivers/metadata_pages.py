"""The metadata service of one guest, as it answers at 169.254.169.254: metadata files, folder listings, password."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote

ADDRESS, ADDRESS_IPV6, TCP_PORT = "169.254.169.254", "fe80::a9fe:a9fe", 80
MAX_PASSWORD_BYTES = 1020
PASSWORD = "password"
READS, WRITES = ("GET", "HEAD"), ("GET", "HEAD", "POST")
TEXT, JSON, BYTES = "text/plain; charset=utf-8", "application/json", "application/octet-stream"


@dataclass(frozen=True)
class PageResponse:
    """The response to one HTTP request."""

    status: int
    body: bytes = b""
    content_type: str = TEXT
    headers: Mapping[str, str] = field(default_factory=dict)


class MetadataPages:
    """The pages of one guest, from its `metadata_files`, and the password that it posts to the file `posted`."""

    def __init__(self, files: Mapping[str, bytes], posted: Path) -> None:
        self._posted = posted
        self._pages = dict(_pages(files))
        self._folders = _folders(self._pages)
        self._passwords = {f"{folder}/{PASSWORD}" for folder in self._folders if folder.startswith("openstack/")}
        for path in self._passwords:
            self._folders[path.rpartition("/")[0]].append(PASSWORD)

    def respond(self, method: str, target: str, body: bytes = b"") -> PageResponse:
        path = "/".join(part for part in unquote(target.partition("?")[0]).split("/") if part)
        is_password = path in self._passwords
        allowed = WRITES if is_password else READS
        if method not in allowed:
            message = f"{method} is not for this page; it has {', '.join(allowed)}.\n"
            return PageResponse(405, message.encode(errors="replace"), headers={"Allow": ", ".join(allowed)})
        if is_password:
            return self._keep_password(body) if method == "POST" else PageResponse(200, self._password())
        if path in self._pages:
            return PageResponse(200, self._pages[path], _content_type_of(path))
        if path in self._folders:
            return PageResponse(200, "\n".join(self._folders[path]).encode())
        return PageResponse(404, b"There is no such page.\n")

    def _password(self) -> bytes:
        with suppress(OSError):
            return self._posted.read_bytes()
        return b""

    def _keep_password(self, body: bytes) -> PageResponse:
        """Accept a password once: an intruder in the guest must not replace what its owner reads."""
        if not body or len(body) > MAX_PASSWORD_BYTES:
            return PageResponse(400, f"The password is {len(body)} bytes; it has 1 to {MAX_PASSWORD_BYTES}.\n".encode())
        part = self._posted.with_name(f"{self._posted.name}.part")
        try:
            part.unlink(missing_ok=True)
            with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(body)
            os.link(part, self._posted)
        except FileExistsError:
            return PageResponse(409, b"The password was posted before.\n")
        except OSError:
            return PageResponse(503, b"The password cannot be kept now.\n")
        finally:
            part.unlink(missing_ok=True)
        return PageResponse(200)


def _pages(files: Mapping[str, bytes]) -> Iterable[tuple[str, bytes]]:
    """Yield pages by path: OpenStack's files as they are, EC2's metadata as a page for each value."""
    for path, data in files.items():
        kind, _, rest = path.partition("/")
        if kind == "openstack":
            yield path, data
        elif rest.endswith("/meta-data.json"):
            yield from _values(rest.removesuffix(".json"), json.loads(data))
        else:
            yield rest, data


def _values(path: str, value: Any) -> Iterable[tuple[str, bytes]]:
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _values(f"{path}/{name}", inner)
    else:
        yield path, ("\n".join(map(str, value)) if isinstance(value, list) else str(value)).encode()


def _folders(pages: dict[str, bytes]) -> dict[str, list[str]]:
    """Return the listing of each folder. EC2 lists folders with a slash, and keys as number=name."""
    titles = {path.rpartition("/")[0]: pages.pop(path).decode() for path in list(pages) if path.endswith("/_name")}
    found: dict[str, dict[str, None]] = {"": {}}
    for path in sorted(pages):
        folder, _, name = path.rpartition("/")
        found.setdefault(folder, {})[name] = None
        while folder:
            inner = folder
            folder, _, name = folder.rpartition("/")
            is_value = "/meta-data" in folder
            title = titles.get(inner, f"{name}/" if is_value or name == "meta-data" else name)
            found.setdefault(folder, {})[title] = None
    return {folder: list(names) for folder, names in found.items()}


def _content_type_of(path: str) -> str:
    if path.endswith(".json"):
        return JSON
    return BYTES if path.endswith(("user_data", "user-data")) or path.startswith("openstack/content/") else TEXT
