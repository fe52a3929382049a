"""Boot images and config drives that controllers fetch from a web server, under unguessable names."""

from __future__ import annotations

import os
import re
import secrets
import shutil
from collections.abc import Collection
from pathlib import Path
from urllib.parse import quote, urlsplit

from compute_drivers.host_paths import os_errors_as
from conductor.core.errors import Invalid

TOKEN = re.compile(r"[0-9a-f]{32}")
BOOT, CONFIG = "boot-", "config-"
SUFFIX = ".iso"
NOT_KEPT = "The media of the guest could not be kept"


def new_token() -> str:
    return secrets.token_hex(16)


class MediaStore:
    """Files at `<media_dir>/<host>/<token>/…`.

    The files contain secrets: the web server can read a file by its path but not list the folders.
    """

    def __init__(self, media_dir: Path, media_url: str, host: str) -> None:
        try:
            address = urlsplit(media_url)
            is_usable = address.scheme in ("http", "https") and bool(address.hostname) and not address.query
        except ValueError:
            is_usable = False
        if not is_usable:
            raise Invalid(
                "Option redfish.media_url must be like https://192.0.2.1/media: controllers fetch from there."
            )
        own = re.sub(r"[^A-Za-z0-9_-]", "_", host)
        self._folder = media_dir.absolute() / own
        self._url = f"{media_url.rstrip('/')}/{quote(own)}"

    def prepare(self, tokens: Collection[str]) -> None:
        """Create the folder, and remove media that belong to none of `tokens`. Raises OSError."""
        if not self._folder.parent.exists():
            self._folder.parent.mkdir(parents=True)
            self._folder.parent.chmod(0o711)  # independent of the umask: the web server runs under another account
        self._folder.mkdir(exist_ok=True)
        self._folder.chmod(0o711)
        for folder in self._folder.iterdir():
            if TOKEN.fullmatch(folder.name) and folder.name not in tokens:
                shutil.rmtree(folder, ignore_errors=True)

    def publish_image(self, token: str, image: Path) -> str:
        """Publish an image file of this host and return its URL."""
        path = self._folder_of(token) / f"{BOOT}{image.name}{SUFFIX}"
        with os_errors_as(NOT_KEPT):
            if not path.exists():
                part = path.with_suffix(".part")
                part.unlink(missing_ok=True)
                _link_or_copy(image, part)
                part.chmod(0o644)
                os.replace(part, path)
        return self._url_of(path)

    def publish_config_drive(self, token: str, data: bytes) -> str:
        """Publish a config drive and return its URL, which is new each time: controllers cache media by URL."""
        path = self._folder_of(token) / f"{CONFIG}{secrets.token_hex(4)}{SUFFIX}"
        with os_errors_as(NOT_KEPT):
            path.write_bytes(data)
            path.chmod(0o644)
        return self._url_of(path)

    def remove_others(self, token: str, urls: Collection[str]) -> None:
        """Remove the media of `token` that are not at `urls`."""
        with os_errors_as(NOT_KEPT):
            for path in self._folder_of(token).iterdir():
                if self._url_of(path) not in urls:
                    path.unlink(missing_ok=True)

    def remove(self, token: str) -> None:
        """Remove all media of `token`."""
        folder = self._folder / token
        if TOKEN.fullmatch(token) and folder.exists():
            with os_errors_as(NOT_KEPT):
                shutil.rmtree(folder)

    def _folder_of(self, token: str) -> Path:
        folder = self._folder / token
        with os_errors_as(NOT_KEPT):
            folder.mkdir(exist_ok=True)
            folder.chmod(0o711)
        return folder

    def _url_of(self, path: Path) -> str:
        return f"{self._url}/{path.parent.name}/{quote(path.name)}"


def _link_or_copy(source: Path, target: Path) -> None:
    """Link where both are on one file system, which takes no space; copy otherwise."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)
