"""Filters and tags of the templates: times, sizes, ids, states and icons."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from django import template
from django.templatetags.static import static
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import get_language, gettext

from conductor.core.context import RequestContext
from conductor.core.states import CELL_IN_QUARANTINE
from conductor.services.cells import actions, health
from conductor.services.fleet.host_details import HostDetail
from conductor.services.plugins import panels
from conductor.services.servers.types import InstanceData
from portal.pages import permissions
from portal.pages.amounts import decimal, megabytes, whole
from portal.pages.status_badges import StatusBadge
from portal.pages.timeline.presenter import WorkflowPresenter
from portal.pages.workflows import live_migrations

register = template.Library()
register.filter("megabytes", megabytes)

MOMENTS = {"en": "%Y-%m-%d %H:%M:%S %Z", "de": "%d.%m.%Y %H:%M:%S %Z"}
UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


register.filter("may_change", permissions.may_change)


@register.simple_tag
def icon(name: str) -> SafeString:
    """Return an outline icon beside a word. It is hidden from screen readers."""
    return format_html(
        '<svg class="icon" aria-hidden="true"><use href="{}#{}"></use></svg>', static("novella/img/icons.svg"), name
    )


@register.simple_block_tag(takes_context=True)
def titled(context: Mapping[str, Any], content: str) -> SafeString:
    """Return the page's title, for its tab and for link previews, where unauthenticated readers get the product's
    name.
    """
    words = content.strip().replace('"', "&quot;")
    title = mark_safe(f"{words} · Novella")  # already escaped by the template
    shared = title if context.get("caller") else "Novella"
    return format_html(
        '<title>{}</title>\n  <meta property="og:site_name" content="Novella">'
        '\n  <meta property="og:title" content="{}">',
        title,
        shared,
    )


@register.filter
def down_cells(missing: Mapping[str, str]) -> list[tuple[str, datetime | None]]:
    """Return the missing cells that do not answer, with the last answer of each; None if this process saw none."""
    return [(cell, health.last_answered(cell)) for cell, why in missing.items() if why != CELL_IN_QUARANTINE]


register.filter("last_answered", health.last_answered)


@register.filter
def quarantined_cells(missing: Mapping[str, str]) -> list[tuple[str, Any]]:
    """Return the missing cells in quarantine, with the operator and the reason; None if it was lifted since."""
    known = actions.quarantines()
    return [(cell, known.get(cell)) for cell, why in missing.items() if why == CELL_IN_QUARANTINE]


@register.inclusion_tag("components/state.html")
def state(badge: StatusBadge) -> dict[str, StatusBadge]:
    """Context for a state's glyph, shape, word and hue."""
    return {"badge": badge}


@register.inclusion_tag("workflows/_migration.html")
def live_migration(caller: RequestContext, presenter: WorkflowPresenter) -> dict[str, Any]:
    """Context for the progress of a live migration; empty without one."""
    return live_migrations.context_of(caller, presenter)


@register.inclusion_tag("components/panels.html")
def server_panels(caller: RequestContext, server: InstanceData) -> dict[str, Any]:
    """Panels of plugins about a server."""
    return {"panels": panels.of_server(caller, server)}


@register.inclusion_tag("components/panels.html")
def host_panels(caller: RequestContext, host: HostDetail) -> dict[str, Any]:
    """Panels of plugins about a host."""
    return {"panels": panels.of_host(caller, host)}


@register.filter
def duration(seconds: float | timedelta | None) -> str:
    """3.2 s, 2 min 5 s, 4 h 10 min, 3 d 2 h; milliseconds below a second."""
    if seconds is None:
        return ""
    amount = seconds.total_seconds() if isinstance(seconds, timedelta) else float(seconds)
    if amount < 0.9995:  # a value that rounds up to the next unit is shown in that
        return f"{max(0, round(amount * 1000))} ms"
    if amount < 9.95:
        return f"{decimal(amount)} s"
    rest = round(amount)
    parts = []
    for size, unit in UNITS:
        if rest >= size:
            parts.append(f"{whole(rest // size)} {unit}")
            rest %= size
    return " ".join(parts[:2])


@register.filter
def signed_duration(seconds: float) -> str:
    """+3.2 s, −40 ms, ±0."""
    return f"{'+' if seconds > 0 else '−'}{duration(abs(seconds))}" if seconds else "±0"


@register.filter
def difference(seconds: float) -> str:
    """3.2 s longer, 40 ms less, just as long."""
    if abs(seconds) < 0.001:
        return gettext("no difference")
    words = gettext("%(time)s longer") if seconds > 0 else gettext("%(time)s shorter")
    return words % {"time": duration(abs(seconds))}


@register.filter
def age(moment: datetime | None) -> str:
    """Elapsed time in one unit: 12 s, 5 min, 3 h, 2 d."""
    if moment is None:
        return ""
    seconds = max(0, int((datetime.now(UTC) - moment).total_seconds()))
    for size, unit in UNITS:
        if seconds >= size:
            return f"{seconds // size} {unit}"
    return gettext("now")


@register.filter
def utc(moment: datetime | None) -> str:
    """2026-01-31 12:00:05 UTC, or 31.01.2026 12:00:05 CET; in the zone and the language of the viewer."""
    shape = MOMENTS.get(get_language() or "", MOMENTS["en"])
    return timezone.localtime(moment).strftime(shape) if moment else ""


@register.filter
def clock(moment: datetime | None) -> str:
    """12:00:05.123, UTC."""
    return f"{moment.astimezone(UTC):%H:%M:%S.%f}"[:-3] if moment else ""


@register.filter
def iso(moment: datetime | None) -> str:
    return moment.astimezone(UTC).isoformat() if moment else ""


@register.filter
def short_id(text: str) -> str:
    return str(text)[:8]


@register.filter
def addresses(ports: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the addresses of a server's ports: floating IPs first, then the ports' own, in order."""
    listed = list(ports)
    floating = [str(one["ip_address"]) for port in listed for one in port.get("floating", ())]
    return floating + [str(port["ip_address"]) for port in listed if port.get("ip_address")]


@register.filter
def as_json(value: object) -> str:
    """Readable JSON for a <pre>."""
    return json.dumps(value, indent=2, default=str, ensure_ascii=False, sort_keys=True)


@register.filter
def percent(share: float) -> str:
    """0.256 → 25.6%: a length or place in an SVG."""
    return f"{100 * share:.3f}".rstrip("0").rstrip(".") + "%"


@register.filter
def words(text: str) -> list[str]:
    """Return the words of a text."""
    return text.split()


@register.filter
def get(mapping: Mapping[Any, Any], key: Any) -> Any:
    """mapping[key], or nothing."""
    return mapping.get(key)
