"""Key pairs: uploaded, or made once and told once."""

from __future__ import annotations

from urllib.parse import quote

from portal.pages.api_calls import Call
from portal.pages.resources import cells
from portal.pages.resources.fields import NAME
from portal.pages.resources.model import Asked, Choice, Column, Deed, Field, Resource

PATH = "/compute/v2.1/os-keypairs"
_KIND = Field(
    "type", "Kind", "choice", choices=(Choice("ssh", "SSH key"), Choice("x509", "X.509 certificate (Windows)"))
)


def _upload(asked: Asked) -> Call:
    values = asked.values
    body = {"name": values["name"], "type": values["type"], "public_key": values["public_key"].strip()}
    return Call("POST", PATH, {"keypair": body})


def _generate(asked: Asked) -> Call:
    """Versions from 2.92 on leave the making to the client; this is what makes one here."""
    return Call("POST", PATH, {"keypair": {"name": asked.values["name"], "type": asked.values["type"]}}, version="2.91")


def _delete(asked: Asked) -> Call:
    return Call("DELETE", f"{PATH}/{quote(str(asked.item['name']), safe='')}")


KEY_PAIRS = Resource(
    id="key-pairs",
    noun="key pair",
    title="Key pairs",
    icon="key",
    service="compute",
    path=PATH,
    key="keypairs",
    one="keypair",
    rule="os_compute_api:os-keypairs:index",
    empty="A key pair lets you into your servers: the public half is put into each, the private half stays with you.",
    unwrap=lambda item: item["keypair"],
    id_of=lambda item: str(item["name"]),
    columns=(
        Column("Name", cells.text("name")),
        Column("Kind", cells.text("type", words={"ssh": "SSH", "x509": "X.509"})),
        Column("Fingerprint", cells.mono("fingerprint")),
        Column("Created", cells.age("created_at"), is_in_list=False),
        Column("Public key", cells.mono("public_key"), is_in_list=False),
    ),
    deeds=(
        Deed(
            id="create",
            title="Upload key",
            does="Keep the public half of a key that you have.",
            rule="os_compute_api:os-keypairs:create",
            is_creation=True,
            icon="plus",
            fields=(
                NAME,
                _KIND,
                Field(
                    "public_key",
                    "Public key",
                    "area",
                    is_required=True,
                    help="One line such as ssh-ed25519 AAAA… you@laptop, from a file that ends in .pub.",
                ),
            ),
            call=_upload,
            cli=lambda asked: [
                "openstack keypair create",
                "--public-key",
                "FILE",
                asked.values["name"] or "NAME",
            ],
        ),
        Deed(
            id="generate",
            title="Generate key",
            does="Make a pair here. The private half is shown once, on the next page, and kept nowhere.",
            rule="os_compute_api:os-keypairs:create",
            is_creation=True,
            icon="key",
            fields=(NAME, _KIND),
            call=_generate,
            cli=lambda asked: ["openstack keypair create", asked.values["name"] or "NAME"],
            reveals="private_key",
            reveal_name="private key",
        ),
        Deed(
            id="delete",
            title="Delete",
            does="Servers that have this key keep it. It can be uploaded again.",
            rule="os_compute_api:os-keypairs:delete",
            is_danger=True,
            is_bulk=True,
            icon="trash",
            call=_delete,
            cli=lambda asked: ["openstack keypair delete", str(asked.item.get("name", "NAME"))],
        ),
    ),
)
