"""Launch forms: an operator's own fields in the launch of servers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from conductor.core.extensions.base import Extension
from conductor.core.plugin_options import OptionsSchema

PREFIX = "form:"  # of the hint by which an answer is sent: form:NAME.FIELD


@dataclass(frozen=True)
class Additions:
    """Result of a form: scheduler hints and metadata that the server gets in addition to those of the request."""

    hints: Mapping[str, list[str]] = field(default_factory=dict)
    metadata: Mapping[str, str] = field(default_factory=dict)


class LaunchForm(Extension):
    """Fields that the portal's launch form shows, and that the API takes as scheduler hints `form:NAME.FIELD`.

    `fields` has a JSON schema with `title`, `description` and `default` for each field by name: a string, a number, an
    integer, a boolean or an `enum` of texts. Answers that fit are stored with the request, and handed to `additions`.
    """

    kind: ClassVar[str] = "launch_form"
    method: ClassVar[str] = "additions"
    title: ClassVar[str] = ""
    fields: ClassVar[OptionsSchema] = {}

    def additions(self, answers: Mapping[str, Any]) -> Additions:
        """Return the additions for these answers. Raise `Invalid`, worded for tenants, where answers contradict."""
        raise NotImplementedError
