"""Messages about volumes: why an accepted request failed."""

from __future__ import annotations

from conductor.volume.messages import MessageQuery, get, list_visible

__all__ = ["MessageQuery", "get", "list_visible"]
