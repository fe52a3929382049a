"""Makes the notification sink that the operator named, or says what is wrong with the name or its options."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from conductor.core.errors import Invalid
from conductor.core.notification_sink import NotificationSink
from conductor.plugins.options import nearest, require_options

FIELD = "NOVELLA_NOTIFICATION_SINKS"


def sink_of(known: Mapping[str, type[NotificationSink]], name: str, options: Any) -> NotificationSink:
    """The sink of that name with its options. Raises Invalid."""
    place = f"{FIELD}.{name}"
    if name not in known:
        names = ", ".join(sorted(known)) or "none"
        raise Invalid(f"No plugin brings a sink {name}. {nearest(name, known)}Known: {names}.", field=FIELD)
    if not isinstance(options, Mapping):
        raise Invalid(f"The options of {name} are a mapping, not {type(options).__name__}.", field=place)
    try:
        sink = known[name]()
    except Exception as error:
        raise Invalid(f"The sink {name} cannot be made ({type(error).__name__}).", field=place) from error
    require_options(sink, options, place)
    return known[name](options)
