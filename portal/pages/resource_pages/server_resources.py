"""Server actions other than power: volumes, networks, groups, images, metadata, size."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from conductor.core.context import RequestContext
from conductor.services.server_migrations import resizes
from conductor.services.servers import interfaces, security_groups, server_images, server_volumes, updates
from conductor.services.servers.interfaces import InterfaceCreate
from conductor.services.servers.server_images import ServerImageCreate
from conductor.services.servers.server_volumes import AttachmentCreate
from portal.api.compute.microversions import VERSIONS
from portal.api.compute.schemas import actions_power as power
from portal.api.compute.schemas import moves, servers
from portal.api.compute.schemas import storage_actions as storage
from portal.api.schema_parts import Schema, closed
from portal.pages import server_items
from portal.pages.images.flavors import FLAVOR_CHOICES
from portal.pages.networking.choices import GROUPS, OWN_NETWORKS
from portal.pages.resources.fields import filled, named, own
from portal.pages.resources.model import (
    Call,
    Field,
    Item,
    Resource,
    ResourceAction,
    SubmittedForm,
)
from portal.pages.resources.service_calls import recorded_refusals
from portal.pages.storage.volumes import FREE_VOLUMES

PATH = "/compute/v2.1/servers"


def _path(form: SubmittedForm, *parts: str) -> str:
    """Return a path below the server's; typed parts are escaped."""
    return "/".join((PATH, str(form.item.get("id", "SERVER")), *(quote(part, safe="") for part in parts)))


def _action(name: str, /, **fields: str) -> Any:
    """Return the call of an action whose body has the form's fields under other names."""

    def call(form: SubmittedForm) -> Call:
        return Call("POST", _path(form, "action"), {name: {key: form.values[field] for key, field in fields.items()}})

    return call


def _body(action: str, schema: Schema) -> Schema:
    """Return the schema of the body of POST …/action."""
    return closed({action: schema}, required=(action,))


def _recorded(
    name: str, change: Callable[[RequestContext, str, SubmittedForm], object]
) -> Callable[[RequestContext, SubmittedForm], None]:
    """Return an action of a server whose refusals are recorded under the Compute API's name."""

    def execute(caller: RequestContext, form: SubmittedForm) -> None:
        uuid = str(form.item["id"])
        with recorded_refusals(caller, name, uuid):
            change(caller, uuid, form)

    return execute


def _attach_volume(caller: RequestContext, uuid: str, form: SubmittedForm) -> None:
    values = form.body["volumeAttachment"]
    requested = AttachmentCreate(values["volumeId"], values.get("device") or "")
    server_volumes.attach(caller, uuid, requested)


def _detach_volume(caller: RequestContext, uuid: str, form: SubmittedForm) -> None:
    server_volumes.detach(caller, uuid, form.values["volume"])


def _attach_network(caller: RequestContext, uuid: str, form: SubmittedForm) -> None:
    network_id = form.body["interfaceAttachment"]["net_id"]
    interfaces.attach_and_wait(caller, uuid, InterfaceCreate(network_id=network_id))


def _detach_port(caller: RequestContext, uuid: str, form: SubmittedForm) -> None:
    interfaces.detach(caller, uuid, form.values["port"])


def _add_group(caller: RequestContext, form: SubmittedForm) -> None:
    security_groups.add(caller, str(form.item["id"]), form.values["group"])


def _remove_group(caller: RequestContext, form: SubmittedForm) -> None:
    security_groups.remove(caller, str(form.item["id"]), form.values["group"])


def _make_image(caller: RequestContext, form: SubmittedForm) -> None:
    server_images.create_image(caller, str(form.item["id"]), ServerImageCreate(name=form.values["name"], metadata={}))


def _resize(caller: RequestContext, form: SubmittedForm) -> None:
    resizes.resize(caller, str(form.item["id"]), form.values["flavor"])


def _rename(caller: RequestContext, form: SubmittedForm) -> Item:
    return server_items.item(updates.update(caller, str(form.item["id"]), form.body["server"]))


def _replace_metadata(caller: RequestContext, form: SubmittedForm) -> None:
    updates.replace_metadata(caller, str(form.item["id"]), form.body["metadata"])


def _replace_tags(caller: RequestContext, form: SubmittedForm) -> None:
    updates.replace_tags(caller, str(form.item["id"]), form.body["tags"])


def _metadata(form: SubmittedForm) -> Call:
    """Parse lines of key = value and send all of them, so that a removed line deletes its key."""
    lines = [line.partition("=") for line in form.values.get("metadata", "").splitlines() if line.strip()]
    return Call("PUT", _path(form, "metadata"), {"metadata": {key.strip(): value.strip() for key, _, value in lines}})


def _tags(form: SubmittedForm) -> Call:
    return Call("PUT", _path(form, "tags"), {"tags": form.values.get("tags", "").replace(",", " ").split()})


def _metadata_lines(item: Item) -> str:
    return "\n".join(f"{key} = {value}" for key, value in sorted((item.get("metadata") or {}).items()))


def _server_cli(words: str, *fields: str) -> Any:
    return lambda form: [
        f"openstack server {words}",
        named(form.item),
        *(form.values.get(name) or name.upper() for name in fields),
    ]


SERVER = Resource(
    id="server",
    noun="server",
    title="Servers",
    icon="server",
    service="compute",
    one="server",
    rule=server_items.LIST_RULE,
    reader=server_items.READER,
    list_route="servers",
    page_route="server",
    columns=(),
    empty="",
    actions=(
        ResourceAction(
            id="attach-volume",
            title="Attach volume",
            does="Attaches the volume to the server as a new disk.",
            rule="os_compute_api:os-volumes-attachments:create",
            flow="attach_volume",
            tab="volumes",
            fields=(
                Field("volumeId", "Volume", "choice", choices=FREE_VOLUMES, is_required=True, also=("volume_id",)),
                Field("device", "Device", help="For example /dev/vdb. Leave empty to use the next free device."),
            ),
            call=lambda form: Call(
                "POST",
                _path(form, "os-volume_attachments"),
                {"volumeAttachment": filled(form.values, "volumeId", "device")},
            ),
            schema=storage.attach_volume(VERSIONS.maximum),
            execute=_recorded("attach_volume", _attach_volume),
            cli=_server_cli("add volume", "volumeId"),
        ),
        ResourceAction(
            id="detach-volume",
            title="Detach volume",
            does=(
                "Removes the disk from the server. The data stays on the volume. Unmount the disk in the server first."
            ),
            rule="os_compute_api:os-volumes-attachments:delete",
            flow="detach_volume",
            tab="volumes",
            fields=(Field("volume", "Volume", is_required=True),),
            call=lambda form: Call(
                "DELETE", _path(form, "os-volume_attachments", form.values.get("volume") or "VOLUME")
            ),
            execute=_recorded("detach_volume", _detach_volume),
            cli=_server_cli("remove volume", "volume"),
        ),
        ResourceAction(
            id="attach-network",
            title="Attach network",
            does="Adds a port with an address on the network.",
            rule="os_compute_api:os-attach-interfaces:create",
            flow="attach_interface",
            tab="network",
            fields=(Field("net_id", "Network", "choice", choices=OWN_NETWORKS, is_required=True),),
            call=lambda form: Call(
                "POST", _path(form, "os-interface"), {"interfaceAttachment": filled(form.values, "net_id")}
            ),
            schema=storage.attach_interface(VERSIONS.maximum),
            execute=_recorded("attach_interface", _attach_network),
            cli=_server_cli("add network", "net_id"),
        ),
        ResourceAction(
            id="detach-port",
            title="Detach port",
            does="Removes the port and its address. Open connections through it break.",
            rule="os_compute_api:os-attach-interfaces:delete",
            flow="detach_interface",
            tab="network",
            fields=(Field("port", "Port", is_required=True),),
            call=lambda form: Call("DELETE", _path(form, "os-interface", form.values.get("port") or "PORT")),
            execute=_recorded("detach_interface", _detach_port),
            cli=_server_cli("remove port", "port"),
        ),
        ResourceAction(
            id="add-group",
            title="Add security group",
            does="The group's rules apply to all ports of the server immediately.",
            rule="os_compute_api:os-security-groups:add",
            tab="network",
            fields=(Field("group", "Group", "choice", choices=GROUPS, is_required=True, also=("name",)),),
            call=_action("addSecurityGroup", name="group"),
            schema=_body("addSecurityGroup", power.SECURITY_GROUP),
            execute=_add_group,
            refused_as="addSecurityGroup",
            cli=_server_cli("add security group", "group"),
        ),
        ResourceAction(
            id="remove-group",
            title="Remove security group",
            does="Traffic that only this group allows is blocked immediately.",
            rule="os_compute_api:os-security-groups:remove",
            tab="network",
            fields=(Field("group", "Group", "choice", choices=GROUPS, is_required=True, also=("name",)),),
            call=_action("removeSecurityGroup", name="group"),
            schema=_body("removeSecurityGroup", power.SECURITY_GROUP),
            execute=_remove_group,
            refused_as="removeSecurityGroup",
            cli=_server_cli("remove security group", "group"),
        ),
        ResourceAction(
            id="make-image",
            title="Create image",
            does="Saves the current disk as an image that you can launch servers from.",
            rule="os_compute_api:servers:create_image",
            tab="snapshots",
            fields=(Field("name", "Name", is_required=True, start=lambda item: f"{item.get('name', '')}-image"),),
            call=_action("createImage", name="name"),
            schema=_body("createImage", storage.CREATE_IMAGE),
            execute=_make_image,
            refused_as="createImage",
            cli=lambda form: [
                "openstack server image create",
                "--name",
                form.values.get("name") or "NAME",
                named(form.item),
            ],
        ),
        ResourceAction(
            id="rename",
            title="Rename",
            does="Changes the name and description. The hostname inside the server stays.",
            rule="os_compute_api:servers:update",
            fields=(own("name", "Name", is_required=True), own("description", "Description")),
            call=lambda form: Call(
                "PUT",
                _path(form),
                {"server": {"name": form.values["name"], "description": form.values["description"] or None}},
            ),
            schema=servers.update(VERSIONS.maximum),
            execute=_rename,
            cli=lambda form: [
                "openstack server set",
                "--name",
                form.values.get("name") or "NAME",
                "--description",
                form.values.get("description", ""),
                str(form.item.get("id", "ID")),
            ],
        ),
        ResourceAction(
            id="metadata",
            title="Edit metadata",
            does="The server can read its metadata. Entries that you remove from the list are deleted.",
            rule="os_compute_api:server-metadata:update_all",
            tab="metadata",
            fields=(
                Field("metadata", "Metadata", "area", start=_metadata_lines, help="One “key = value” pair per line."),
            ),
            call=_metadata,
            schema=servers.METADATA_BODY,
            execute=_replace_metadata,
            cli=lambda form: [
                "openstack server set",
                *(
                    word
                    for line in form.values.get("metadata", "").splitlines()
                    if line.strip()
                    for word in ("--property", line.replace(" = ", "="))
                ),
                named(form.item),
            ],
        ),
        ResourceAction(
            id="tags",
            title="Edit tags",
            does="Use tags to find servers. Tags that you remove from the list are deleted.",
            rule="os_compute_api:os-server-tags:update_all",
            tab="metadata",
            fields=(
                Field(
                    "tags",
                    "Tags",
                    start=lambda item: " ".join(item.get("tags") or ()),
                    help="Separate tags with spaces.",
                ),
            ),
            call=_tags,
            schema=servers.TAGS_BODY,
            execute=_replace_tags,
            cli=lambda form: [
                "openstack server set",
                *(word for tag in form.values.get("tags", "").split() for word in ("--tag", tag)),
                named(form.item),
            ],
        ),
        ResourceAction(
            id="resize",
            title="Resize",
            does=(
                "Changes the flavor and may move the server to another host. The server restarts. Confirm or "
                "revert the resize afterwards."
            ),
            rule="os_compute_api:servers:resize",
            fields=(
                Field(
                    "flavor",
                    "Size",
                    "choice",
                    choices=FLAVOR_CHOICES,
                    is_required=True,
                    nothing="Select a different flavor",
                    also=("flavorRef",),
                ),
            ),
            call=_action("resize", flavorRef="flavor"),
            schema=_body("resize", moves.RESIZE),
            execute=_resize,
            refused_as="resize",
            cli=lambda form: [
                "openstack server resize",
                "--flavor",
                form.values.get("flavor") or "FLAVOR",
                named(form.item),
            ],
        ),
    ),
)
