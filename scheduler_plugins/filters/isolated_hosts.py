"""Filter that separates isolated hosts and images from others."""

from __future__ import annotations

from conductor.core.filter import Filter
from conductor.core.host_state import HostState, HostTable, Mask
from conductor.core.messages import message, word
from conductor.core.request_spec import RequestSpec
from conductor.core.verdict import PASS, Verdict, reject

NAMES = {"type": "array", "items": {"type": "string"}, "default": []}
RESTRICT = "restrict_isolated_hosts_to_isolated_images"


class IsolatedHostsFilter(Filter):
    """Run isolated images only on isolated hosts and, if restricted, isolated hosts only with isolated images."""

    name = "IsolatedHostsFilter"
    runs_once_per_request = True
    runs_on_rebuild = True
    is_on_by_default = False
    options_schema = {
        "isolated_hosts": {**NAMES, "description": "Names of hosts reserved for isolated images."},
        "isolated_images": {**NAMES, "description": "IDs of images that run only on isolated hosts."},
        RESTRICT: {
            "type": "boolean",
            "default": True,
            "description": "Isolated hosts run only isolated images.",
        },
    }

    def mask(self, hosts: HostTable, spec: RequestSpec) -> Mask:
        takes_isolated, takes_others = self._takes(spec)
        if takes_isolated and takes_others:
            return hosts.everyone
        isolated = hosts.mask_of(self.options["isolated_hosts"])
        return isolated if takes_isolated else ~isolated

    def host_passes(self, host: HostState, spec: RequestSpec) -> Verdict:
        takes_isolated, takes_others = self._takes(spec)
        if host.host in self.options["isolated_hosts"]:
            return PASS if takes_isolated else reject(message("reject.isolated_host"), have=word("another image"))
        return PASS if takes_others else reject(message("reject.isolated_image"), need=word("an isolated host"))

    def _takes(self, spec: RequestSpec) -> tuple[bool, bool]:
        """Return whether the image may run on isolated hosts, and whether on the others."""
        image = spec.image.image_id
        is_isolated = bool(image) and image in self.options["isolated_images"]
        return is_isolated or not self.options[RESTRICT], not is_isolated
