"""Key pairs: uploaded, or generated and shown once."""

from __future__ import annotations

from urllib.parse import quote

from portal.pages.api_calls import Call
from portal.pages.resources import columns
from portal.pages.resources.fields import NAME
from portal.pages.resources.model import Column, Field, FieldOption, Resource, ResourceAction, SubmittedForm

PATH = "/compute/v2.1/os-keypairs"
_KIND = Field(
    "type", "Kind", "choice", choices=(FieldOption("ssh", "SSH"), FieldOption("x509", "X.509 certificate (Windows)"))
)


def _upload(asked: SubmittedForm) -> Call:
    values = asked.values
    body = {"name": values["name"], "type": values["type"], "public_key": values["public_key"].strip()}
    return Call("POST", PATH, {"keypair": body})


def _generate(asked: SubmittedForm) -> Call:
    """From 2.92 on the API leaves key generation to the client; this form generates one here."""
    return Call("POST", PATH, {"keypair": {"name": asked.values["name"], "type": asked.values["type"]}}, version="2.91")


def _delete(asked: SubmittedForm) -> Call:
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
    empty="With a key pair you can sign in to your servers. Servers get the public key; you keep the private key.",
    unwrap=lambda item: item["keypair"],
    id_of=lambda item: str(item["name"]),
    columns=(
        Column("Name", columns.text("name")),
        Column("Kind", columns.text("type", words={"ssh": "SSH", "x509": "X.509"})),
        Column("Fingerprint", columns.mono("fingerprint")),
        Column("Created", columns.age("created_at"), is_in_list=False),
        Column("Public key", columns.mono("public_key"), is_in_list=False),
    ),
    actions=(
        ResourceAction(
            id="create",
            title="Upload key pair",
            does="Uploads the public key of a key pair that you have.",
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
                    help="For example ssh-ed25519 AAAA… you@laptop, from a file that ends in .pub.",
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
        ResourceAction(
            id="generate",
            title="Generate key pair",
            does="Generates a key pair. The private key is shown once, on the next page, and isn't stored.",
            rule="os_compute_api:os-keypairs:create",
            is_creation=True,
            icon="key",
            fields=(NAME, _KIND),
            call=_generate,
            cli=lambda asked: ["openstack keypair create", asked.values["name"] or "NAME"],
            reveals="private_key",
            reveal_name="private key",
        ),
        ResourceAction(
            id="delete",
            title="Delete",
            does="Servers that use this key pair keep the key. You can upload it again.",
            rule="os_compute_api:os-keypairs:delete",
            is_danger=True,
            is_bulk=True,
            icon="trash",
            call=_delete,
            cli=lambda asked: ["openstack keypair delete", str(asked.item.get("name", "NAME"))],
        ),
    ),
)
