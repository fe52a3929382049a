"""HTTP APIs of Novella. Processes that serve none of them do not load Django REST framework."""

from portal.api.lean_imports import load_rest_framework

load_rest_framework()  # before any module of this package imports it
