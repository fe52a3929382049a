"""Operators' settings of plugins, plugin quarantines, and plugin statistics."""

from __future__ import annotations

import uuid

from django.db import models


class PluginChoice(models.Model):
    """The choice for one kind of plugin. Every scheduler checks before each decision whether it changed.

    `version` counts the operators' changes; `quarantine_number` counts the beginnings and ends of quarantines.
    """

    kind = models.CharField(max_length=16, unique=True)  # of core.plugin_choice.KINDS
    version = models.PositiveIntegerField(default=0)
    quarantine_number = models.PositiveIntegerField(default=0)
    choice = models.JSONField(default=dict)  # core.plugin_choice.PluginChoice as JSON
    changed_by = models.CharField(max_length=255, default="")
    changed_at = models.DateTimeField(null=True)  # by an operator
    touched_at = models.DateTimeField(null=True)  # that, or a quarantine


class PluginQuarantine(models.Model):
    """A plugin in quarantine. The row stays when it is over, for the next time."""

    kind = models.CharField(max_length=16)
    name = models.CharField(max_length=255)
    cause = models.CharField(max_length=16)  # "faults", "overruns", "losses" or "operator"
    reason = models.CharField(max_length=255)
    times = models.PositiveIntegerField(default=0)
    began_at = models.DateTimeField()
    until = models.DateTimeField(null=True)  # by the database's clock; null: until an operator releases it
    released_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["kind", "name"], name="one_quarantine_per_plugin")]


class PluginMetric(models.Model):
    """Statistics of one plugin in one hour, of all schedulers together. `durations` counts calls by length."""

    kind = models.CharField(max_length=16)
    name = models.CharField(max_length=255)
    hour = models.DateTimeField()
    calls = models.BigIntegerField(default=0)
    faults = models.BigIntegerField(default=0)
    overruns = models.BigIntegerField(default=0)
    rejected = models.BigIntegerField(default=0)
    differed = models.BigIntegerField(default=0, db_default=0)  # decisions that this shadow plugin would have changed
    durations = models.JSONField(default=list)  # of core.scheduling.durations

    class Meta:
        constraints = [models.UniqueConstraint(fields=["kind", "name", "hour"], name="one_metric_per_plugin_and_hour")]


class PluginNote(models.Model):
    """Errors, log lines and different decisions of one plugin: the last few of each source."""

    kind = models.CharField(max_length=16)
    name = models.CharField(max_length=255)
    source = models.CharField(max_length=16)  # of conductor.plugins.log.SOURCES
    level = models.CharField(max_length=16, default="")
    text = models.CharField(max_length=300)
    place = models.CharField(max_length=200, default="")
    times = models.PositiveIntegerField(default=1)
    began_at = models.DateTimeField()
    last_at = models.DateTimeField()  # both by the clock of the machine that noted it

    class Meta:
        indexes = [models.Index(fields=["kind", "name", "source", "id"], name="plugin_note_of_plugin")]


class PluginConformance(models.Model):
    """Recorded result of a plugin's last conformance test."""

    kind = models.CharField(max_length=16)
    name = models.CharField(max_length=255)
    level = models.CharField(max_length=16)
    distribution = models.CharField(max_length=255, default="")
    version = models.CharField(max_length=64, default="")
    kept = models.PositiveIntegerField(default=0)
    broken = models.JSONField(default=list)  # the names of failed tests
    untried = models.PositiveIntegerField(default=0)
    shown_at = models.DateTimeField()  # when the tests ran, as the report says
    recorded_at = models.DateTimeField()
    recorded_by = models.CharField(max_length=255, default="")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["kind", "name"], name="one_conformance_per_plugin")]


class PluginProposal(models.Model):
    """A change of filters and weighers that an operator proposes from a what-if comparison, for review.

    `changes` are the settings by kind and name; `question` is the address of the what-if page that shows why.
    """

    uuid = models.UUIDField(unique=True, default=uuid.uuid4)
    changes = models.JSONField(default=dict)
    question = models.TextField(default="")
    reason = models.CharField(max_length=255)
    by_id = models.CharField(max_length=64)
    by_name = models.CharField(max_length=255, default="")
    created_at = models.DateTimeField()
    state = models.CharField(max_length=16, default="open", db_index=True)  # open, applied, declined
    decided_by = models.CharField(max_length=255, default="")
    decided_at = models.DateTimeField(null=True)
    answer = models.CharField(max_length=255, default="")  # why it was applied or declined
