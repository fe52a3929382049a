"""Views of the server list, kept by one person from several windows at once."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from django.db import connections

from conductor.core.errors import Invalid
from conductor.services.accounts import preferences
from tests.waiting import WAIT_SECONDS


def test_views_saved_concurrently_from_several_windows_are_all_kept(people: Any) -> None:
    user_id = people.ana.user.id
    names = [f"view {number}" for number in range(8)]
    begin = threading.Barrier(len(names))

    def keep(name: str) -> None:
        try:
            begin.wait(WAIT_SECONDS)
            preferences.save_view(user_id, name, "status=ACTIVE")
        finally:
            connections.close_all()

    threads = [threading.Thread(target=keep, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_SECONDS)
    assert sorted(preferences.of(user_id).views) == names


def test_views_beyond_the_limit_are_refused_unless_the_name_exists(
    people: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preferences, "MOST_VIEWS", 2)
    user_id = people.ana.user.id
    for name in ("one", "two"):
        preferences.save_view(user_id, name, "a=1")
    with pytest.raises(Invalid, match="Delete one first"):
        preferences.save_view(user_id, "three", "a=1")
    assert preferences.save_view(user_id, "two", "a=2").views == {"one": "a=1", "two": "a=2"}
    assert preferences.delete_view(user_id, "one").views == {"two": "a=2"}
