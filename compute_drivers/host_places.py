"""Where the files of a host's guests are, whatever runs the guests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from conductor.core.errors import DriverError


@contextmanager
def files(complaint: str) -> Iterator[None]:
    """Raises DriverError with `complaint` where the work with files fails."""
    try:
        yield
    except OSError as error:
        raise DriverError(f"{complaint}: {error.strerror}.") from error


@dataclass(frozen=True)
class HostPlaces:
    """`<state_dir>/{images,instances,consoles,kept}`."""

    state_dir: Path

    @property
    def images_dir(self) -> Path:
        return self.state_dir / "images"

    @property
    def instances_dir(self) -> Path:
        return self.state_dir / "instances"

    @property
    def consoles_dir(self) -> Path:
        return self.state_dir / "consoles"

    @property
    def kept_dir(self) -> Path:
        """Guests that went out and may come back."""
        return self.state_dir / "kept"

    def folder_of(self, instance_uuid: str) -> Path:
        return self.instances_dir / instance_uuid

    def kept_of(self, instance_uuid: str) -> Path:
        return self.kept_dir / instance_uuid

    def console_of(self, instance_uuid: str) -> Path:
        return self.consoles_dir / f"{instance_uuid}.log"
