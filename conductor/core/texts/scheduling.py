"""Messages of the scheduler: its advice, why a host was rejected, and what would make a request fit."""

from __future__ import annotations

from collections.abc import Mapping

from conductor.core.texts.forms import Plural, Text

TEXTS: Mapping[str, Text] = {
    # advice about a decision
    "scheduling.no_hosts": "There are no hosts.",
    "scheduling.no_valid_host": "No valid host was found.",
    "scheduling.eligible": Plural(
        "%(count)s of %(total)s hosts is eligible.", "%(count)s of %(total)s hosts are eligible."
    ),
    "scheduling.partial": "Only %(placed)s of %(total)s instances found a host: none was placed.",
    "scheduling.no_scheduler": "No scheduler is running.",
    "scheduling.schedulers_slow": "No scheduler replied in time. Asked: %(names)s.",
    "scheduling.schedulers_dead": "No scheduler replied in time. Asked: %(names)s. Not running: %(dead)s.",
    "scheduling.failed": "Scheduler %(name)s failed: %(kind)s.",
    "scheduling.taken": "Every host that was eligible was taken by other requests at the same moment. Retry.",
    "scheduling.rejected": "%(rejected)s of %(total)s hosts: %(reason)s.",
    "scheduling.reason_with_need": "%(reason)s (%(need)s needed)",
    "scheduling.near_full": Plural("%(count)s host matches but is full.", "%(count)s hosts match but are full."),
    "scheduling.near_filter": Plural(
        "%(count)s host is rejected only by %(filter)s.", "%(count)s hosts are rejected only by %(filter)s."
    ),
    "scheduling.cell_unresponsive": "Cell %(cell)s did not answer: its hosts were not considered.",
    "scheduling.cell_quarantined": "Cell %(cell)s is in quarantine: its hosts were not considered.",
    "scheduling.plugin_skipped": "%(kind)s %(plugin)s failed (%(error)s) and was left out.",
    "scheduling.plugin_failed": Plural(
        "%(kind)s %(plugin)s failed (%(error)s) on %(count)s host; consequence: %(consequence)s.",
        "%(kind)s %(plugin)s failed (%(error)s) on %(count)s hosts; consequence: %(consequence)s.",
    ),
    "scheduling.plugin_slow": Plural(
        "%(kind)s %(plugin)s took too long about %(count)s host; consequence: %(consequence)s.",
        "%(kind)s %(plugin)s took too long about %(count)s hosts; consequence: %(consequence)s.",
    ),
    "scheduling.plugin_not_run": Plural(
        "%(kind)s %(plugin)s was not run on %(count)s host (%(error)s); consequence: %(consequence)s.",
        "%(kind)s %(plugin)s was not run on %(count)s hosts (%(error)s); consequence: %(consequence)s.",
    ),
    # why a host was rejected, by any stage
    "reject.by_filter": "rejected by %(filter)s",
    "reject.filter_failed": "the filter failed (%(error)s)",
    "reject.filter_not_run": "the filter was not run (%(error)s)",
    "reject.no_reason": "no reason given",
    # by placement
    "reject.not_enough": "not enough %(what)s",
    "reject.several_providers": "resource groups need different providers, and the host has only one",
    "reject.wrong_unit": "cannot give that amount of %(what)s at once",
    "reject.trait_missing": "the host lacks a required trait",
    "reject.provider_trait_missing": "no provider of the host has a required trait",
    "reject.trait_forbidden": "the host has a forbidden trait",
    "reject.not_in_aggregates": "the host is not in an aggregate that the request may use",
    "reject.not_together": "the host's providers cannot give everything together",
    # by where the request may go
    "reject.other_host": "the request names another host",
    "reject.other_node": "the request names another node",
    "reject.other_cell": "the request names another cell",
    "reject.other_zone": "the request names another zone",
    "reject.excluded_host": "the request excludes this host",
    "reject.cell_closed": "cell %(cell)s is closed to new servers",
    "reject.leaves_cell": "a server cannot leave its cell",
    "reject.hypervisor_type": "the host has another type of hypervisor",
    "reject.cannot_take_over": "the host's driver cannot take the server over",
    # by filters
    "reject.disabled": "the host is closed to new instances",
    "reject.down": "the host is down",
    "reject.other_network": "the host is in another network",
    "reject.other_flavors": "the host takes other flavors",
    "reject.other_images": "the host takes images with another %(name)s",
    "reject.other_projects": "the host is reserved for other projects",
    "reject.isolated_host": "the host is reserved for isolated images",
    "reject.isolated_image": "the image runs on isolated hosts only",
    "reject.metrics_missing": "the host does not report all metrics",
    "reject.affinity": "the server group's members must share a host",
    "reject.anti_affinity": "the server group's members must be on different hosts",
    "reject.not_near": "none of the servers that the request wants to be near is on this host",
    "reject.not_away": "a server that the request wants to avoid is on this host",
    "reject.query": "the hint %(hint)s does not match this host",
    "reject.aggregate_spec": "the flavor requires aggregates with %(key)s %(requirement)s",
    "reject.aggregate_spec_unreadable": "the flavor requires %(key)s %(requirement)s, but %(fault)s",
    "reject.capability": "the flavor requires %(key)s %(requirement)s",
    "reject.image_property": "image needs %(what)s %(wanted)s, host runs %(have)s",
    "reject.hypervisor_version": "image needs another hypervisor version",
    "reject.image_combination": "image needs a combination that the host does not run",
    "reject.no_threads": "host has no cores with several threads",
    "reject.io_ops": "too many servers are being built or moved there",
    "reject.num_instances": "too many servers are there already",
    # what a host has, and what was needed
    "need.without": "without %(names)s",
    "need.fewer_than": "fewer than %(count)s",
    "need.most_on_host": "at most %(most)s on a host",
    "have.here": "%(count)s here",
    "have.free": "%(amount)s free",
    "have.steps": "%(least)s to %(most)s in steps of %(step)s",
    "amount": "%(amount)s %(unit)s",
    "amount.vcpus": Plural("%(count)s vCPU", "%(count)s vCPUs"),
    "amount.memory": "%(amount)s MB of memory",
    "amount.disk": "%(amount)s GB of disk",
    "list.and": "%(first)s and %(last)s",
    # what would make a request fit
    "fit.request": "It fits %(change)s.",
    "fit.fleet": "It fits if %(change)s on host %(host)s.",
    "fit.cell": "It fits if cell %(cell)s takes new servers again.",
    "fit.instances": Plural(
        "with %(count)s instance instead of %(asked)s", "with %(count)s instances instead of %(asked)s"
    ),
    "fit.amounts": "with %(amounts)s",
    "fit.less": "%(amount)s instead of %(asked)s",
    "fit.any_zone": "in any zone instead of %(zone)s",
    "fit.any_host": "on any host instead of the named ones",
    "fit.group_policy": "with a server group of policy %(policy)s",
    "fit.without_hint": "without the hint %(hint)s",
    "fit.without_trait": "without the trait %(trait)s",
    "fit.without_extra_spec": "without the extra spec %(key)s",
    "fit.without_property": "with an image without the property %(key)s",
    "fit.service_up": "the compute service is up again",
    "fit.service_enabled": "the compute service is enabled",
    "fit.freed": "%(amounts)s is freed",
    "fit.all_freed": "%(amounts)s are freed",
}
