"""Cheap password hashes: tests count hashes and do not measure their cost. Processes of a cloud have the product's."""

from __future__ import annotations

from django.contrib.auth.hashers import ScryptPasswordHasher


class CheapHasher(ScryptPasswordHasher):
    """The product's scrypt, thousands of times cheaper.

    Expensive hashes that wait for each other on a slow machine are refused before the tested limit is.
    """

    work_factor = 2
    parallelism = 1
