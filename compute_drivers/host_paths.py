"""Layout of the files of a host's guests that all drivers with local files share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from conductor.core.errors import DriverError


@contextmanager
def os_errors_as(message: str) -> Iterator[None]:
    """Raise DriverError, "<message>: <cause>.", for an OSError inside the block."""
    try:
        yield
    except OSError as error:
        raise DriverError(f"{message}: {error.strerror}.") from error


@dataclass(frozen=True)
class HostPaths:
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
        """Folders of guests that a cold migration retains until it is confirmed or reverted."""
        return self.state_dir / "kept"

    def folder_of(self, instance_uuid: str) -> Path:
        return self.instances_dir / instance_uuid

    def kept_of(self, instance_uuid: str) -> Path:
        return self.kept_dir / instance_uuid

    def console_of(self, instance_uuid: str) -> Path:
        return self.consoles_dir / f"{instance_uuid}.log"
