"""The launch form: one page, a summary that follows, and an answer that cannot be sent twice."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any
from uuid import uuid4

from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_safe

from conductor.core.errors import Conflict, Invalid, NotFound, QuotaExceeded
from conductor.core.identifiers import uuid_or_none
from conductor.services import instances, launch_choices
from conductor.services.launch_choices import LaunchChoices
from conductor.services.values import BuildWish, NetworkWish
from portal.pages import quota_bars
from portal.pages.access import PageRequest, signed_in
from portal.pages.amounts import megabytes
from portal.pages.fit_meter import fit_meter

MOST_AT_ONCE = 100
LONGEST_NAME = 255
AUTO_NETWORK = "auto"
NO_NETWORK = "none"


@dataclass(frozen=True)
class LaunchForm:
    """What the form holds, as texts."""

    name: str = ""
    count: str = "1"
    image: str = ""
    flavor: str = ""
    network: str = ""
    key: str = ""
    zone: str = ""
    once: str = ""

    @property
    def number(self) -> int:
        """How many servers; 0 for what is no number."""
        return int(self.count) if self.count.isascii() and self.count.isdigit() and len(self.count) < 6 else 0


@dataclass(frozen=True)
class Problem:
    """What is wrong; `field` is empty when it is about the whole."""

    message: str
    field: str = ""


# The API's name of a field that a service complained about → ours.
FIELDS: Mapping[str, str] = {
    "name": "name", "min_count": "count", "max_count": "count", "count": "count", "imageRef": "image", "image": "image",
    "image_ref": "image", "flavorRef": "flavor", "flavor": "flavor", "flavor_ref": "flavor", "networks": "networks",
    "network": "networks", "key_name": "key", "availability_zone": "zone",
}  # fmt: skip


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def launch(request: PageRequest) -> HttpResponse:
    """The form; on POST the launch, or the form again with everything kept and each problem at its field."""
    choices = launch_choices.choices(request.asker)
    if request.method != "POST":
        form = _with_defaults(_read(request.GET), choices)
        return _page(request, form, choices, [])
    form = _read(request.POST)
    problems = _check(form, choices)
    if not problems:
        try:
            done = instances.create(request.asker, _wish(form))
            return redirect("workflow", done.run_uuid)
        except (Invalid, NotFound, Conflict, QuotaExceeded) as error:
            problems = [Problem(error.message, FIELDS.get(str(error.details.get("field", "")), ""))]
    return _page(request, form, choices, problems)


@require_safe
@signed_in
def summary(request: PageRequest) -> HttpResponse:
    """The summary alone, for the form as it stands."""
    choices = launch_choices.choices(request.asker)
    form = _read(request.GET)
    fit = fit_meter(request.asker, _wish(form)) if not _check_choices(form, choices) else None
    return render(request, "servers/_launch_summary.html", {**_summary(form, choices), "fit": fit})


def _wish(form: LaunchForm) -> BuildWish:
    networks: tuple[NetworkWish, ...] | None = (NetworkWish(network_id=form.network),)
    if form.network in (AUTO_NETWORK, ""):
        networks = None
    elif form.network == NO_NETWORK:
        networks = ()
    return BuildWish(
        name=form.name,
        flavor_ref=form.flavor,
        image_ref=form.image,
        min_count=form.number,
        max_count=form.number,
        networks=networks,
        key_name=form.key or None,
        availability_zone=form.zone,
        run_uuid=form.once,
    )


def _read(query: Mapping[str, str]) -> LaunchForm:
    names = ("name", "count", "image", "flavor", "network", "key", "zone", "once")
    form = LaunchForm(**{name: query[name].strip()[:1000] for name in names if name in query})
    # The form carries the name of its workflow: sent twice, it is one launch.
    once = str(uuid_or_none(form.once) or uuid4())
    return replace(form, once=once, count=form.count or "1")


def _with_defaults(form: LaunchForm, choices: LaunchChoices) -> LaunchForm:
    """What most people want: the first of each kind."""
    return replace(
        form,
        image=form.image or (choices.images[0].image_id if choices.images else ""),
        flavor=form.flavor or (choices.flavors[0].flavor_id if choices.flavors else ""),
        network=form.network or AUTO_NETWORK,
    )


def _check(form: LaunchForm, choices: LaunchChoices) -> list[Problem]:
    """What a form can tell by itself; the service checks the rest."""
    problems = []
    if not form.name:
        problems.append(Problem("Give the server a name.", "name"))
    elif len(form.name) > LONGEST_NAME:
        problems.append(Problem(f"The name is longer than {LONGEST_NAME} characters.", "name"))
    return problems + _check_choices(form, choices)


def _check_choices(form: LaunchForm, choices: LaunchChoices) -> list[Problem]:
    """What there must be before anybody can say whether it fits."""
    problems = []
    if not 1 <= form.number <= MOST_AT_ONCE:
        problems.append(Problem(f"Launch 1 to {MOST_AT_ONCE} servers at once.", "count"))
    if form.image not in {image.image_id for image in choices.images}:
        problems.append(Problem("Choose an image.", "image"))
    if form.flavor not in {flavor.flavor_id for flavor in choices.flavors}:
        problems.append(Problem("Choose a flavor.", "flavor"))
    return problems


def _page(request: PageRequest, form: LaunchForm, choices: LaunchChoices, problems: list[Problem]) -> HttpResponse:
    context = {
        "problems": problems,
        "errors": {problem.field: problem.message for problem in problems if problem.field},
        "images": [_image_words(image) for image in choices.images],
        "flavors": choices.flavors,
        "networks": _network_words(choices),
        "keys": choices.keys,
        "zones": choices.zones,
        **_summary(form, choices),
        "fit": fit_meter(request.asker, _wish(form)) if not _check_choices(form, choices) else None,
    }
    return render(request, "servers/launch.html", context, status=400 if problems else 200)


def _image_words(image: launch_choices.ImageChoice) -> dict[str, Any]:
    size = f"{image.size / 1_048_576:.0f} MB" if image.size >= 1_048_576 else f"{max(1, image.size // 1024)} KB"
    needs = [f"needs {image.min_ram_mb} MB memory"] if image.min_ram_mb else []
    words = " · ".join([size, *needs])
    return {"image_id": image.image_id, "name": image.name, "words": words, "is_simulated": image.is_simulated}


def _network_words(choices: LaunchChoices) -> list[dict[str, str]]:
    named = [
        {
            "network_id": network.network_id,
            "name": network.name or network.network_id[:8],
            "words": ", ".join(network.ranges) + (" · shared" if network.is_shared else ""),
        }
        for network in choices.networks
    ]
    words = f"{named[0]['name']}, the only network" if named else "there is none yet"
    auto = [{"network_id": AUTO_NETWORK, "name": "Automatic", "words": words}]
    none = [{"network_id": NO_NETWORK, "name": "None", "words": "console only"}]
    return [*(auto if len(named) <= 1 else []), *named, *none]


def _summary(form: LaunchForm, choices: LaunchChoices) -> dict[str, Any]:
    flavor = next((one for one in choices.flavors if one.flavor_id == form.flavor), None)
    image = next((one for one in choices.images if one.image_id == form.image), None)
    number = min(max(form.number, 0), MOST_AT_ONCE)
    more = {"instances": number}
    if flavor is not None:
        more |= {"cores": number * flavor.vcpus, "ram": number * flavor.memory_mb}
    bars = quota_bars.bars(choices.quotas, more)
    size = f"{flavor.vcpus} vCPU and {megabytes(flavor.memory_mb)} memory" if flavor else "no size yet"
    count_words = f"{number} servers" if number > 1 else "server"
    what = f"{number} servers each" if number > 1 else "One server"
    source = image.name if image else "no image yet"
    return {
        "form": form,
        "quotas": bars,
        "is_over_quota": any(bar.is_over for bar in bars),
        "count_words": count_words,
        "sentence": f"{what} with {size}, from {source}.",
        "command": _command(form, image.name if image else "IMAGE", flavor.name if flavor else "FLAVOR"),
        "body": json.dumps(_body(form), indent=2),
    }


def _command(form: LaunchForm, image: str, flavor: str) -> str:
    words = ["openstack server create", f"--image {shlex.quote(image)}", f"--flavor {shlex.quote(flavor)}"]
    if form.network in (AUTO_NETWORK, NO_NETWORK, ""):
        words.append("--nic none" if form.network == NO_NETWORK else "--nic auto")
    else:
        words.append(f"--network {shlex.quote(form.network)}")
    words += [f"--key-name {shlex.quote(form.key)}"] if form.key else []
    words += [f"--availability-zone {shlex.quote(form.zone)}"] if form.zone else []
    words += [f"--min {form.number} --max {form.number}"] if form.number > 1 else []
    return " \\\n  ".join([*words, shlex.quote(form.name or "NAME")])


def _body(form: LaunchForm) -> dict[str, Any]:
    server: dict[str, Any] = {"name": form.name or "NAME", "imageRef": form.image, "flavorRef": form.flavor}
    if form.network in (AUTO_NETWORK, NO_NETWORK, ""):
        server["networks"] = form.network or AUTO_NETWORK
    else:
        server["networks"] = [{"uuid": form.network}]
    server |= {"key_name": form.key} if form.key else {}
    server |= {"availability_zone": form.zone} if form.zone else {}
    server |= {"min_count": form.number, "max_count": form.number} if form.number > 1 else {}
    return {"server": server}
