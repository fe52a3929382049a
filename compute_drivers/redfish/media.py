"""Files that controllers fetch: a web server shows them, under names that nobody can guess."""

from __future__ import annotations

import os
import re
import secrets
import shutil
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote, urlsplit

from conductor.core.errors import DriverError, Invalid

TOKEN = re.compile(r"[0-9a-f]{32}")
BOOT, CONFIG = "boot-", "config-"
ENDING = ".iso"


def new_token() -> str:
    return secrets.token_hex(16)


class Media:
    """`<media_dir>/<host>/<token>/…`: who knows a path may read it, nobody may list them; there are secrets in them."""

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
        """Make the folder, and remove what belongs to none of `tokens`. Raises OSError."""
        if not self._folder.parent.exists():
            self._folder.parent.mkdir(parents=True)
            self._folder.parent.chmod(0o711)  # whatever the umask is: the web server is another account
        self._folder.mkdir(exist_ok=True)
        self._folder.chmod(0o711)
        for folder in self._folder.iterdir():
            if TOKEN.fullmatch(folder.name) and folder.name not in tokens:
                shutil.rmtree(folder, ignore_errors=True)

    def show_image(self, token: str, image: Path) -> str:
        """The URL of an image that this host has."""
        path = self._place(token) / f"{BOOT}{image.name}{ENDING}"
        with _kept():
            if not path.exists():
                part = path.with_suffix(".part")
                part.unlink(missing_ok=True)
                _link_or_copy(image, part)
                part.chmod(0o644)
                os.replace(part, path)
        return self._url_of(path)

    def show_config(self, token: str, data: bytes) -> str:
        """The URL of a disc that was made just now; a name of its own keeps controllers from showing an earlier one."""
        path = self._place(token) / f"{CONFIG}{secrets.token_hex(4)}{ENDING}"
        with _kept():
            path.write_bytes(data)
            path.chmod(0o644)
        return self._url_of(path)

    def keep_only(self, token: str, urls: Collection[str]) -> None:
        """Of the media of `token` those that are at `urls`."""
        with _kept():
            for path in self._place(token).iterdir():
                if self._url_of(path) not in urls:
                    path.unlink(missing_ok=True)

    def remove(self, token: str) -> None:
        folder = self._folder / token
        if TOKEN.fullmatch(token) and folder.exists():
            with _kept():
                shutil.rmtree(folder)

    def _place(self, token: str) -> Path:
        folder = self._folder / token
        with _kept():
            folder.mkdir(exist_ok=True)
            folder.chmod(0o711)
        return folder

    def _url_of(self, path: Path) -> str:
        return f"{self._url}/{path.parent.name}/{quote(path.name)}"


def _link_or_copy(source: Path, target: Path) -> None:
    """A link takes no room; the folder of media may be on another file system."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


@contextmanager
def _kept() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise DriverError(f"The media of the guest could not be kept: {error.strerror}.") from error
