"""Weigher that prefers hosts whose instances have similar images."""

from __future__ import annotations

from functools import partial

import numpy as np

from conductor.core.host_state import Column, HostState, HostTable
from conductor.core.image_properties import counted
from conductor.core.metrics import RATIOS_SCHEMA, ratios
from conductor.core.request_spec import RequestSpec
from conductor.core.weigher import Weigher

SETTING = "image_props_weight_setting"


class ImagePropertiesWeigher(Weigher):
    """Number of the image's property values also found in images of the host's instances.

    With `image_props_weight_setting` only the named properties count, each by its ratio.
    """

    name = "ImagePropertiesWeigher"
    multiplier = 0.0
    multiplier_option = "image_props_weight_multiplier"
    asked_at_zero = False
    options_schema = {
        SETTING: {
            **RATIOS_SCHEMA,
            "description": (
                "Image properties to compare, each with its ratio: os_distro=2. Empty: all have the same ratio."
            ),
        }
    }

    def weigh(self, hosts: HostTable, spec: RequestSpec) -> Column:
        setting = dict(ratios(self.options[SETTING]))
        factors = {pair: setting.get(pair[0], 0.0) if setting else 1.0 for pair in counted(spec.image.properties)}
        factors = {pair: factor for pair, factor in factors.items() if factor}
        if not factors:
            return hosts.zeros
        alike = partial(_alike, factors=factors)
        return np.fromiter(map(alike, hosts.states), np.float64, len(hosts))


def _alike(host: HostState, factors: dict[tuple[str, str], float]) -> float:
    have = host.image_properties
    return sum(factor * have.get(pair, 0) for pair, factor in factors.items()) if have else 0.0
