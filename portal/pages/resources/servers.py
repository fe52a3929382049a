"""What is done to a server beside its power: volumes, networks, groups, images made of it, its words, its size."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from portal.pages.api_calls import Call
from portal.pages.resources.access import GROUPS
from portal.pages.resources.fields import OWN_NETWORKS, VOLUMES, filled, named, own
from portal.pages.resources.model import Asked, Deed, Field, Item, Resource, Source

PATH = "/compute/v2.1/servers"
FREE_VOLUMES = Source(
    VOLUMES.path,
    VOLUMES.key,
    VOLUMES.words,
    wanted=lambda item: item["status"] == "available" or bool(item.get("multiattach")),
)
FLAVORS = Source(
    "/compute/v2.1/flavors/detail",
    "flavors",
    lambda item: f"{item['name']}: {item['vcpus']} vCPU, {item['ram']} MB, {item['disk']} GB",
)


def _path(asked: Asked, *parts: str) -> str:
    """A path below the server's; parts may be what somebody typed."""
    return "/".join((PATH, str(asked.item.get("id", "SERVER")), *(quote(part, safe="") for part in parts)))


def _action(name: str, /, **fields: str) -> Any:
    """An action whose body holds fields of the form under other names."""

    def call(asked: Asked) -> Call:
        return Call("POST", _path(asked, "action"), {name: {key: asked.values[field] for key, field in fields.items()}})

    return call


def _metadata(asked: Asked) -> Call:
    """Lines of key = value; all of them, so that a line that was taken away is gone."""
    lines = [line.partition("=") for line in asked.values.get("metadata", "").splitlines() if line.strip()]
    return Call("PUT", _path(asked, "metadata"), {"metadata": {key.strip(): value.strip() for key, _, value in lines}})


def _tags(asked: Asked) -> Call:
    return Call("PUT", _path(asked, "tags"), {"tags": asked.values.get("tags", "").replace(",", " ").split()})


def _metadata_lines(item: Item) -> str:
    return "\n".join(f"{key} = {value}" for key, value in sorted((item.get("metadata") or {}).items()))


def _server_cli(words: str, *fields: str) -> Any:
    return lambda asked: [
        f"openstack server {words}",
        named(asked.item),
        *(asked.values.get(name) or name.upper() for name in fields),
    ]


SERVER = Resource(
    id="server",
    noun="server",
    title="Servers",
    icon="server",
    service="compute",
    path=PATH,
    key="servers",
    one="server",
    rule="os_compute_api:servers:index",
    list_route="servers",
    page_route="server",
    columns=(),
    empty="",
    deeds=(
        Deed(
            id="attach-volume",
            title="Attach volume",
            does="The server sees a new disk, with the data that the volume has.",
            rule="os_compute_api:os-volumes-attachments:create",
            flow="attach_volume",
            tab="volumes",
            fields=(
                Field("volumeId", "Volume", "choice", choices=FREE_VOLUMES, is_required=True, also=("volume_id",)),
                Field("device", "Device", help="Such as /dev/vdb; left empty, the next free one is taken."),
            ),
            call=lambda asked: Call(
                "POST",
                _path(asked, "os-volume_attachments"),
                {"volumeAttachment": filled(asked.values, "volumeId", "device")},
            ),
            cli=_server_cli("add volume", "volumeId"),
        ),
        Deed(
            id="detach-volume",
            title="Detach volume",
            does="The disk goes from the server; its data stay. Unmount it in the guest first.",
            rule="os_compute_api:os-volumes-attachments:delete",
            flow="detach_volume",
            tab="volumes",
            fields=(Field("volume", "Volume", is_required=True),),
            call=lambda asked: Call(
                "DELETE", _path(asked, "os-volume_attachments", asked.values.get("volume") or "VOLUME")
            ),
            cli=_server_cli("remove volume", "volume"),
        ),
        Deed(
            id="attach-network",
            title="Attach network",
            does="The server gets one more port, with an address of the network.",
            rule="os_compute_api:os-attach-interfaces:create",
            flow="attach_interface",
            tab="network",
            fields=(Field("net_id", "Network", "choice", choices=OWN_NETWORKS, is_required=True),),
            call=lambda asked: Call(
                "POST", _path(asked, "os-interface"), {"interfaceAttachment": filled(asked.values, "net_id")}
            ),
            cli=_server_cli("add network", "net_id"),
        ),
        Deed(
            id="detach-port",
            title="Detach port",
            does="The server loses the address. Connections through it break.",
            rule="os_compute_api:os-attach-interfaces:delete",
            flow="detach_interface",
            tab="network",
            fields=(Field("port", "Port", is_required=True),),
            call=lambda asked: Call("DELETE", _path(asked, "os-interface", asked.values.get("port") or "PORT")),
            cli=_server_cli("remove port", "port"),
        ),
        Deed(
            id="add-group",
            title="Add security group",
            does="Its rules hold for all ports of the server, at once.",
            rule="os_compute_api:os-security-groups:add",
            tab="network",
            fields=(Field("group", "Group", "choice", choices=GROUPS, is_required=True, also=("name",)),),
            call=_action("addSecurityGroup", name="group"),
            cli=_server_cli("add security group", "group"),
        ),
        Deed(
            id="remove-group",
            title="Remove security group",
            does="What only this group lets through is stopped at once.",
            rule="os_compute_api:os-security-groups:remove",
            tab="network",
            fields=(Field("group", "Group", "choice", choices=GROUPS, is_required=True, also=("name",)),),
            call=_action("removeSecurityGroup", name="group"),
            cli=_server_cli("remove security group", "group"),
        ),
        Deed(
            id="make-image",
            title="Make image",
            does="An image with the disk as it is now. New servers can be launched from it.",
            rule="os_compute_api:servers:create_image",
            tab="snapshots",
            fields=(Field("name", "Name", is_required=True, start=lambda item: f"{item.get('name', '')}-image"),),
            call=_action("createImage", name="name"),
            cli=lambda asked: [
                "openstack server image create",
                "--name",
                asked.values.get("name") or "NAME",
                named(asked.item),
            ],
        ),
        Deed(
            id="rename",
            title="Rename",
            does="Change the name and the description. The host name in the guest stays.",
            rule="os_compute_api:servers:update",
            fields=(own("name", "Name", is_required=True), own("description", "Description")),
            call=lambda asked: Call(
                "PUT",
                _path(asked),
                {"server": {"name": asked.values["name"], "description": asked.values["description"] or None}},
            ),
            cli=lambda asked: [
                "openstack server set",
                "--name",
                asked.values.get("name") or "NAME",
                "--description",
                asked.values.get("description", ""),
                str(asked.item.get("id", "ID")),
            ],
        ),
        Deed(
            id="metadata",
            title="Change metadata",
            does="The guest can read them. What is not listed any more is taken away.",
            rule="os_compute_api:server-metadata:update_all",
            tab="metadata",
            fields=(
                Field("metadata", "Metadata", "area", start=_metadata_lines, help="One “key = value” on each line."),
            ),
            call=_metadata,
            cli=lambda asked: [
                "openstack server set",
                *(
                    word
                    for line in asked.values.get("metadata", "").splitlines()
                    if line.strip()
                    for word in ("--property", line.replace(" = ", "="))
                ),
                named(asked.item),
            ],
        ),
        Deed(
            id="tags",
            title="Change tags",
            does="Tags are words to find servers by. What is not listed any more is taken away.",
            rule="os_compute_api:os-server-tags:update_all",
            tab="metadata",
            fields=(
                Field(
                    "tags",
                    "Tags",
                    start=lambda item: " ".join(item.get("tags") or ()),
                    help="Words with spaces between.",
                ),
            ),
            call=_tags,
            cli=lambda asked: [
                "openstack server set",
                *(word for tag in asked.values.get("tags", "").split() for word in ("--tag", tag)),
                named(asked.item),
            ],
        ),
        Deed(
            id="resize",
            title="Resize",
            does="Another size, maybe on another host: the guest is restarted. Confirm it afterwards, or go back.",
            rule="os_compute_api:servers:resize",
            fields=(
                Field(
                    "flavor",
                    "Size",
                    "choice",
                    choices=FLAVORS,
                    is_required=True,
                    nothing="Choose another size",
                    also=("flavorRef",),
                ),
            ),
            call=_action("resize", flavorRef="flavor"),
            cli=lambda asked: [
                "openstack server resize",
                "--flavor",
                asked.values.get("flavor") or "FLAVOR",
                named(asked.item),
            ],
        ),
    ),
)
