"""Hardware requests of flavors and images, with the operator's PCI aliases."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.conf import settings
from django.core import checks

from conductor.core.errors import Invalid
from conductor.core.hardware import derive, pci_aliases
from conductor.core.hardware.constraints import HardwareRequirements
from conductor.core.request_spec import FlavorSpec, RequestSpec
from conductor.core.scheduling import prefilters

SETTING = "NOVELLA_PCI_ALIASES"


def derived(spec: RequestSpec) -> RequestSpec:
    """Return the request with the cells and devices that follow from its flavor and image. Raises Invalid naming the
    key.
    """
    return derive.with_hardware(spec, _options())


def refuse(flavor: FlavorSpec, properties: Mapping[str, Any]) -> None:
    """Raise Invalid, naming the key, where flavor and image contradict each other."""
    derive.check(flavor, properties, _options())
    prefilters.check(flavor, properties)


def refuse_change(flavor: FlavorSpec, before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
    """Raise Invalid where another image would change the cells of a server that stays on its host."""
    refuse(flavor, after)
    if derive.topology_of(HardwareRequirements(flavor, before)) != derive.topology_of(
        HardwareRequirements(flavor, after)
    ):
        raise Invalid(
            "The image's hw_numa_*, hw_cpu_* or hw_mem_page_size ask for other NUMA cells than the server has: "
            "make a new server of it."
        )


def check_aliases(**kwargs: Any) -> list[checks.CheckMessage]:
    """Check the operator's PCI aliases, for `novella check`."""
    try:
        pci_aliases.read_aliases(settings.NOVELLA_PCI_ALIASES)
    except Invalid as error:
        return [checks.Error(f"{SETTING}: {error.message}", id="conductor.E001")]
    return []


def _options() -> Mapping[str, Any]:
    return {pci_aliases.OPTION: settings.NOVELLA_PCI_ALIASES}
