"""Readers and actions of collections of the network and load balancer APIs: the same functions, schemas and JSON."""

from __future__ import annotations

from collections.abc import Callable

from conductor.core.context import RequestContext
from conductor.core.page import Page
from portal.api.network import queries
from portal.api.network.resources import NetworkResource as Collection
from portal.pages.resources import shared_actions
from portal.pages.resources.fields import named
from portal.pages.resources.model import Call, Execute, Item, ItemReader, Query, ResourceAction, SubmittedForm

ROOT = "/network/v2.0"


def reader(collection: Collection) -> ItemReader:
    """Return the reader of a collection."""

    def list_(caller: RequestContext, query: Query) -> Page[Item]:
        given = {name: [str(value)] for name, value in query.items()}
        wanted = queries.parse(given, limit=query["limit"], marker=query.get("marker", ""))
        page = queries.page(collection, caller, wanted)
        return Page([collection.show(row, caller) for row in page.items], page.has_more)

    def get(caller: RequestContext, ident: str) -> Item:
        return collection.show(collection.get(caller, ident), caller)

    return ItemReader(list_, get)


def create(collection: Collection) -> Execute:
    """Return the function that creates one of the collection from its body."""
    creation = collection.creation
    assert creation is not None

    def execute(caller: RequestContext, form: SubmittedForm) -> Item:
        wanted = creation.parse(form.body[collection.rule], caller)
        return collection.show(creation.create(caller, wanted), caller)

    return execute


def update(collection: Collection) -> Execute:
    """Return the function that changes one of the collection by its body."""
    updating = collection.updating
    assert updating is not None

    def execute(caller: RequestContext, form: SubmittedForm) -> Item:
        wanted = updating.parse(form.body[collection.rule], caller)
        return collection.show(updating.update(caller, form.item["id"], wanted), caller)

    return execute


def rename(collection: Collection, segment: str, cli: str) -> ResourceAction:
    """Return the action that changes name and description; `segment` is the collection's in paths."""
    return shared_actions.rename(
        collection.rule,
        f"update_{collection.rule}",
        f"{ROOT}/{segment}",
        cli,
        execute=update(collection),
        schema=collection.update_body,
    )


def delete(collection: Collection, segment: str, cli: str, does: str) -> ResourceAction:
    """Return the action that deletes one of the collection; `segment` is the collection's in paths."""
    return delete_at(
        collection,
        lambda item: f"{ROOT}/{segment}/{item['id']}",
        does,
        lambda item: [f"openstack {cli} delete", named(item)],
    )


def delete_at(
    collection: Collection, path: Callable[[Item], str], does: str, cli: Callable[[Item], list[str]]
) -> ResourceAction:
    """Return the action that deletes one of the collection, with its path and command."""
    delete_one = collection.delete
    assert delete_one is not None

    def execute(caller: RequestContext, form: SubmittedForm) -> None:
        delete_one(caller, form.item["id"])

    return ResourceAction(
        id="delete",
        title="Delete",
        does=does,
        rule=f"delete_{collection.rule}",
        is_danger=True,
        is_bulk=True,
        icon="trash",
        call=lambda form: Call("DELETE", path(form.item)),
        execute=execute,
        cli=lambda form: cli(form.item),
    )
