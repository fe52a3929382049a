"""Which plugins decide, the operator's options, and which requests are alike for them."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

from conductor.core.filter import Filter
from conductor.core.host_state import HostTable, Mask
from conductor.core.plugin_choice import FILTER, WEIGHER
from conductor.core.request_spec import RequestSpec
from conductor.core.scheduling.filtering import Filtering, Rules
from conductor.core.scheduling.links import RequestedZone
from conductor.core.scheduling.recall import Key, Recall
from conductor.core.scheduling.weighing import Multipliers, Weighing
from conductor.core.weigher import Weigher


class RoundWatcher(Protocol):
    """Is told of each round while it runs, as the next one changes the hosts. What it raises ends the request."""

    def filtered(self, hosts: HostTable, spec: RequestSpec, came: Mask, filtering: Filtering) -> None: ...
    def weighed(self, weighing: Weighing) -> None: ...


@dataclass(frozen=True)
class Pipeline:
    """Which plugins decide, and the operator's options.

    With `keeps_order` hosts of equal weight stay in their order; else it is drawn. `rechecks_room`: a host without room
    beside what was picked before it is no candidate any more; else it stays one, is weighed with the others, and is
    passed over when its turn comes. A `watcher` is told of every round.
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
    recall: Recall | None = field(default=None, compare=False, repr=False)  # what earlier requests of a class found

    @property
    def counts_images(self) -> bool:
        """Whether somebody is asked who looks at the images of all instances, which nobody counts for nothing."""
        return any(not one.asked_at_zero and self.multipliers.asks(one) for one in self.weighers)

    @cached_property
    def asks_zones(self) -> bool:
        """Whether one of the operator's filters sees to it that a requested zone is kept to."""
        return any(one.name == RequestedZone.name for one in self.filters)

    @cached_property
    def has_strangers(self) -> bool:
        """Whether plugins decide that are not known to leave alone what they are given."""
        trusted = self.rules.trusted
        return any((FILTER, one.name) not in trusted for one in self.filters) or any(
            (WEIGHER, one.name) not in trusted for one in self.weighers
        )


def class_of(spec: RequestSpec, pipeline: Pipeline) -> Key | None:
    """The class of a request; None for those that are judged by where other instances are, or by their insides."""
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
    except TypeError:  # properties of an image may be lists
        return None
    return key


def answers_for_all(pipeline: Pipeline) -> bool:
    """Whether all plugins are such that what they say of one host depends on that host alone."""
    rules = pipeline.rules
    return not (pipeline.has_strangers or rules.shadows or rules.quarantined or pipeline.watcher)
