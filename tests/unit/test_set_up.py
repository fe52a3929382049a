"""The set-up: only changed parts are rebuilt, Debian's packages are requested once, and errors are one line."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from portal.environment import load
from tools import bootstrap, debian, system_packages
from tools.collect_frontend import collect

APT_GET = """#!/bin/sh
echo "$DEBIAN_FRONTEND $@" >> {log}
case "$*" in *update*) touch {lists}/debian_Packages; exit 0;; esac
[ -e {lists}/debian_Packages ] || {{ echo 'E: Unable to locate package' >&2; exit 100; }}
{outcome}
"""


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with a fake apt-get, which records its calls; returns its folder."""
    (tmp_path / "lists").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=":")
    monkeypatch.setattr(debian, "PACKAGE_LISTS", tmp_path / "lists")
    monkeypatch.setattr(debian, "POLICY", tmp_path / "policy-rc.d")
    monkeypatch.setattr(debian, "NO_CLUSTER", tmp_path / "createcluster.d" / "novella.conf")
    put(tmp_path, "sudo", '#!/bin/sh\nshift\nexec "$@"\n')
    put_apt_get(tmp_path, outcome="exit 0")
    return tmp_path


def put(machine: Path, name: str, text: str) -> None:
    path = machine / "bin" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def put_apt_get(machine: Path, *, outcome: str) -> None:
    put(machine, "apt-get", APT_GET.format(log=machine / "log", lists=machine / "lists", outcome=outcome))


def commands(machine: Path) -> list[str]:
    """Return the recorded arguments of apt-get, after its options."""
    lines = (machine / "log").read_text().splitlines()
    assert all(line.startswith("noninteractive -y -qq --no-install-recommends ") for line in lines)
    assert all(" -o DPkg::Lock::Timeout=600 -o Acquire::Retries=8 " in line for line in lines)
    return [line.split("Dpkg::Use-Pty=0 ")[1] for line in lines]


def test_packages_that_dpkg_knows_are_not_missing() -> None:
    assert debian.missing(["dpkg", "novella-no-such-package", "base-files"]) == ["novella-no-such-package"]


def test_while_services_are_installed_nothing_starts(machine: Path) -> None:
    (machine / "lists" / "debian_Packages").touch()
    put_apt_get(machine, outcome=f"cat {machine}/policy-rc.d {machine}/createcluster.d/novella.conf > {machine}/seen")
    with debian.nothing_starts():
        debian.install(["postgresql"])
    assert (machine / "seen").read_text() == "#!/bin/sh\nexit 101\ncreate_main_cluster = false\n"
    assert not (machine / "policy-rc.d").exists()
    assert (machine / "createcluster.d" / "novella.conf").exists()  # also for an update of the package


@pytest.mark.parametrize("name", ["postgresql", "openvswitch-switch", "ovn-central", "ovn-host"])
def test_a_package_with_a_service_is_installed_while_nothing_starts(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    seen: list[str] = []

    @contextmanager
    def nothing_starts() -> Iterator[None]:
        seen.append("locked")
        yield
        seen.append("unlocked")

    monkeypatch.setattr(debian, "missing", list)
    monkeypatch.setattr(debian, "nothing_starts", nothing_starts)
    monkeypatch.setattr(debian, "install", lambda packages: seen.extend(packages))
    monkeypatch.setattr(debian, "disable", lambda services: seen.extend(f"disabled {one}" for one in services))
    assert name in system_packages.PROFILES["test"]
    system_packages.provide([name])
    disabled = [f"disabled {name}"] if name in system_packages.OVN_SERVICES else []
    assert seen == ["locked", name, "unlocked", *disabled]


def test_services_are_disabled_where_systemd_would_start_them(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(machine, "systemctl", f'#!/bin/sh\necho "$@" >> {machine}/seen\n')
    monkeypatch.setattr(debian, "SYSTEMD", machine / "systemd")
    debian.disable(["ovn-host"])
    assert not (machine / "seen").exists()
    (machine / "systemd").mkdir()
    debian.disable(["ovn-host", "ovn-central"])
    debian.disable([])
    assert (machine / "seen").read_text() == "disable --quiet ovn-host ovn-central\n"


@pytest.mark.parametrize(
    ("uid", "variables", "is_provided"),
    [
        (0, {}, True),
        (1000, {}, False),
        (0, {"NOVELLA_LOCAL_NETWORK": "user"}, False),
        (0, {"NOVELLA_OVN_NORTHBOUND": "unix:/nb", "NOVELLA_OVN_SOUTHBOUND": "unix:/sb"}, False),
    ],
    ids=str,
)
def test_ovn_is_installed_where_up_may_start_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, uid: int, variables: dict[str, str], is_provided: bool
) -> None:
    provided: list[str] = []
    monkeypatch.setattr(os, "geteuid", lambda: uid)
    monkeypatch.setattr(system_packages, "provide", provided.extend)
    system_packages.provide_ovn(load({"NOVELLA_DATA": str(tmp_path), **variables}))
    assert provided == (list(system_packages.OVN) if is_provided else [])


def test_without_ovn_the_start_goes_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(_: object) -> None:
        raise debian.CannotInstall("the mirror is away")

    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(system_packages, "provide", fails)
    system_packages.provide_ovn(load({"NOVELLA_DATA": str(tmp_path)}))
    assert capsys.readouterr().err.endswith("will have QEMU's user network: the mirror is away\n")


def test_a_policy_that_was_there_stays(machine: Path) -> None:
    (machine / "policy-rc.d").write_text("#!/bin/sh\nexit 0\n")
    with debian.nothing_starts():
        pass
    assert (machine / "policy-rc.d").read_text() == "#!/bin/sh\nexit 0\n"


def test_packages_are_installed_without_a_refresh_when_the_lists_suffice(machine: Path) -> None:
    (machine / "lists" / "debian_Packages").touch()
    debian.install(["one", "two"])
    assert commands(machine) == ["install one two"]


def test_lists_that_were_never_fetched_are_fetched_first(machine: Path) -> None:
    debian.install(["one"])
    assert commands(machine) == ["update", "install one"]


def test_a_failure_is_shown_in_its_last_line_after_one_refresh(machine: Path) -> None:
    (machine / "lists" / "debian_Packages").touch()
    put_apt_get(machine, outcome="echo first >&2; echo 'E: held packages' >&2; exit 100")
    with pytest.raises(debian.CannotInstall) as refused:
        debian.install(["one"])
    assert str(refused.value) == "apt-get could not install one: E: held packages"
    assert commands(machine) == ["install one", "update", "install one"]


def test_accounts_that_may_not_install_get_a_hint(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(machine, "sudo", "#!/bin/sh\nexit 1\n")
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(debian.CannotInstall) as refused:
        debian.install(["one", "two"])
    expected = "neither root nor sudo without a password; install by hand: sudo apt-get install one two"
    assert str(refused.value) == expected
    assert not (machine / "log").exists()


def bindings(folder: Path, tag: str) -> Path:
    folder.mkdir()
    for name in ("libvirt.py", "libvirtaio.py", f"libvirtmod.cpython-{tag}-x86_64-linux-gnu.so", "libvirt_lxc.py"):
        (folder / name).write_text(name)
    return folder


def test_bindings_are_linked_and_linked_again_when_they_moved(tmp_path: Path) -> None:
    site_packages = tmp_path / "lib" / "python3.11" / "site-packages"
    site_packages.mkdir(parents=True)
    expected = ["libvirt.py", "libvirtaio.py", "libvirtmod.cpython-311-x86_64-linux-gnu.so"]
    for modules in (bindings(tmp_path / "old", "311"), bindings(tmp_path / "new", "311")):
        links = system_packages.link_bindings(modules, site_packages)
        assert [link.name for link in links] == expected
        assert [link.resolve() for link in links] == [modules / name for name in expected]
        assert system_packages.link_bindings(modules, site_packages) == links
    assert sorted(path.name for path in site_packages.iterdir()) == expected


def test_bindings_of_another_python_are_not_linked(tmp_path: Path) -> None:
    site_packages = tmp_path / "lib" / "python3.12" / "site-packages"
    site_packages.mkdir(parents=True)
    with pytest.raises(system_packages.CannotLink) as refused:
        system_packages.link_bindings(bindings(tmp_path / "modules", "311"), site_packages)
    assert str(refused.value) == "libvirt's bindings here are for 311, this environment is for 312"
    assert list(site_packages.iterdir()) == []


def test_a_part_is_current_until_its_source_changes(tmp_path: Path) -> None:
    layout = bootstrap.Layout(tmp_path)
    layout.venv_dir.mkdir()
    source = tmp_path / "base.lock"
    source.write_text("django==5.2")
    assert not layout.is_current("base", source)
    layout.mark_current("base", source)
    assert layout.is_current("base", source)
    source.write_text("django==5.3")
    assert not layout.is_current("base", source)


def test_an_installation_reports_what_it_installs_and_how_long_that_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ran: list[str] = []
    monkeypatch.setattr(bootstrap, "_run", lambda command, *, what, cwd: ran.append(what))
    layout = bootstrap.Layout(tmp_path)
    layout.venv_dir.mkdir()
    layout.lock("base").parent.mkdir()
    layout.lock("base").write_text("django==5.2 \\\n    --hash=sha256:0\n    # via novella\nredis==5.0 \\\n")
    for _ in range(2):  # the second finds everything there
        bootstrap._sync(layout, "base")
    assert ran == ["installing base.lock"]
    expected = "set-up: installing the 2 packages of requirements/base.lock into .venv; this takes about a minute\n"
    assert capsys.readouterr().out == expected


def test_an_old_python_is_refused_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(bootstrap, "OLDEST_PYTHON", (4, 0))
    assert bootstrap.main(["run"]) == 1
    message = capsys.readouterr()
    assert message.out == ""
    assert message.err.startswith("Novella needs Python 4.0 or newer; this is 3.")
    assert message.err.count("\n") == 1


def test_without_ensurepip_and_without_rights_the_one_command_is_shown(
    machine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_apt_get(machine, outcome="exit 100")
    monkeypatch.setattr(bootstrap, "find_spec", lambda name: None)
    with pytest.raises(bootstrap.CannotSetUp) as refused:
        bootstrap.set_up(bootstrap.Layout(tmp_path), "run")
    assert str(refused.value).startswith("apt-get install -y python3.")
    assert str(refused.value).endswith("-venv")
    assert not (tmp_path / ".venv").exists()


def package(node_modules: Path, *, version: str) -> Path:
    folder = node_modules / "@xterm" / "xterm"
    (folder / "lib").mkdir(parents=True, exist_ok=True)
    (folder / "package.json").write_text(json.dumps({"version": version}))
    (folder / "lib" / "xterm.mjs").write_bytes(b"export {};\n//# sourceMappingURL=xterm.mjs.map\n")
    return folder


def test_browser_files_land_in_a_folder_of_their_version_without_source_maps(tmp_path: Path) -> None:
    picked = {"@xterm/xterm": ("lib/xterm.mjs",)}
    vendor_dir = tmp_path / "static" / "vendor"
    for version in ("1.0.0", "1.1.0"):
        package(tmp_path / "node_modules", version=version)
        copied = collect(tmp_path / "node_modules", vendor_dir, picked)
        assert copied == [vendor_dir / f"xterm-{version}" / "xterm.mjs"]
        assert copied[0].read_bytes() == b"export {};\n"
    assert [path.name for path in vendor_dir.iterdir()] == ["xterm-1.1.0"]
    assert [path.name for path in vendor_dir.parent.iterdir()] == ["vendor"]


def test_the_files_of_a_picked_folder_keep_their_places(tmp_path: Path) -> None:
    package(tmp_path / "node_modules", version="1.0.0")
    copied = collect(tmp_path / "node_modules", tmp_path / "vendor", {"@xterm/xterm": ("lib/",)})
    assert copied == [tmp_path / "vendor" / "xterm-1.0.0" / "lib" / "xterm.mjs"]
    with pytest.raises(FileNotFoundError):
        collect(tmp_path / "node_modules", tmp_path / "vendor", {"@xterm/xterm": ("none/",)})
    assert copied[0].exists()


def test_a_missing_browser_file_leaves_what_was_there(tmp_path: Path) -> None:
    vendor_dir = tmp_path / "static" / "vendor"
    (vendor_dir / "xterm-0.9.0").mkdir(parents=True)
    package(tmp_path / "node_modules", version="1.0.0")
    with pytest.raises(FileNotFoundError):
        collect(tmp_path / "node_modules", vendor_dir, {"@xterm/xterm": ("lib/xterm.mjs", "css/xterm.css")})
    assert [path.name for path in vendor_dir.parent.iterdir()] == ["vendor"]
    assert [path.name for path in vendor_dir.iterdir()] == ["xterm-0.9.0"]
