"""The launch form: one page with a live summary, and a launch that cannot be sent twice."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from typing import Any

from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext, ngettext
from django.views.decorators.http import require_http_methods

from conductor.core.errors import Conflict, Invalid, NotFound, QuotaExceeded
from conductor.core.identifiers import new_run_uuid, uuid_or_none
from conductor.core.request_spec import FlavorSpec
from conductor.services.billing import costs
from conductor.services.servers import instances, launch_options, launch_questions
from conductor.services.servers.launch_options import LaunchOptions, SizeFit
from conductor.services.servers.launch_questions import FieldView
from portal.pages import quota_bars
from portal.pages.amounts import megabytes
from portal.pages.amounts import size as size_words
from portal.pages.permissions import PageRequest, members_only
from portal.pages.servers.fit_meter import fit_meter
from portal.pages.servers.launch_body import (
    ANSWER,
    AUTO_NETWORK,
    NO_NETWORK,
    LaunchFormValues,
    body_text,
    command,
    field_of,
    instance_create_of,
)
from portal.pages.servers.launch_hcl import terraform

MOST_AT_ONCE = 100
LONGEST_NAME = 255
MOST_TEXT = 60_000
EVERY_SERVER = "all"  # launch them even if not all of them fit
NO_FIT = SizeFit()  # fit unknown
Sizes = Mapping[str, SizeFit]  # by flavor


@dataclass(frozen=True)
class Problem:
    """An error; `field` is empty if it is about the whole form."""

    message: str
    field: str = ""


@require_http_methods(["GET", "HEAD", "POST"])
@members_only
def launch(request: PageRequest) -> HttpResponse:
    """Show the form; on POST launch, or show the form with all values and errors."""
    choices = launch_options.choices(request.caller)
    if request.method != "POST":
        form = _with_defaults(_again(request, choices), choices)
        sizes = _sizes(request, form, choices)
        return _page(request, _with_flavor(form, choices, sizes), choices, sizes, [])
    form = _read(request.POST)
    if request.POST.get("how", "").isdecimal():  # as many as fit
        form = replace(form, count=request.POST["how"])
    problems = _check(form, choices)
    if not problems and request.POST.get("how") != EVERY_SERVER:
        sizes = _sizes(request, form, choices)
        with suppress(Invalid):
            meter = fit_meter(request.caller, instance_create_of(form), sizes.get(form.flavor, NO_FIT).zones)
            if meter and meter["needs_confirmation"]:
                return _page(request, form, choices, sizes, [], must_confirm=True)
    if not problems:
        try:
            done = instances.create(request.caller, instance_create_of(form))
            return redirect("workflow", done.run_uuid)
        except (Invalid, NotFound, Conflict, QuotaExceeded) as error:
            problems = [Problem(error.message, field_of(str(error.details.get("field") or "")))]
    return _page(request, form, choices, _sizes(request, form, choices), problems)


@require_http_methods(["GET", "HEAD", "POST"])
@members_only
def summary(request: PageRequest) -> HttpResponse:
    """Show only the summary, for the form's current values."""
    choices = launch_options.choices(request.caller)
    form = _read(request.POST if request.method == "POST" else request.GET)
    fits = _fits(request, form, choices, _sizes(request, form, choices))
    context = {**_summary(form, choices), **fits, "is_answer": True}
    return render(request, "servers/_launch_answer.html", context)


def _fits(request: PageRequest, form: LaunchFormValues, choices: LaunchOptions, sizes: Sizes) -> dict[str, Any]:
    """Return every flavor, with why it is not available now; and the meter, once the form is complete enough."""
    flavors: list[dict[str, Any]] = [
        {"spec": one, "over_quota": _over_quota(one, choices), "why_not": sizes.get(one.flavor_id, NO_FIT).why_not}
        for one in choices.flavors
    ]
    meter = None
    if not _check_choices(form, choices):
        # The launch reports the error at its field.
        with suppress(Invalid):
            meter = fit_meter(request.caller, instance_create_of(form), sizes.get(form.flavor, NO_FIT).zones)
    no_room = [
        one for one in flavors if one["why_not"] and not one["over_quota"] and one["spec"].flavor_id != form.flavor
    ]
    return {"flavors": flavors, "no_room": no_room, "fit": meter}


def _sizes(request: PageRequest, form: LaunchFormValues, choices: LaunchOptions) -> Sizes:
    """Return the flavors that would find a host with the form's other values; empty if some of these are missing."""
    if not choices.flavors:
        return {}
    requested = replace(form, flavor=choices.flavors[0].flavor_id)
    if _check_choices(requested, choices):
        return {}
    try:
        return launch_options.of_flavors(request.caller, instance_create_of(requested), choices.flavors)
    except Invalid:
        return {}


def _read(query: Mapping[str, str]) -> LaunchFormValues:
    names = [one.name for one in fields(LaunchFormValues) if one.name != "answers" and one.name in query]
    texts: dict[str, Any] = {name: query[name].strip()[:MOST_TEXT] for name in names}
    form = LaunchFormValues(**texts)
    answers = {name: text.strip()[:LONGEST_NAME] for name, text in query.items() if name.startswith(ANSWER) and text}
    # The form has the uuid of its workflow, so sending it twice launches once.
    once = str(uuid_or_none(form.once) or new_run_uuid())
    return replace(form, once=once, count=form.count or "1", answers=answers)


def _again(request: PageRequest, choices: LaunchOptions) -> LaunchFormValues:
    """Return the address's values; with `like`, those that the server of that id was launched with. Raises NotFound."""
    form = _read(request.GET)
    if not request.GET.get("like"):
        return form
    like = instances.get(request.caller, request.GET["like"])
    plugged = {port.get("network_name") for port in like.addresses}
    networks = [one.network_id for one in choices.networks if one.name in plugged]
    return replace(
        form,
        name=form.name or f"{like.name}-again"[:LONGEST_NAME],
        image=like.image.image_id,
        flavor=like.flavor.flavor_id,
        network=networks[0] if networks else form.network,
        key=like.key_name or "",
        zone=like.availability_zone if like.pinned_availability_zone else "",
        group=like.group_uuid,
        security_group=like.security_groups[0] if like.security_groups else "",
        tags=" ".join(like.tags),
    )


def _with_defaults(form: LaunchFormValues, choices: LaunchOptions) -> LaunchFormValues:
    """Fill in defaults: the first of each kind; a network only if there is just one."""
    first = choices.networks[0].network_id if len(choices.networks) > 1 else AUTO_NETWORK
    image = form.image or (choices.images[0].image_id if choices.images else "")
    return replace(form, image=image, network=form.network or first)


def _with_flavor(form: LaunchFormValues, choices: LaunchOptions, sizes: Sizes) -> LaunchFormValues:
    """Select the first flavor that fits the quota, and a host if possible."""
    if form.flavor:
        return form
    allowed = [one.flavor_id for one in choices.flavors if not _over_quota(one, choices)]
    fitting = [one for one in allowed if not sizes.get(one, NO_FIT).why_not]
    return replace(form, flavor=next(iter(fitting or allowed), ""))


def _over_quota(flavor: FlavorSpec, choices: LaunchOptions) -> str:
    """Return why not even one server of this size fits the remaining quota; empty if it does."""
    bars = quota_bars.bars(choices.quotas, {"instances": 1, "cores": flavor.vcpus, "ram": flavor.memory_mb})
    return next((f"{gettext(bar.name)}: {bar.over_text}" for bar in bars if bar.is_over), "")


def _check(form: LaunchFormValues, choices: LaunchOptions) -> list[Problem]:
    """Return the errors that the form itself can find; the service checks the rest."""
    problems = []
    if not form.name:
        problems.append(Problem(gettext("Enter a name for the server."), "name"))
    elif len(form.name) > LONGEST_NAME:
        problems.append(
            Problem(gettext("Use a name of at most %(count)s characters.") % {"count": LONGEST_NAME}, "name")
        )
    return problems + _check_choices(form, choices)


def _check_choices(form: LaunchFormValues, choices: LaunchOptions) -> list[Problem]:
    """Return the errors of values that the scheduler needs."""
    problems = []
    if not 1 <= form.number <= MOST_AT_ONCE:
        problems.append(Problem(gettext("Enter a count from 1 to %(count)s.") % {"count": MOST_AT_ONCE}, "count"))
    if form.boot_volume:
        if form.boot_volume not in {volume.volume_id for volume in choices.volumes if volume.is_bootable}:
            problems.append(Problem(gettext("Select an available, bootable volume."), "image"))
    elif form.image not in {image.image_id for image in choices.images}:
        problems.append(Problem(gettext("Select an image."), "image"))
    if form.flavor not in {flavor.flavor_id for flavor in choices.flavors}:
        problems.append(Problem(gettext("Select a flavor."), "flavor"))
    if form.network in ("", AUTO_NETWORK) and len(choices.networks) > 1:
        problems.append(Problem(gettext("Select a network, or select none."), "networks"))
    return problems


def _page(
    request: PageRequest,
    form: LaunchFormValues,
    choices: LaunchOptions,
    sizes: Sizes,
    problems: list[Problem],
    *,
    must_confirm: bool = False,
) -> HttpResponse:
    """Show the form; with `must_confirm` it asks first, because not all of the servers fit now."""
    context = {
        "problems": problems,
        "must_confirm": must_confirm,
        "every_server": EVERY_SERVER,
        "errors": {problem.field: problem.message for problem in problems if problem.field},
        "images": [_image_words(image) for image in choices.images],
        "networks": _network_words(choices),
        "keys": choices.keys,
        "zones": choices.zones,
        "boot_volumes": [volume for volume in choices.volumes if volume.is_bootable],
        "volumes": choices.volumes,
        "server_groups": choices.server_groups,
        "security_groups": choices.security_groups,
        "questions": _questions(form, problems),
        **_summary(form, choices),
        **_fits(request, form, choices, sizes),
    }
    return render(request, "servers/launch.html", context, status=400 if problems else 409 if must_confirm else 200)


def _questions(form: LaunchFormValues, problems: list[Problem]) -> list[dict[str, Any]]:
    """Return the questions of plugins, each with its answer so far and its error."""
    wrong = {problem.field: problem.message for problem in problems}

    def requested(field: FieldView) -> dict[str, Any]:
        return {
            "field": field,
            "id": field.hint.replace(":", "-").replace(".", "-"),
            "text": form.answers.get(field.hint, field.default),
            "wrong": wrong.get(field.hint, ""),
        }

    return [
        {"title": one.title, "fields": [requested(field) for field in one.fields]} for one in launch_questions.offered()
    ]


def _image_words(image: launch_options.ImageOption) -> dict[str, Any]:
    size = size_words(image.size)
    needs = [gettext("needs %(amount)s MB of memory") % {"amount": image.min_ram_mb}] if image.min_ram_mb else []
    words = " · ".join([size, *needs])
    return {"image_id": image.image_id, "name": image.name, "words": words, "is_simulated": image.is_simulated}


def _network_words(choices: LaunchOptions) -> list[dict[str, str]]:
    named = [
        {
            "network_id": network.network_id,
            "name": network.name or network.network_id[:8],
            "words": ", ".join(network.ranges) + (f" · {gettext('shared')}" if network.is_shared else ""),
        }
        for network in choices.networks
    ]
    words = gettext("no networks yet")
    if named:
        words = gettext("%(name)s, the only network") % {"name": named[0]["name"]}
    auto = [{"network_id": AUTO_NETWORK, "name": gettext("Automatic"), "words": words}]
    none = [{"network_id": NO_NETWORK, "name": gettext("No network"), "words": gettext("console only")}]
    return [*(auto if len(named) <= 1 else []), *named, *none]


def _summary(form: LaunchFormValues, choices: LaunchOptions) -> dict[str, Any]:
    flavor = next((one for one in choices.flavors if one.flavor_id == form.flavor), None)
    image = next((one for one in choices.images if one.image_id == form.image), None)
    number = min(max(form.number, 0), MOST_AT_ONCE)
    more = {"instances": number}
    if flavor is not None:
        more |= {"cores": number * flavor.vcpus, "ram": number * flavor.memory_mb}
    bars = quota_bars.bars(choices.quotas, more)
    volume = next((one for one in choices.volumes if one.volume_id == form.boot_volume), None)
    source = image.name if image else gettext("no image selected")
    if volume is not None:
        source = gettext("the volume %(name)s") % {"name": volume.name or volume.volume_id[:8]}
    return {
        "form": form,
        "quotas": bars,
        "is_over_quota": any(bar.is_over for bar in bars),
        "number": number,
        "sentence": _sentence(number, flavor, source),
        "command": command(form, image.name if image else "IMAGE", flavor.name if flavor else "FLAVOR"),
        "body": body_text(form),
        "terraform": terraform(form),
        "price": _price(flavor, number),
    }


def _sentence(number: int, flavor: FlavorSpec | None, source: str) -> str:
    size = gettext("no flavor selected")
    if flavor is not None:
        values = {"vcpus": flavor.vcpus, "memory": megabytes(flavor.memory_mb)}
        size = gettext("%(vcpus)s vCPU and %(memory)s memory") % values
    sentence = ngettext(
        "One server with %(size)s, from %(source)s.", "%(count)s servers, each with %(size)s, from %(source)s.", number
    )
    return sentence % {"count": number, "size": size, "source": source}


def _price(flavor: FlavorSpec | None, number: int) -> dict[str, Any] | None:
    """Return the cost per hour and month; None without prices."""
    rates = costs.prices()
    if rates is None or flavor is None:
        return None
    disk_gb = flavor.root_gb + flavor.ephemeral_gb
    hourly = number * rates.per_hour(vcpus=flavor.vcpus, memory_mb=flavor.memory_mb, disk_gb=disk_gb)
    return {"hour": hourly, "month": hourly * costs.MONTH_HOURS, "currency": rates.currency}
