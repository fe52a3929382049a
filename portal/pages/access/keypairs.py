"""Key pairs: uploaded, or generated and shown once."""

from __future__ import annotations

from urllib.parse import quote

from conductor.core.context import RequestContext
from conductor.core.page import Page
from conductor.services.servers import keypairs
from conductor.services.servers.types import KeyPairView
from portal.pages.resources import columns
from portal.pages.resources.fields import NAME
from portal.pages.resources.model import (
    Call,
    Column,
    Field,
    FieldOption,
    Item,
    ItemReader,
    Query,
    Resource,
    ResourceAction,
    SubmittedForm,
)

PATH = "/compute/v2.1/os-keypairs"
_KIND = Field(
    "type", "Kind", "choice", choices=(FieldOption("ssh", "SSH"), FieldOption("x509", "X.509 certificate (Windows)"))
)


def _upload(form: SubmittedForm) -> Call:
    values = form.values
    body = {"name": values["name"], "type": values["type"], "public_key": values["public_key"].strip()}
    return Call("POST", PATH, {"keypair": body})


def _generate(form: SubmittedForm) -> Call:
    """Return the call that generates a key pair. It needs version 2.91: later ones leave that to the client."""
    return Call("POST", PATH, {"keypair": {"name": form.values["name"], "type": form.values["type"]}})


def _item(key: KeyPairView) -> Item:
    item = {name: getattr(key, name) for name in ("name", "public_key", "fingerprint", "created_at")}
    return {**item, "type": key.key_type, **({"private_key": key.private_key} if key.private_key else {})}


def _list(caller: RequestContext, query: Query) -> Page[Item]:
    found = keypairs.list_page(caller, caller.user_id, limit=query["limit"], marker=query.get("marker", ""))
    return Page([_item(key) for key in found.items], found.has_more)


def _import(caller: RequestContext, form: SubmittedForm) -> Item:
    name, key, kind = (form.values[one] for one in ("name", "public_key", "type"))
    return _item(keypairs.import_key(caller, caller.user_id, name, key.strip(), kind))


def _make(caller: RequestContext, form: SubmittedForm) -> Item:
    return _item(keypairs.generate(caller, caller.user_id, form.values["name"], form.values["type"]))


def _remove(caller: RequestContext, form: SubmittedForm) -> None:
    keypairs.delete(caller, caller.user_id, str(form.item["name"]))


def _delete(form: SubmittedForm) -> Call:
    return Call("DELETE", f"{PATH}/{quote(str(form.item['name']), safe='')}")


KEY_PAIRS = Resource(
    id="key-pairs",
    noun="key pair",
    title="Key pairs",
    icon="key",
    service="compute",
    one="keypair",
    rule="os_compute_api:os-keypairs:index",
    empty="With a key pair you can sign in to your servers. Servers get the public key; you keep the private key.",
    reader=ItemReader(
        _list,
        lambda caller, ident: _item(keypairs.get(caller, caller.user_id, ident)),
        "os_compute_api:os-keypairs:show",
    ),
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
            execute=_import,
            cli=lambda form: [
                "openstack keypair create",
                "--public-key",
                "FILE",
                form.values["name"] or "NAME",
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
            execute=_make,
            cli=lambda form: ["openstack keypair create", form.values["name"] or "NAME"],
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
            execute=_remove,
            cli=lambda form: ["openstack keypair delete", str(form.item.get("name", "NAME"))],
        ),
    ),
)
