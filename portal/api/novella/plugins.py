"""Plugins: the catalogue, and operators' settings for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_type_hints

from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.response import Response

from conductor.services.plugins import catalog, details, plugins
from conductor.services.plugins.catalog import Catalogue, PluginView
from conductor.services.plugins.details import Effect, PluginDetail
from conductor.services.plugins.plugins import PluginSettingsChange
from portal.api.base import ApiRequest
from portal.api.idempotency import idempotent
from portal.api.novella.bodies import BodySerializer
from portal.api.novella.conditions import seen_revision
from portal.api.novella.data import DataSerializer, envelope, field_of, numbers, serializer_of
from portal.api.novella.fields import FlagField, ListField, MapField, NameField, NumberField, ReasonField, TextField
from portal.api.novella.operations import describes
from portal.api.novella.viewset import NovellaViewSet, quoted

_NAMES = {"enabled": "is_enabled"}  # of the body → of the service, where they differ


class PluginSerializer(DataSerializer):
    """A plugin: metadata, settings, and health."""

    enabled = serializers.BooleanField(source="is_enabled")

    class Meta:
        dataclass = PluginView
        exclude = ("is_enabled",)


class PluginDetailSerializer(DataSerializer):
    """Further details of a single plugin."""

    class Meta:
        dataclass = PluginDetail
        exclude = ("plugin",)


EffectSerializer = serializer_of(Effect)
SHUT_OUT: Any = field_of(get_type_hints(Catalogue)["shut_out"])


class PluginChange(BodySerializer):
    needs_a_field = True

    enabled = FlagField(allow_null=True, required=False)
    mode = TextField(allow_null=True, required=False, max_length=64)
    on_failure = TextField(allow_null=True, required=False, max_length=64)
    multiplier = NumberField(allow_null=True, required=False)
    options = MapField(allow_null=True, required=False, most=100)


class PluginsBody(BodySerializer):
    needs_a_field = True

    order = ListField(NameField(), required=False, max_length=500)
    plugins = MapField(PluginChange(), required=False, most=500)


class QuarantineBody(BodySerializer):
    reason = ReasonField()
    seconds = NumberField(required=False, min_value=0)


class ReleaseBody(BodySerializer):
    reason = ReasonField(required=False)


PLUGINS = envelope(version=serializers.IntegerField, plugins=PluginSerializer(many=True))
PLUGIN = envelope(plugin=PluginSerializer)


class PluginViewSet(NovellaViewSet):
    lookup_url_kwarg = "kind"

    @describes(envelope(plugins=PluginSerializer(many=True), versions=numbers(), shut_out=SHUT_OUT))
    def list(self, request: ApiRequest) -> Response:
        """List all plugins: filters and weighers in the order in which they run, then drivers and memberships."""
        self.authorize("novella:plugins:list")
        found = catalog.catalogue(request.context)
        shut_out = self.shown(type(SHUT_OUT.child), list(found.shut_out))
        body = {"plugins": self.shown(PluginSerializer, list(found.plugins)), "versions": found.versions}
        return Response({**body, "shut_out": shut_out})

    @describes(PLUGINS)
    def retrieve(self, request: ApiRequest, kind: str) -> Response:
        """List the plugins of one kind; `ETag` is the version."""
        self.authorize("novella:plugins:list")
        return self._of_kind(request, kind)

    @describes(PLUGINS, body=PluginsBody, takes_if_match=True)
    def partial_update(self, request: ApiRequest, kind: str) -> Response:
        """Change the order, and the settings of some plugins; all of it or nothing."""
        self.authorize("novella:plugins:change")
        body = PluginsBody.parse(request.data)
        plugins.change(
            request.context,
            kind,
            order=body.get("order"),
            plugins={name: change_of(values) for name, values in body.get("plugins", {}).items()},
            version=seen_revision(request),
        )
        return self._of_kind(request, kind)

    @describes(
        envelope(plugin=PluginSerializer, **PluginDetailSerializer().fields, effect=EffectSerializer(allow_null=True))
    )
    @action(detail=True, url_path="<str:name>")
    def plugin(self, request: ApiRequest, kind: str, name: str) -> Response:
        """Show one plugin with its last errors, its own log lines, and its decisions in shadow mode.

        `effect` is how many decisions of the last hour a filter or weigher settled.
        """
        self.authorize("novella:plugins:list")
        found = details.detail(request.context, kind, name)
        effect = details.effect(request.context, kind, name)
        return Response(
            {
                "plugin": self.shown(PluginSerializer, found.plugin),
                **self.shown(PluginDetailSerializer, found),
                "effect": self.shown(EffectSerializer, effect) if effect else None,
            }
        )

    @describes(PLUGIN, body=QuarantineBody)
    @action(detail=True, methods=["post"], url_path="<str:name>/quarantine")
    @idempotent
    def quarantine(self, request: ApiRequest, kind: str, name: str) -> Response:
        """Quarantine a plugin for `seconds`, or until it is released."""
        self.authorize("novella:plugins:change")
        body = QuarantineBody.parse(request.data)
        plugins.quarantine(request.context, kind, name, reason=body["reason"], seconds=body.get("seconds", 0.0))
        return self._one(request, kind, name)

    @describes(PLUGIN, body=ReleaseBody)
    @action(detail=True, methods=["post"], url_path="<str:name>/release")
    @idempotent
    def release(self, request: ApiRequest, kind: str, name: str) -> Response:
        """End the quarantine of a plugin."""
        self.authorize("novella:plugins:change")
        body = ReleaseBody.parse(request.data or {})
        plugins.release(request.context, kind, name, reason=body.get("reason", ""))
        return self._one(request, kind, name)

    def _of_kind(self, request: ApiRequest, kind: str) -> Response:
        found = catalog.catalogue(request.context, kind)
        version = found.versions.get(kind, 0)
        body = {"version": version, "plugins": self.shown(PluginSerializer, list(found.plugins))}
        return Response(body, headers=quoted(version))

    def _one(self, request: ApiRequest, kind: str, name: str) -> Response:
        found = catalog.catalogue(request.context, kind)
        one = next((plugin for plugin in found.plugins if plugin.name == name), None)
        return Response({"plugin": self.shown(PluginSerializer, one) if one else None})


def change_of(values: Mapping[str, Any]) -> PluginSettingsChange:
    """Return the requested change of a plugin; null resets to the default."""
    renamed = {_NAMES.get(name, name): value for name, value in values.items()}
    return PluginSettingsChange(**renamed, keys=frozenset(renamed))
