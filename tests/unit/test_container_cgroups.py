"""Detection of a machine's cgroups from the folders that its kernel shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from compute_drivers.container.driver import ContainerDriver
from compute_drivers.container.runtime import Runtime, cgroup_version, missing_cgroup_controllers
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
    assert missing_cgroup_controllers(trees(tmp_path / "one", "cpu", "memory", "pids")) == []
    assert cgroup_version(tmp_path / "one") == "v1"
    assert missing_cgroup_controllers(trees(tmp_path / "two", "cpu", "freezer")) == ["memory", "pids"]
    whole = tmp_path / "whole"
    whole.mkdir()
    (whole / "cgroup.controllers").write_text("cpuset cpu io memory pids\n")
    assert (cgroup_version(whole), missing_cgroup_controllers(whole)) == ("v2", [])
    (whole / "cgroup.controllers").write_text("cpuset memory\n")
    assert missing_cgroup_controllers(whole) == ["cpu", "pids"]
    assert missing_cgroup_controllers(tmp_path / "none") == ["cpu", "memory", "pids"]


def test_a_host_that_could_bound_nothing_does_not_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("compute_drivers.container.node.os.geteuid", lambda: 0)
    monkeypatch.setattr("compute_drivers.container.node.shutil.which", lambda program: program)
    monkeypatch.setattr(Runtime, "version", lambda self: (1, 1, 0))
    monkeypatch.setattr("compute_drivers.container.node.missing_cgroup_controllers", lambda: ["memory"])
    state_dir = tmp_path / "state"
    driver = ContainerDriver("box-1", {"state_dir": str(state_dir)}, open)  # type: ignore[arg-type]
    with pytest.raises(
        DriverError, match="Without the cgroup controllers memory containers would be bounded by nothing"
    ):
        driver.start()
    assert not state_dir.exists()
