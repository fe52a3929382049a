"""Pre-filters: bounds of the placement query; each pre-filter is one row of a table, with its option."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import os_traits as traits

from conductor.core import image_properties
from conductor.core.errors import Invalid, NovellaError
from conductor.core.hardware.constraints import HardwareRequirements
from conductor.core.placement.query import UNBOUND, Bounds
from conductor.core.request_spec import FlavorSpec, ImageSpec, RequestSpec
from conductor.core.scheduling.guest_features import (
    ENCRYPTION_FORMATS,
    SOUND_MODELS,
    TPM_SECRETS,
    agreed,
    switch,
    tpm_version,
)
from conductor.core.scheduling.resource_request import query_of, required_traits

TENANT_KEY = "filter_tenant_id"
ZONE_KEY = "availability_zone"
TRAIT_KEY = "trait:"
# Image property → prefix of the trait's name.
TRAITS_OF_PROPERTIES = {
    "hw_cdrom_bus": "COMPUTE_STORAGE_BUS",
    "hw_disk_bus": "COMPUTE_STORAGE_BUS",
    "hw_video_model": "COMPUTE_GRAPHICS_MODEL",
    "hw_vif_model": "COMPUTE_NET_VIF_MODEL",
    "hw_architecture": "HW_ARCH",
    "hw_emulation_architecture": "COMPUTE_ARCH",
    "hw_viommu_model": "COMPUTE_VIOMMU",
}


class NoAggregateForProject(NovellaError):
    """No aggregate is open to the project, and the operator demands one."""


@dataclass(frozen=True, slots=True)
class AggregateFacts:
    """An aggregate as pre-filters see it."""

    uuid: str
    metadata: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PrefilterInput:
    """Input of a pre-filter: the request, all aggregates, the operator's options."""

    spec: RequestSpec
    aggregates: Sequence[AggregateFacts]
    options: Mapping[str, Any]
    is_strict: bool = True

    @property
    def requirements(self) -> HardwareRequirements:
        return HardwareRequirements(self.spec.flavor, self.spec.image.properties)


@dataclass(frozen=True, slots=True)
class RequestPrefilter:
    """Restricts the placement query by `bounds_of`. It runs where `option` is on, or always if it has no option.

    A pre-filter that `is_of_request` reads only flavor and image.
    """

    name: str
    bounds_of: Callable[[PrefilterInput], Bounds]
    option: str = ""
    is_of_request: bool = False


def bounds_of(
    spec: RequestSpec, aggregates: Sequence[AggregateFacts], options: Mapping[str, Any], *, is_strict: bool = True
) -> Bounds:
    """Return the bounds of all pre-filters, in their order.

    Raises Invalid for a property or an extra spec that cannot be read, and NoAggregateForProject where the operator
    requires an aggregate.
    """
    requested = PrefilterInput(spec, aggregates, options, is_strict)
    bounds = UNBOUND
    for one in PREFILTERS:
        if not one.option or options.get(one.option):
            bounds = bounds | one.bounds_of(requested)
    return bounds


def of_request(spec: RequestSpec) -> Bounds:
    """Return the bounds of flavor and image alone: features that hosts must have, whatever the operator's settings
    are.
    """
    requested = PrefilterInput(spec, (), {})
    bounds = UNBOUND
    for one in PREFILTERS:
        if one.is_of_request:
            bounds = bounds | one.bounds_of(requested)
    return bounds


def check(flavor: FlavorSpec, properties: Mapping[str, Any]) -> None:
    """Raise Invalid, naming the key, where flavor and image do not give a valid placement query."""
    spec = RequestSpec("", "", flavor, ImageSpec(properties=properties))
    query_of(spec, of_request(spec))


def _tenants(prefilter_input: PrefilterInput) -> Bounds:
    project = prefilter_input.spec.project_id
    mine = {one.uuid for one in prefilter_input.aggregates if _names(one, project)}
    if mine:
        return Bounds(member_of=(frozenset(mine),))
    if prefilter_input.options.get("placement_aggregate_required_for_tenants"):
        raise NoAggregateForProject()
    return UNBOUND


def _names(aggregate: AggregateFacts, project: str) -> bool:
    return any(key.startswith(TENANT_KEY) and value == project for key, value in aggregate.metadata.items())


def _zone(prefilter_input: PrefilterInput) -> Bounds:
    zone = prefilter_input.spec.availability_zone
    if not zone:
        return UNBOUND
    found = frozenset(one.uuid for one in prefilter_input.aggregates if one.metadata.get(ZONE_KEY) == zone)
    return Bounds(member_of=(found,)) if found else UNBOUND


def _image_type(prefilter_input: PrefilterInput) -> Bounds:
    if prefilter_input.spec.is_volume_backed:  # the host never sees the image
        return UNBOUND
    if not prefilter_input.spec.image.disk_format:
        raise Invalid("image: it has no disk_format, by which hosts that can read it are found.")
    return _known(f"COMPUTE_IMAGE_TYPE_{prefilter_input.spec.image.disk_format.upper()}")


def _open_hosts(prefilter_input: PrefilterInput) -> Bounds:
    if prefilter_input.spec.is_canary and prefilter_input.spec.force_hosts:
        return UNBOUND
    return Bounds(root_forbidden=frozenset({traits.COMPUTE_STATUS_DISABLED}))


def _isolated(prefilter_input: PrefilterInput) -> Bounds:
    """Exclude aggregates that require a trait which the request does not require too."""
    required = required_traits(query_of(prefilter_input.spec, is_strict=prefilter_input.is_strict))
    foreign = {
        one.uuid
        for one in prefilter_input.aggregates
        for key, value in one.metadata.items()
        if key.startswith(TRAIT_KEY) and value == "required" and key[len(TRAIT_KEY) :] not in required
    }
    return Bounds(forbidden_aggregates=frozenset(foreign))


def _image_metadata(prefilter_input: PrefilterInput) -> Bounds:
    properties = image_properties.known(prefilter_input.spec.image.properties)
    named = [
        f"{prefix}_{str(properties[name]).replace('-', '_').upper()}"
        for name, prefix in TRAITS_OF_PROPERTIES.items()
        if name in properties
    ]
    if any(not hasattr(traits, name) for name in named):  # an unknown trait: then no trait is required
        return UNBOUND
    return Bounds(root_required=frozenset(named))


def _accelerators(prefilter_input: PrefilterInput) -> Bounds:
    is_wanted = prefilter_input.spec.flavor.extra_specs.get("accel:device_profile")
    return Bounds(root_required=frozenset({traits.COMPUTE_ACCELERATORS})) if is_wanted else UNBOUND


def _packed_rings(prefilter_input: PrefilterInput) -> Bounds:
    is_wanted = switch(prefilter_input.requirements, "virtio_packed_ring")
    return Bounds(root_required=frozenset({traits.COMPUTE_NET_VIRTIO_PACKED})) if is_wanted else UNBOUND


def _encrypted_disks(prefilter_input: PrefilterInput) -> Bounds:
    if not switch(prefilter_input.requirements, "ephemeral_encryption"):
        return UNBOUND
    kind = agreed(prefilter_input.requirements, "ephemeral_encryption_format", ENCRYPTION_FORMATS)
    names = [traits.COMPUTE_EPHEMERAL_ENCRYPTION, *([f"COMPUTE_EPHEMERAL_ENCRYPTION_{kind.upper()}"] if kind else ())]
    return Bounds(root_required=frozenset(names))


def _sound(prefilter_input: PrefilterInput) -> Bounds:
    is_wanted = agreed(prefilter_input.requirements, "sound_model", SOUND_MODELS) == "virtio"
    return Bounds(root_required=frozenset({traits.COMPUTE_SOUND_MODEL_VIRTIO})) if is_wanted else UNBOUND


def _tpm_secrets(prefilter_input: PrefilterInput) -> Bounds:
    if not tpm_version(prefilter_input.requirements):
        return UNBOUND
    keeper = prefilter_input.spec.flavor.extra_specs.get("hw:tpm_secret_security") or "user"
    if keeper not in TPM_SECRETS:
        raise Invalid(f'hw:tpm_secret_security: "{keeper}" is none of {", ".join(TPM_SECRETS)}.')
    return Bounds(root_required=frozenset({TPM_SECRETS[keeper]}))


def _known(name: str) -> Bounds:
    return Bounds(root_required=frozenset({name})) if hasattr(traits, name) else UNBOUND


PREFILTERS = (
    RequestPrefilter("require_tenant_aggregate", _tenants, "limit_tenants_to_placement_aggregate"),
    RequestPrefilter("map_az_to_placement_aggregate", _zone),
    RequestPrefilter("require_image_type_support", _image_type, "query_placement_for_image_type_support"),
    RequestPrefilter("compute_status_filter", _open_hosts),
    RequestPrefilter("isolate_aggregates", _isolated, "enable_isolated_aggregate_filtering"),
    RequestPrefilter("transform_image_metadata", _image_metadata, "image_metadata_prefilter"),
    RequestPrefilter("accelerators_filter", _accelerators, is_of_request=True),
    RequestPrefilter("packed_virtqueue_filter", _packed_rings, is_of_request=True),
    RequestPrefilter("ephemeral_encryption_filter", _encrypted_disks, is_of_request=True),
    RequestPrefilter("virtio_sound_filter", _sound, is_of_request=True),
    RequestPrefilter("tpm_secret_security_filter", _tpm_secrets, is_of_request=True),
)
OPTIONS = (*(one.option for one in PREFILTERS if one.option), "placement_aggregate_required_for_tenants")
