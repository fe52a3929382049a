"""Microversions: header negotiation, and version ranges of views, methods and fields.

An API that has them keeps one list with a sentence per version (`portal/api/compute/microversions.py`):

    VERSIONS = VersionTable("compute", legacy_header="X-OpenStack-Nova-API-Version", history=(
        ("2.1", "The first."),
        ("2.2", "Key pairs have a type."),
    ))

and names it in its base view: `versions = VERSIONS`. Then `request.microversion` is the version in use, responses carry
it, `@since("2.26")` or `@since("2.1", until="2.35")` hides a method outside its range (404), and
`request.microversion.covers("2.19")` or `.covers("2.1", "2.46")` decides about a field. The maximum is the last entry:
add one when everything that the version promises is implemented.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, wraps
from typing import Any, TypeVar

from conductor.core.errors import Invalid, NotFound
from portal.api.errors import UnsupportedVersion

HEADER = "OpenStack-API-Version"
_FORM = re.compile(r"\A([1-9]\d{0,3})\.(0|[1-9]\d{0,3})\Z")
Handler = TypeVar("Handler", bound=Callable[..., Any])


@dataclass(frozen=True, order=True, slots=True)
class Microversion:
    """`2.37` as a value that compares like a version."""

    major: int
    minor: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"

    def covers(self, first: str, last: str | None = None) -> bool:
        """Whether this version is at least `first` and, where given, at most `last`."""
        return parse(first) <= self and (last is None or self <= parse(last))


@cache
def parse(text: str) -> Microversion:
    """Raises Invalid for anything that is not `number.number`."""
    match = _FORM.match(text)
    if match is None:
        raise Invalid(f"API Version String {text[:40]} is of invalid format. Must be of format MajorNum.MinorNum.")
    return Microversion(int(match[1]), int(match[2]))


@dataclass(frozen=True)
class VersionTable:
    """The versions of one API, oldest first, each with a sentence on what it changed."""

    service: str
    history: Sequence[tuple[str, str]]
    legacy_header: str | None = None

    @property
    def minimum(self) -> Microversion:
        return parse(self.history[0][0])

    @property
    def maximum(self) -> Microversion:
        return parse(self.history[-1][0])

    def asked_for(self, headers: Mapping[str, str]) -> str | None:
        """Return the version text in a request's headers; the general header takes precedence over the legacy one."""
        for entry in headers.get(HEADER, "").split(","):
            words = entry.split()
            if words and words[0].lower() == self.service:
                return " ".join(words[1:])
        return headers.get(self.legacy_header) if self.legacy_header else None

    def negotiate(self, headers: Mapping[str, str]) -> Microversion:
        """Return the version to use. Raises Invalid (malformed) or UnsupportedVersion (out of range)."""
        requested = self.asked_for(headers)
        if requested is None:
            return self.minimum
        if requested.strip().lower() == "latest":
            return self.maximum
        version = _parse_uncached(requested.strip())
        if not self.minimum <= version <= self.maximum:
            raise UnsupportedVersion(
                f"Version {version} is not supported by the API. "
                f"Minimum is {self.minimum} and maximum is {self.maximum}."
            )
        return version

    def answer_headers(self, used: Microversion | None) -> dict[str, str]:
        """Headers for every response; `used` is None when the negotiation failed."""
        names = [HEADER, *([self.legacy_header] if self.legacy_header else [])]
        headers = {"Vary": ", ".join(names)}
        if used is not None:
            headers[HEADER] = f"{self.service} {used}"
            if self.legacy_header:
                headers[self.legacy_header] = str(used)
        return headers


# Versions from callers bypass the cache, so that they cannot fill it.
_parse_uncached = parse.__wrapped__


def require(version: Microversion, first: str, last: str | None = None) -> None:
    """Raises NotFound outside of the range: the route does not exist in that version."""
    if not version.covers(first, last):
        raise NotFound()


def since(first: str, until: str | None = None) -> Callable[[Handler], Handler]:
    """Decorate a view's method: 404 for requests with a version outside of [first, until]."""

    def decorate(handler: Handler) -> Handler:
        @wraps(handler)
        def gated(view: Any, request: Any, *args: Any, **kwargs: Any) -> Any:
            require(request.microversion, first, until)
            return handler(view, request, *args, **kwargs)

        return gated  # type: ignore[return-value]

    return decorate
