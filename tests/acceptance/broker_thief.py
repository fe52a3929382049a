"""An attacker with the address of a broker and the account of one host, but without a key."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import pika
import redis
from pika.exceptions import ChannelClosedByBroker


class BrokerThief:
    """Reads and writes as dramatiq does, by hand."""

    def __init__(self, url: str) -> None:
        self._url = url

    def is_kept_from_reading(self, queue: str) -> bool:
        """Return whether the broker refuses to let the attacker read the queue's messages, and to purge it."""
        if self._url.startswith("redis"):
            with redis.from_url(self._url) as client:
                return all(
                    _is_refused(client, *words)
                    for words in (
                        ("HGETALL", f"dramatiq:{queue}.msgs"),
                        ("HMGET", f"dramatiq:{queue}.msgs", "x"),
                        ("BLMOVE", f"dramatiq:{queue}", "dramatiq:compute.h2", "LEFT", "LEFT", 1),
                        ("ACL", "LIST"),
                        ("CONFIG", "GET", "*"),
                    )
                )
        return all(self._is_closed_at(queue, act) for act in ("basic_get", "queue_purge", "queue_delete"))

    def _is_closed_at(self, queue: str, act: str) -> bool:
        connection = pika.BlockingConnection(pika.URLParameters(self._url))
        try:
            getattr(connection.channel(), act)(queue)
        except ChannelClosedByBroker as error:
            return error.reply_code == 403
        finally:
            connection.close()
        return False

    def write(self, queue: str, actor: str, body: dict[str, Any]) -> None:
        """Put a message into the queue, where the broker lets it."""
        message = {
            "queue_name": queue, "actor_name": actor, "args": [body], "kwargs": {}, "options": {},
            "message_id": str(uuid4()), "message_timestamp": int(datetime.now(UTC).timestamp() * 1000),
        }  # fmt: skip
        if self._url.startswith("redis"):
            message["options"] = {"redis_message_id": message["message_id"]}
            self._write_to_redis(queue, message)
            return
        connection = pika.BlockingConnection(pika.URLParameters(self._url))
        connection.channel().basic_publish("", queue, json.dumps(message).encode())
        connection.close()

    def _write_to_redis(self, queue: str, message: dict[str, Any]) -> None:
        with redis.from_url(self._url) as client:
            try:
                client.hset(f"dramatiq:{queue}.msgs", message["message_id"], json.dumps(message))
                client.rpush(f"dramatiq:{queue}", message["message_id"])
            except redis.exceptions.NoPermissionError:
                return  # Redis has a permission for each queue that is written


def _is_refused(client: Any, *words: Any) -> bool:
    try:
        client.execute_command(*words)
    except redis.exceptions.NoPermissionError:
        return True
    return False
