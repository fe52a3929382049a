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
        ("1.3", "Providers are found by aggregates."),
        ("1.4", "Providers are found by what they have room for."),
        ("1.5", "All inventories of a provider are deleted at once."),
        ("1.6", "Providers have traits, and traits can be added."),
        ("1.7", "PUT of a resource class makes sure that it is there, instead of renaming it."),
        ("1.8", "An allocation names its project and user."),
        ("1.9", "Usages of a project."),
        ("1.10", "Allocation candidates."),
        ("1.11", "A provider links to its allocations."),
        ("1.12", "Allocations are written as they are read: an object by provider."),
        ("1.13", "Several consumers are written at once."),
        ("1.14", "Providers form trees."),
        ("1.15", "Answers say when they were true, and that they must not be cached."),
        ("1.16", "Candidates can be limited."),
        ("1.17", "Candidates can require traits, and show them."),
        ("1.18", "Providers are found by traits."),
        ("1.19", "Aggregates are written against a generation."),
        ("1.20", "A new provider is shown in the answer."),
        ("1.21", "Candidates can be asked from aggregates."),
        ("1.22", "Traits can be forbidden."),
        ("1.23", "Errors have a code."),
        ("1.24", "Several conditions on aggregates, all of which must hold."),
        ("1.25", "Candidates are requested in groups, each from one provider."),
        ("1.26", "All of an inventory can be reserved."),
        ("1.27", "Candidates show all resources of their providers."),
        ("1.28", "Consumers have generations, and allocations can be emptied by PUT."),
        ("1.29", "Candidates come from whole trees."),
        ("1.30", "Inventories and allocations are moved together."),
        ("1.31", "Candidates can be asked from one tree."),
        ("1.32", "Aggregates can be forbidden."),
        ("1.33", "Groups have names."),
        ("1.34", "Candidates say which provider serves which group."),
        ("1.35", "Candidates can require traits of the root."),
        ("1.36", "Groups can be bound to one subtree, and ask for traits alone."),
        ("1.37", "A provider can move to another parent, or to none."),
        ("1.38", "Consumers have types."),
        ("1.39", "One of several traits can be required, and conditions on traits repeated."),
    ),
)
