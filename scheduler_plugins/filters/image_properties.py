"""Can the host run what the image was made for?"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping

from conductor.core.filter import Filter
from conductor.core.host_state import HostState, HostTable, Mask
from conductor.core.request_spec import ImageSpec, RequestSpec
from conductor.core.verdict import PASS, Verdict, reject

Supported = tuple[tuple[str, str, str], ...]

# Image property → what it asks for, and the place of that in a host's (architecture, hypervisor, mode).
PROPERTIES = (("hw_architecture", "architecture"), ("img_hv_type", "hypervisor"), ("hw_vm_mode", "mode"))
SYNONYMS: Mapping[str, Mapping[str, str]] = {
    "hw_architecture": {"amd64": "x86_64", "x64": "x86_64", "i386": "i686", "x86": "i686", "x86_32": "i686"},
    "img_hv_type": {"xapi": "xen", "baremetal": "ironic"},
    "hw_vm_mode": {"pv": "xen", "hv": "hvm", "baremetal": "hvm"},
}
COMPARISONS: Mapping[str, Callable[[tuple[int, ...], tuple[int, ...]], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}
TERM = re.compile(r"\s*(<=|>=|==|!=|<|>)\s*([0-9]+(?:\.[0-9]+)*)\s*")


class ImagePropertiesFilter(Filter):
    """Match architecture, hypervisor type, mode and hypervisor version of the image with one offer of the host."""

    name = "ImagePropertiesFilter"
    runs_once_per_request = True
    runs_on_rebuild = True

    def mask(self, hosts: HostTable, spec: RequestSpec) -> Mask:
        wanted = _wanted(spec.image)
        if not wanted:
            return hosts.everyone
        mask = hosts.factor("supported_instances").mask(lambda offers: _has_offer(offers, wanted))
        predicate = spec.image.properties.get("img_hv_requested_version", "")
        if predicate:
            mask &= hosts.factor("hypervisor_version").mask(lambda version: _meets_version(version, predicate))
        return mask

    def host_passes(self, host: HostState, spec: RequestSpec) -> Verdict:
        wanted = _wanted(spec.image)
        if not wanted:
            return PASS
        if not _has_offer(host.supported_instances, wanted):
            return _explained(host.supported_instances, wanted)
        predicate = spec.image.properties.get("img_hv_requested_version", "")
        if predicate and not _meets_version(host.hypervisor_version, predicate):
            return reject(
                "image needs another hypervisor version", need=predicate, have=_version_text(host.hypervisor_version)
            )
        return PASS


def _wanted(image: ImageSpec) -> dict[str, str]:
    """Image property → canonical value, for the properties that are set."""
    found = {}
    for name, _ in PROPERTIES:
        value = str(image.properties.get(name) or "").lower()
        if value:
            found[name] = SYNONYMS[name].get(value, value)
    return found


def _has_offer(offers: Supported, wanted: Mapping[str, str]) -> bool:
    return any(all(value in offer for value in wanted.values()) for offer in offers)


def _explained(offers: Supported, wanted: Mapping[str, str]) -> Verdict:
    """Name the first property that no offer has; where each alone is offered, name them all."""
    for position, (name, word) in enumerate(PROPERTIES):
        have = ", ".join(sorted({offer[position] for offer in offers})) or "nothing that it names"
        if name in wanted and not any(wanted[name] in offer for offer in offers):
            return reject(f"image needs {word} {wanted[name]}, host runs {have}", need=wanted[name], have=have)
    have = "; ".join("/".join(offer) for offer in offers)
    return reject("image needs a combination that the host does not run", need="/".join(wanted.values()), have=have)


def _meets_version(version: int, predicate: str) -> bool:
    """Whether e.g. 8002000 (8.2.0) meets ">=4.2, <9". A host that names no version meets all; nonsense meets none."""
    if not version:
        return True
    terms = [TERM.fullmatch(term) for term in predicate.split(",")]
    return all(
        term is not None and COMPARISONS[term[1]](_numbers(_version_text(version)), _numbers(term[2])) for term in terms
    )


def _version_text(version: int) -> str:
    return f"{version // 1_000_000}.{version // 1000 % 1000}.{version % 1000}"


def _numbers(text: str) -> tuple[int, ...]:
    """8.2 and 8.2.0 are the same version."""
    numbers = [int(part) for part in text.split(".")]
    while numbers and not numbers[-1]:
        numbers.pop()
    return tuple(numbers)
