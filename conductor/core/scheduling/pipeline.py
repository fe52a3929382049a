"""The scheduling pipeline: the deciding plugins, the operator's options, and the classes of equivalent requests."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Protocol

from conductor.core.filter import Filter
from conductor.core.host_state import HostTable, Mask
from conductor.core.plugin_choice import FILTER, WEIGHER
from conductor.core.request_spec import RequestSpec
from conductor.core.scheduling.builtin_filters import RequestedZone
from conductor.core.scheduling.decision_cache import DecisionCache, Key, ReadOnlyCache
from conductor.core.scheduling.filtering import Filtering, Rules
from conductor.core.scheduling.weighing import Multipliers, Weighing
from conductor.core.weigher import Weigher


class RoundWatcher(Protocol):
    """Observes each round while it runs, as the next round changes the hosts. An exception of the watcher ends the
    request.
    """

    def filtered(self, hosts: HostTable, spec: RequestSpec, came: Mask, filtering: Filtering) -> None: ...
    def weighed(self, weighing: Weighing) -> None: ...


@dataclass(frozen=True)
class Pipeline:
    """The active plugins, and the operator's options.

    Attributes:
        keeps_order: Hosts of equal weight stay in their order. Otherwise their order is drawn.
        rechecks_room: A host without room beside earlier picks is no longer a candidate. Otherwise it stays one, is
            weighed with the others, and is skipped when it is picked.
        watcher: Observes every round.
    """

    filters: tuple[Filter, ...]
    weighers: tuple[Weigher, ...]
    multipliers: Multipliers = field(default_factory=Multipliers)
    rules: Rules = field(default_factory=Rules)
    host_subset_size: int = 1
    max_attempts: int = 3
    keeps_order: bool = False
    rechecks_room: bool = True
    watcher: RoundWatcher | None = None
    decision_cache: DecisionCache | None = field(
        default=None, compare=False, repr=False
    )  # results of earlier requests of a class

    @cached_property
    def reading_cache(self) -> Pipeline:
        """The pipeline with a read-only cache, for hosts that no later request starts with."""
        return replace(self, decision_cache=self.decision_cache and ReadOnlyCache(self.decision_cache))

    @property
    def counts_images(self) -> bool:
        """Whether a weigher runs that reads the images of all instances, which are expensive to count."""
        return any(not one.asked_at_zero and self.multipliers.asks(one) for one in self.weighers)

    @cached_property
    def asks_zones(self) -> bool:
        """Whether one of the operator's filters enforces requested zones."""
        return any(one.name == RequestedZone.name for one in self.filters)

    @cached_property
    def has_unmanaged(self) -> bool:
        """Whether there are untrusted plugins, which may modify their arguments."""
        trusted = self.rules.trusted
        return any((FILTER, one.name) not in trusted for one in self.filters) or any(
            (WEIGHER, one.name) not in trusted for one in self.weighers
        )


def class_of(spec: RequestSpec, pipeline: Pipeline) -> Key | None:
    """Return the class of a request. None for requests that depend on other instances' hosts, or on hardware."""
    if spec.group or spec.move or spec.names_hosts or spec.scheduler_hints or spec.instance_hosts or spec.is_rebuild:
        return None
    if spec.numa is not None or spec.pci_requests:
        return None
    flavor, image, rules = spec.flavor, spec.image, pipeline.rules
    key = (
        spec.project_id,
        spec.user_id,
        spec.num_instances,
        (flavor.flavor_id, flavor.name, flavor.vcpus, flavor.memory_mb),
        (flavor.root_gb, flavor.ephemeral_gb, flavor.swap_mb, frozenset(flavor.extra_specs.items())),
        (image.image_id, image.name, image.disk_format, image.container_format, image.size, image.checksum),
        (image.min_disk_gb, image.min_ram_mb, frozenset(image.properties.items())),
        (spec.availability_zone, spec.requested_cell, spec.is_volume_backed, spec.allows_cross_cell_move),
        (spec.instance_uuid, spec.bounds),
        (pipeline.filters, pipeline.weighers, frozenset(pipeline.multipliers.options.items()), pipeline.rechecks_room),
        (rules.digest, rules.fail_open, rules.shadows, rules.quarantined, rules.trusted),
    )
    try:
        hash(key)
    except TypeError:  # image properties may be lists
        return None
    return key


def answers_for_all(pipeline: Pipeline) -> bool:
    """Whether every plugin judges each host independently of other hosts."""
    rules = pipeline.rules
    return not (pipeline.has_unmanaged or rules.shadows or rules.quarantined or pipeline.watcher)
