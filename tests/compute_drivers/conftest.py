"""The libvirt driver on this machine, for every test that runs real guests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from compute_drivers.libvirt.capability import missing_packages
from compute_drivers.libvirt.driver import LibvirtDriver
from tests.compute_drivers.real_guests import QUICK, SHELF
from tests.tiny_linux import copy_image


@pytest.fixture(scope="session")
def real_driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LibvirtDriver]:
    """One for the session: libvirt opens one folder per process."""
    missing = missing_packages()
    assert not missing, f"the tests of real guests need: apt-get install {' '.join(missing)}"
    driver = LibvirtDriver("real-1", {"state_dir": str(tmp_path_factory.mktemp("libvirt")), **QUICK}, SHELF.open)
    driver.start()
    yield driver
    driver.stop()


@pytest.fixture
def driver(real_driver: LibvirtDriver) -> Iterator[LibvirtDriver]:
    """A driver for each test, which destroys what the test leaves."""
    yield real_driver
    for guest in real_driver.guests():
        real_driver.destroy(guest.instance_uuid)


@pytest.fixture(scope="session")
def tiny_linux(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_image(tmp_path_factory.mktemp("tiny-linux"))


@pytest.fixture(scope="session")
def rack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """One for the session: the emulator is one per process, and slow to import for tests of other drivers."""
    from tests.compute_drivers.controllers import certificate_of
    from tests.compute_drivers.controllers import rack as started_rack

    folder = tmp_path_factory.mktemp("rack")
    with started_rack(folder, certificate_of(folder)) as made:
        yield made


@pytest.fixture(scope="session")
def options_of(rack: Any, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., dict[str, Any]]:
    from tests.compute_drivers.bare_metal import options_in

    def make(*numbers: int, options: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
        return options_in(tmp_path_factory.mktemp("host"), rack, *numbers, options=options or {}, **fields)

    return make
