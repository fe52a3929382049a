"""What operators chose for plugins, which plugins are shut out for a while, and how plugins do."""

from __future__ import annotations

from django.db import models


class PluginChoice(models.Model):
    """The choice for one kind of plugin. Every scheduler looks before each decision whether it was touched.

    `version` counts the operators' changes; `quarantine_number` counts what was shut out and let in again.
    """

    kind = models.CharField(max_length=16, unique=True)  # of core.plugin_choice.KINDS
    version = models.PositiveIntegerField(default=0)
    quarantine_number = models.PositiveIntegerField(default=0)
    choice = models.JSONField(default=dict)  # core.plugin_choice.PluginChoice as JSON
    changed_by = models.CharField(max_length=255, default="")
    changed_at = models.DateTimeField(null=True)  # by an operator
    touched_at = models.DateTimeField(null=True)  # that, or a quarantine


class PluginQuarantine(models.Model):
    """A plugin that is not asked for a while. The row stays when it is over, for the next time."""

    kind = models.CharField(max_length=16)
    name = models.CharField(max_length=255)
    cause = models.CharField(max_length=16)  # "faults", "overruns" or "operator"
    reason = models.CharField(max_length=255)
    times = models.PositiveIntegerField(default=0)
    began_at = models.DateTimeField()
    until = models.DateTimeField(null=True)  # by the database's clock; null: until an operator releases it
    released_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["kind", "name"], name="one_quarantine_per_plugin")]


class PluginMetric(models.Model):
    """What one plugin did in one hour, of all schedulers together. `durations` counts calls by length."""

    kind = models.CharField(max_length=16)
    name = models.CharField(max_length=255)
    hour = models.DateTimeField()
    calls = models.BigIntegerField(default=0)
    faults = models.BigIntegerField(default=0)
    overruns = models.BigIntegerField(default=0)
    rejected = models.BigIntegerField(default=0)
    durations = models.JSONField(default=list)  # of core.scheduling.durations

    class Meta:
        constraints = [models.UniqueConstraint(fields=["kind", "name", "hour"], name="one_metric_per_plugin_and_hour")]
