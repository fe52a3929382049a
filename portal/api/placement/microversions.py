"""Every version of the placement API that is served, oldest first; the last one is the maximum."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TypeVar

from conductor.core.errors import Invalid
from portal.api.errors import UnsupportedVersion
from portal.api.microversions import HEADER, Microversion, VersionTable

_FORM = re.compile(r"\A\d{1,4}\.\d{1,4}\Z")
T = TypeVar("T")


class PlacementVersions(VersionTable):
    """Negotiates as placement's clients expect: any two numbers are a version, which may be out of range."""

    def negotiate(self, headers: Mapping[str, str]) -> Microversion:
        """Return the version to use. Raises Invalid (malformed) or UnsupportedVersion (out of range)."""
        requested = self.asked_for(headers)
        if requested is None:
            return self.minimum
        if requested.strip().lower() == "latest":
            return self.maximum
        if not _FORM.match(requested.strip()):
            raise Invalid(
                f"{HEADER}: invalid version string: {requested.strip()[:40]}. "
                f"It must be a number like {self.maximum}, or latest.",
                field=HEADER,
            )
        major, minor = requested.strip().split(".")
        version = Microversion(int(major), int(minor))
        if not self.minimum <= version <= self.maximum:
            raise UnsupportedVersion(
                f"Unacceptable version header: {version}. Minimum is {self.minimum} and maximum is {self.maximum}."
            )
        return version

    def answer_headers(self, used: Microversion | None) -> dict[str, str]:
        """Return the version headers, with the header name in lower case, which some clients need and caches accept."""
        return {**super().answer_headers(used), "Vary": HEADER.lower()}


def newest(table: Sequence[tuple[str, T]], version: Microversion) -> T:
    """Return the last entry whose version is covered; tables begin with an entry that always applies."""
    return next(value for first, value in reversed(table) if version.covers(first))


VERSIONS = PlacementVersions(
    "placement",
    history=(
        ("1.0", "Providers, inventories, allocations and usages."),
        ("1.1", "Providers have aggregates."),
        ("1.2", "Resource classes can be added."),
        ("1.3", "Providers can be filtered by aggregates (`member_of`)."),
        ("1.4", "Providers can be filtered by free resources (`resources`)."),
        ("1.5", "All inventories of a provider can be deleted at once."),
        ("1.6", "Providers have traits, and traits can be added."),
        ("1.7", "PUT creates a resource class if it does not exist, and no longer renames one."),
        ("1.8", "Allocations must name their project and user."),
        ("1.9", "Usages of a project and user can be read."),
        ("1.10", "Allocation candidates can be requested."),
        ("1.11", "Providers link to their allocations."),
        ("1.12", "PUT takes allocations in the form that GET returns: an object with a key per provider."),
        ("1.13", "Allocations of several consumers can be written at once."),
        ("1.14", "Providers form trees."),
        ("1.15", "Answers have `Last-Modified` and `Cache-Control: no-cache`."),
        ("1.16", "Allocation candidates have a `limit`."),
        ("1.17", "Allocation candidates can require traits (`required`) and show those of providers."),
        ("1.18", "Providers can be filtered by traits."),
        ("1.19", "Aggregates are read and written with the provider's generation."),
        ("1.20", "Creating a provider returns it."),
        ("1.21", "Allocation candidates can be filtered by aggregates (`member_of`)."),
        ("1.22", "Traits can be forbidden."),
        ("1.23", "Errors have a code."),
        ("1.24", "`member_of` can be repeated; all of its conditions must hold."),
        ("1.25", "Allocation candidates can be requested in numbered groups, each from one provider."),
        ("1.26", "`reserved` may equal the total of an inventory."),
        ("1.27", "Allocation candidates show all resources of their providers."),
        ("1.28", "Consumers have generations, and PUT may remove all allocations of a consumer."),
        ("1.29", "Allocation candidates can use several providers of a tree, and show the tree."),
        ("1.30", "Inventories and allocations can be moved together (`POST /reshaper`)."),
        ("1.31", "Allocation candidates can be limited to one tree (`in_tree`)."),
        ("1.32", "Aggregates can be forbidden."),
        ("1.33", "Request groups can have names."),
        ("1.34", "Allocation candidates show which provider satisfies which request group (`mappings`)."),
        ("1.35", "Allocation candidates can require traits of the root provider (`root_required`)."),
        ("1.36", "Request groups can be bound to one subtree (`same_subtree`), and may request only traits."),
        ("1.37", "A provider can be moved to another parent, or to none."),
        ("1.38", "Consumers have types."),
        ("1.39", "`required` can be repeated, and can ask for one of several traits (`in:`)."),
    ),
)
