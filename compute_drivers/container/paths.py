"""Layout of the files and mounts of a host's containers."""

from __future__ import annotations

import hashlib
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from compute_drivers.host_paths import HostPaths, os_errors_as

# In a guest's folder: its disks, its metadata, and the mark of a completed build.
DISK, RESCUE_DISK, NEW_DISK = "disk.ext4", "rescue.ext4", "new.ext4"
SEED, RESCUE_SEED, BUILT_MARK = "seed", "seed-rescue", "made"
SNAPSHOT = "snapshot.tar.gz"


@dataclass(frozen=True)
class ContainerPaths(HostPaths):
    """`<state_dir>/{images,instances,consoles,kept}`, and `<run_dir>/<key>/…`, which is gone after a reboot.

    Disks are mounted below `run_dir`, because root of a container must be able to traverse every folder to them.
    """

    run_dir: Path
    first_id: int

    @property
    def key(self) -> str:
        """Return a name that is unique among the hosts of one machine."""
        return hashlib.sha256(str(self.state_dir).encode()).hexdigest()[:12]

    @property
    def own_run_dir(self) -> Path:
        return self.run_dir / self.key

    @property
    def runtime_dir(self) -> Path:
        return self.own_run_dir / "runtime"

    @property
    def mounts_dir(self) -> Path:
        return self.own_run_dir / "disks"

    def prepare(self) -> None:
        """Make the folders. Raises OSError."""
        self.state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        for directory in (self.instances_dir, self.consoles_dir, self.kept_dir):
            directory.mkdir(mode=0o700, exist_ok=True)
        if not self.run_dir.exists():
            self.run_dir.mkdir(parents=True)
            self.run_dir.chmod(0o755)  # independent of the umask
        for directory in (self.own_run_dir, self.mounts_dir):
            directory.mkdir(exist_ok=True)
            os.chown(directory, 0, self.first_id)
            directory.chmod(0o710)  # root of the containers may traverse, other users may not
        self.runtime_dir.mkdir(mode=0o700, exist_ok=True)

    def mount_of(self, disk: Path) -> Path:
        """Return the mount point of a disk."""
        return self.mounts_dir / f"{disk.parent.name}.{disk.stem}"

    def mounts_of(self, instance_uuid: str) -> list[Path]:
        return sorted(self.mounts_dir.glob(f"{instance_uuid}.*"))

    def remove(self, instance_uuid: str) -> None:
        """Remove all files of a guest but those retained for a revert. Raises DriverError."""
        with os_errors_as("Files of the guest could not be removed"):
            if self.folder_of(instance_uuid).exists():
                shutil.rmtree(self.folder_of(instance_uuid))
            self.console_of(instance_uuid).unlink(missing_ok=True)
