"""Which cgroups a machine has, told from the folders that its kernel shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from compute_drivers.container import cgroups
from compute_drivers.container.driver import ContainerDriver
from compute_drivers.container.runtime import Runtime
from conductor.core.errors import DriverError


def trees(mount: Path, *names: str) -> Path:
    """Version 1, with an empty version 2 beside, as many machines have it."""
    for name in names:
        (mount / name).mkdir(parents=True)
        (mount / name / "tasks").touch()
    (mount / "unified").mkdir(parents=True)
    (mount / "unified" / "cgroup.controllers").write_text("hugetlb\n")
    return mount


def test_each_controller_has_a_tree_or_all_have_one(tmp_path: Path) -> None:
    assert cgroups.missing(trees(tmp_path / "one", "cpu", "memory", "pids")) == []
    assert cgroups.version_of(tmp_path / "one") == "v1"
    assert cgroups.missing(trees(tmp_path / "two", "cpu", "freezer")) == ["memory", "pids"]
    whole = tmp_path / "whole"
    whole.mkdir()
    (whole / "cgroup.controllers").write_text("cpuset cpu io memory pids\n")
    assert (cgroups.version_of(whole), cgroups.missing(whole)) == ("v2", [])
    (whole / "cgroup.controllers").write_text("cpuset memory\n")
    assert cgroups.missing(whole) == ["cpu", "pids"]
    assert cgroups.missing(tmp_path / "none") == ["cpu", "memory", "pids"]


def test_a_host_that_could_bound_nothing_does_not_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("compute_drivers.container.host.os.geteuid", lambda: 0)
    monkeypatch.setattr("compute_drivers.container.host.shutil.which", lambda program: program)
    monkeypatch.setattr(Runtime, "check", lambda self: (1, 1, 0))
    monkeypatch.setattr(cgroups, "missing", lambda: ["memory"])
    state_dir = tmp_path / "state"
    driver = ContainerDriver("box-1", {"state_dir": str(state_dir)}, open)  # type: ignore[arg-type]
    with pytest.raises(
        DriverError, match="Without the cgroup controllers memory containers would be bounded by nothing"
    ):
        driver.start()
    assert not state_dir.exists()
