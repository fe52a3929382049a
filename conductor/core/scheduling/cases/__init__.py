"""Scheduling cases: fleets and requests in a neutral file format, and this scheduler's decisions on them."""

from conductor.core.scheduling.cases.answers import BuiltinPlugins, answers_of
from conductor.core.scheduling.cases.reader import Case, read

__all__ = ["BuiltinPlugins", "Case", "answers_of", "read"]
