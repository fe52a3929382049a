"""Plugins over HTTP: the catalogue, and choosing what runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, get_type_hints

from rest_framework.response import Response

from conductor.services import plugin_details, plugin_effects, plugin_views, plugins
from conductor.services.plugin_details import PluginDetail
from conductor.services.plugin_effects import Effect
from conductor.services.plugin_views import Catalogue, PluginView
from conductor.services.plugins import Change
from portal.api.base import ApiRequest
from portal.api.idempotency import idempotent
from portal.api.own import schemas
from portal.api.own.conditions import seen_revision
from portal.api.own.openapi import described
from portal.api.own.shapes import Part
from portal.api.own.view import OwnView, plain
from portal.api.validation import validate

PLUGIN = Part("Plugin", PluginView, {"enabled": bool}, without=("is_enabled",))
SHUT_OUT = get_type_hints(Catalogue)["shut_out"]
DETAIL = {name: shape for name, shape in get_type_hints(PluginDetail).items() if name != "plugin"}
OF_KIND = {"version": int, "plugins": [PLUGIN]}
_FIELDS = {"enabled": "is_enabled"}  # of the body → of the service, where they differ


class Plugins(OwnView):
    @described({"plugins": [PLUGIN], "versions": Mapping[str, int], "shut_out": SHUT_OUT})
    def get(self, request: ApiRequest) -> Response:
        """All of them: filters and weighers in the order in which they run, then drivers and memberships."""
        self.authorize("novella:plugins:list")
        found = plugin_views.catalogue(request.context)
        return Response(
            {
                "plugins": [plugin_body(one) for one in found.plugins],
                "versions": found.versions,
                "shut_out": [asdict(one) for one in found.shut_out],
            }
        )


class PluginsOfKind(OwnView):
    @described(OF_KIND)
    def get(self, request: ApiRequest, kind: str) -> Response:
        """With the version as the ETag."""
        self.authorize("novella:plugins:list")
        return _of_kind(request, kind)

    @described(OF_KIND, body=schemas.CHANGE_PLUGINS, takes_if_match=True)
    def patch(self, request: ApiRequest, kind: str) -> Response:
        """Change the order, and what was chosen for some plugins; all of it or nothing."""
        self.authorize("novella:plugins:change")
        body = validate(request.data, schemas.CHANGE_PLUGINS)
        plugins.change(
            request.context,
            kind,
            order=body.get("order"),
            plugins={name: change_of(wish) for name, wish in body.get("plugins", {}).items()},
            version=seen_revision(request),
        )
        return _of_kind(request, kind)


class OnePlugin(OwnView):
    @described({"plugin": PLUGIN, **DETAIL, "effect": Effect | None})
    def get(self, request: ApiRequest, kind: str, name: str) -> Response:
        """One of any kind, with its last errors, its own log lines, and what it would have decided in the shadow.

        `effect` says of filters and weighers how many decisions of the last hour they settled.
        """
        self.authorize("novella:plugins:list")
        found = plugin_details.detail(request.context, kind, name)
        told = {part: [plain(asdict(one)) for one in getattr(found, part)] for part in DETAIL}
        effect = plugin_effects.effect(request.context, kind, name)
        return Response({"plugin": plugin_body(found.plugin), **told, "effect": asdict(effect) if effect else None})


class Quarantine(OwnView):
    @described({"plugin": PLUGIN}, body=schemas.QUARANTINE_PLUGIN)
    @idempotent
    def post(self, request: ApiRequest, kind: str, name: str) -> Response:
        """Shut a plugin out for `seconds`, or until it is released."""
        self.authorize("novella:plugins:change")
        body = validate(request.data, schemas.QUARANTINE_PLUGIN)
        plugins.quarantine(request.context, kind, name, reason=body["reason"], seconds=body.get("seconds", 0.0))
        return _one(request, kind, name)


class Release(OwnView):
    @described({"plugin": PLUGIN}, body=schemas.RELEASE_PLUGIN, is_body_optional=True)
    @idempotent
    def post(self, request: ApiRequest, kind: str, name: str) -> Response:
        """Let a plugin in again."""
        self.authorize("novella:plugins:change")
        body = validate(request.data or {}, schemas.RELEASE_PLUGIN)
        plugins.release(request.context, kind, name, reason=body.get("reason", ""))
        return _one(request, kind, name)


def change_of(wish: Mapping[str, Any]) -> Change:
    """What is asked for one plugin; null goes back to the default."""
    fields = {_FIELDS.get(key, key): value for key, value in wish.items()}
    return Change(**fields, keys=frozenset(fields))


def plugin_body(view: PluginView) -> dict[str, Any]:
    body = asdict(view)
    body["enabled"] = body.pop("is_enabled")
    for part in ("quarantine", "conformance"):
        if body[part] is not None:
            body[part] = plain(body[part])
    return body


def _of_kind(request: ApiRequest, kind: str) -> Response:
    found = plugin_views.catalogue(request.context, kind)
    version = found.versions.get(kind, 0)
    answer = Response({"version": version, "plugins": [plugin_body(one) for one in found.plugins]})
    answer["ETag"] = f'"{version}"'
    return answer


def _one(request: ApiRequest, kind: str, name: str) -> Response:
    found = plugin_views.catalogue(request.context, kind)
    return Response({"plugin": next((plugin_body(one) for one in found.plugins if one.name == name), None)})
