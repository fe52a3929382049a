"""A plugin that hangs or ends its process, of each kind that runs in a worker: the calling process continues."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from django.test import Client

from conductor.api_db.models import BuildRequest, PluginQuarantine
from conductor.core.errors import DriverError, Unavailable
from conductor.core.extensions import SERVER, PageSubject
from conductor.plugins import converters
from conductor.scheduler import placement_bounds
from conductor.services.plugins import panels
from conductor.services.quotas import quotas
from tests.fixtures.page_text import text
from tests.fixtures.plugin_use import choices, spec, use
from tests.integration.page_clients import signed_in

__all__ = ["choices", "use"]

pytestmark = [pytest.mark.usefixtures("databases"), pytest.mark.timeout(600)]

NAMES = {
    "prefilter": "TroubleTrait",
    "quota_source": "TroubleLimits",
    "launch_form": "TroubleForm",
    "panel": "TroublePanel",
    "image_converter": "TroubleDisks",
}
LATE, GONE = "did not answer within 0.5 seconds", "it ended its process"
WAYS = {"sleeps": LATE, "loops": LATE, "matches": LATE, "counts": LATE, "exits": GONE, "crashes": GONE}
SUBJECT = PageSubject(SERVER, str(uuid4()), "web-1", "shop")


def _no_bounds(why: str, **given: Any) -> None:
    with pytest.raises(Unavailable, match=f"The pre-filter TroubleTrait gave no answer: {why}"):
        placement_bounds.bounded(spec())


def _stored_limits(why: str, before: Mapping[str, int], **given: Any) -> None:
    assert quotas.limits("shop") == before


def _no_launch(why: str, choices: Mapping[str, str], **given: Any) -> None:
    sent = {"name": "web-1", "count": "1", "network": "none", "once": str(uuid4()), **choices}
    refused = signed_in("ana").post("/servers/launch", sent)
    assert refused.status_code == 503
    assert f"The launch form TroubleForm gave no answer: {why}" in text(refused)
    assert not BuildRequest.objects.exists()


def _a_card_that_failed(why: str, people: Any, **given: Any) -> None:
    (view,) = panels.shown(people.admin.context(), SUBJECT)
    assert view.problem == why


def _no_image(why: str, tmp_path: Path, **given: Any) -> None:
    raw, disk = tmp_path / "a.raw", tmp_path / "a.trouble"
    raw.write_bytes(b"data")
    with pytest.raises(DriverError, match=f"The image converter TroubleDisks failed: {why}"):
        converters.converted(raw, "raw", disk, "trouble")
    assert not disk.exists()


OUTCOMES: Mapping[str, Callable[..., None]] = {
    "prefilter": _no_bounds,
    "quota_source": _stored_limits,
    "launch_form": _no_launch,
    "panel": _a_card_that_failed,
    "image_converter": _no_image,
}


@pytest.mark.parametrize("kind", NAMES)
@pytest.mark.parametrize("mode", WAYS)
def test_an_extension_that_hangs_is_stopped_and_quarantined(
    use: Any, people: Any, choices: Any, tmp_path: Path, kind: str, mode: str
) -> None:
    before = quotas.limits("shop")
    use(kind, NAMES[kind], mode=mode)
    given: dict[str, Any] = {"before": before, "choices": choices, "people": people, "tmp_path": tmp_path}
    OUTCOMES[kind](WAYS[mode], **given)
    row = PluginQuarantine.objects.get()
    assert (row.kind, row.name, row.cause) == (kind, NAMES[kind], "losses")
    page = text(signed_in("admin").get("/plugins"))
    assert row.reason in page
    assert Client().get("/readyz").json()["remarks"] == {"plugins": "1 in quarantine"}
    if kind != "quota_source":  # whose last answer is kept for a minute
        OUTCOMES[kind]("in quarantine", **given)


def test_a_result_of_a_class_of_the_plugin_is_refused(use: Any, people: Any) -> None:
    """To read it would import the plugin here."""
    use("panel", "TroublePanel", mode="lies")
    (view,) = panels.shown(people.admin.context(), SUBJECT)
    assert view.problem == "its answer cannot be used (Odd)"
