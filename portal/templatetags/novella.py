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
from conductor.services import cell_deeds, cell_health, panels
from conductor.services.host_details import HostDetail
from conductor.services.values import InstanceView
from portal.pages import access, migrations
from portal.pages.amounts import decimal, megabytes, whole
from portal.pages.faces import Face
from portal.pages.stories import Story

register = template.Library()
register.filter("megabytes", megabytes)

MOMENTS = {"en": "%Y-%m-%d %H:%M:%S %Z", "de": "%d.%m.%Y %H:%M:%S %Z"}
UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


register.filter("may_change", access.may_change)


@register.simple_tag
def icon(name: str) -> SafeString:
    """An outline icon beside a word; it says nothing by itself."""
    return format_html(
        '<svg class="icon" aria-hidden="true"><use href="{}#{}"></use></svg>', static("novella/img/icons.svg"), name
    )


@register.simple_block_tag(takes_context=True)
def titled(context: Mapping[str, Any], content: str) -> SafeString:
    """The page's title, in its tab and where its link is shown in a chat: there strangers get the product's name."""
    words = content.strip().replace('"', "&quot;")
    title = mark_safe(f"{words} · Novella")  # the template has escaped it
    shared = title if context.get("asker") else "Novella"
    return format_html(
        '<title>{}</title>\n  <meta property="og:site_name" content="Novella">'
        '\n  <meta property="og:title" content="{}">',
        title,
        shared,
    )


@register.filter
def silent_cells(missing: Mapping[str, str]) -> list[tuple[str, datetime | None]]:
    """Those of the missing cells that do not answer, with when each last did; None where that was never seen here."""
    return [(cell, cell_health.last_answered(cell)) for cell, why in missing.items() if why != CELL_IN_QUARANTINE]


register.filter("last_answered", cell_health.last_answered)


@register.filter
def quarantined_cells(missing: Mapping[str, str]) -> list[tuple[str, Any]]:
    """Those of the missing cells that an operator cut off, with who did it and why; None where it was lifted since."""
    known = cell_deeds.quarantines()
    return [(cell, known.get(cell)) for cell, why in missing.items() if why == CELL_IN_QUARANTINE]


@register.inclusion_tag("components/state.html")
def state(face: Face) -> dict[str, Face]:
    """Glyph, shape, word and hue of a state."""
    return {"face": face}


@register.inclusion_tag("workflows/_migration.html")
def live_migration(asker: RequestContext, story: Story) -> dict[str, Any]:
    """How a guest that is being moved gets on; nothing where none is."""
    return migrations.context_of(asker, story)


@register.inclusion_tag("components/panels.html")
def server_panels(asker: RequestContext, server: InstanceView) -> dict[str, Any]:
    """Cards of plugins about a server."""
    return {"panels": panels.of_server(asker, server)}


@register.inclusion_tag("components/panels.html")
def host_panels(asker: RequestContext, host: HostDetail) -> dict[str, Any]:
    """Cards of plugins about a host."""
    return {"panels": panels.of_host(asker, host)}


@register.filter
def duration(seconds: float | timedelta | None) -> str:
    """3.2 s, 2 min 5 s, 4 h 10 min, 3 d 2 h; milliseconds below a second."""
    if seconds is None:
        return ""
    amount = seconds.total_seconds() if isinstance(seconds, timedelta) else float(seconds)
    if amount < 0.9995:  # what is rounded to the next unit is told in it
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
        return gettext("just as long")
    words = gettext("%(time)s longer") if seconds > 0 else gettext("%(time)s less")
    return words % {"time": duration(abs(seconds))}


@register.filter
def age(moment: datetime | None) -> str:
    """How long ago, in one unit: 12 s, 5 min, 3 h, 2 d."""
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
    """The addresses of the ports of a server: floating IPs first, then the ports' own, in order."""
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
    """The words of a text."""
    return text.split()


@register.filter
def get(mapping: Mapping[Any, Any], key: Any) -> Any:
    """mapping[key], or nothing."""
    return mapping.get(key)
