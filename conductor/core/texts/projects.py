"""Messages to the members of a project: limits, budgets, consoles, snapshots, accounts, notifications."""

from __future__ import annotations

from collections.abc import Mapping

from conductor.core.texts.forms import Text

TEXTS: Mapping[str, Text] = {
    # limits, as Nova, Cinder and Neutron word them
    "quota.exceeded": (
        "Quota exceeded for %(names)s: Requested %(wanted)s, but already used %(used)s of %(most)s %(names)s"
    ),
    "quota.volume_exceeded": (
        "Quota exceeded for %(name)s: requested %(wanted)s, but already used %(used)s of %(most)s %(name)s."
    ),
    "quota.network_exceeded": "Quota exceeded for resources: ['%(name)s'].",
    "quota.too_many": "Quota exceeded, too many %(what)s: %(used)s of %(most)s exist, %(wanted)s more requested.",
    "quota.metadata": "Quota exceeded for metadata_items: %(wanted)s requested, %(most)s allowed.",
    "quota.rows": "Quota exceeded, too many %(what)s: the %(owner)s has %(used)s of %(most)s. Delete some first.",
    # requests for more quota
    "quota_request.reader": "Your role in this project is read-only: ask a member to request more quota.",
    "quota_request.say_why": "Enter why the project needs more, in at most %(longest)s characters.",
    "quota_request.say_answer": "Enter an answer for the project of at most %(longest)s characters.",
    "quota_request.say_why_not": (
        "Enter why the request is declined, in at most %(longest)s characters. The requester sees it."
    ),
    "quota_request.not_yours": "Only the requester can withdraw it.",
    "quota_request.decided": "The request is already %(state)s.",
    "quota_request.operators": "Only operators decide requests for more quota.",
    "quota_request.nothing_higher": "Enter at least one limit that should be higher.",
    "quota_request.unknown": "There is no limit %(name)s. Use one of %(names)s.",
    "quota_request.unlimited": "This resource is unlimited in the project.",
    "quota_request.too_low": "Enter more than the current limit, %(limit)s, and at most %(highest)s.",
    "quota_request.too_many_open": "%(most)s requests of this project are already open.",
    "quota_request.same_open": "%(name)s already requested more %(what)s: that request is still open.",
    # budgets
    "budget.amount": "Enter an amount above 0 with at most two decimals, such as 500.00.",
    "budget.thresholds": "Enter at most %(most)s percentages from 1 to %(highest)s, such as 50, 80, 100.",
    "budget.changed": "The budget has changed: its revision is %(newest)s, not %(revision)s. Reload and try again.",
    # consoles
    "console.no_endpoint": "The server's host has not reported its console address: see NOVELLA_CONSOLE_LISTEN.",
    "console.lost": "The server is off, or another person opened this console.",
    "console.ended": "The console has ended.",
    "console.expired": "This console session has expired.",
    "console.no_host": "Instance %(server)s is not ready: it has no host.",
    "console.off": "Instance %(server)s is not ready: it is off. Start it first.",
    "console.busy": "Instance %(server)s has no console while it is %(state)s.",
    "console.host_unresponsive": "The host of instance %(server)s does not answer.",
    "console.no_kind": "The host of instance %(server)s offers no console of type %(kind)s.",
    "console.reader": "A read-only role cannot open consoles.",
    "console_share.too_many": "A server's consoles are shared by at most %(most)s links. Revoke one first.",
    "console_share.over_already": "This link was already revoked, or has expired.",
    "console_share.nothing": "This link is not valid: it has expired, was revoked, or belongs to another project.",
    "console_share.expired": "This link has expired. Ask for another one.",
    "console_share.revoked": "This console is no longer shared. Ask for another link.",
    "console_share.deleted": "The server was deleted, so its console has ended.",
    "console_share.off": "The server is off.",
    # schedules of snapshots
    "snapshot.no_right": "The owner of this schedule no longer has access to the project.",
    "snapshot.server_gone": "The server is gone.",
    "snapshot.volume_gone": "The volume is gone.",
    "snapshot.previous_running": "The previous snapshot is still being taken.",
    "snapshot.boots_from_volume": "This server boots from a volume: schedule snapshots of its volumes instead.",
    "snapshot.too_many": "There are already %(most)s schedules: delete one first.",
    # notifications
    "mail.no_server": "This cloud sends no email: its operator has not set NOVELLA_SMTP_URL.",
    "mail.no_address": "Your account has no email address. An operator can add one.",
    # accounts
    "password.length": "A password must have %(least)s to %(most)s characters.",
    "password.name": "A password must not be the user's name, with or without digits added.",
    "password.common": "This password is one of the most used ones. Choose another.",
    "sign_in.too_many_failed": "Too many sign-ins failed. Try again in %(seconds)s s.",
    "sign_in.busy": "Too many sign-ins are in progress. Try again in a moment.",
    "second_factor.own": "Turn off your own two-factor authentication in your profile, with a code.",
    "password.needs_code": (
        "You sign in with two-factor authentication. Change your own password in the portal, or with a token issued "
        "for password and totp."
    ),
    # what is wrong with a field
    "invalid.body": "Invalid input for the request body. %(fix)s",
    "invalid.field": "Invalid input for field/attribute %(path)s. %(fix)s",
    "invalid.value": "Invalid input for field/attribute %(path)s. Value: '%(value)s'. %(fix)s",
    "invalid.body_value": "Invalid input for the request body. Value: '%(value)s'. %(fix)s",
    "invalid.type": "It must be %(types)s.",
    "invalid.too_short": "It is too short: at least %(least)s characters are needed.",
    "invalid.too_long": "It is too long: at most %(most)s characters are allowed.",
    "invalid.least": "It must be at least %(least)s.",
    "invalid.most": "It must be at most %(most)s.",
    "invalid.one_of": "It must be one of %(values)s.",
    "invalid.const": "It must be %(value)s.",
    "invalid.pattern": "It does not match %(pattern)s.",
    "invalid.format": "It is not a valid %(format)s.",
    "invalid.unexpected": "Additional properties are not allowed (%(names)s was unexpected).",
    "invalid.all_unexpected": "Additional properties are not allowed (%(names)s were unexpected).",
    "invalid.missing": "%(name)s is a required property.",
    "invalid.fewest_items": "At least %(least)s items are needed.",
    "invalid.most_items": "At most %(most)s items are allowed.",
    "invalid.fewest_properties": "At least %(least)s properties are needed.",
    "invalid.most_properties": "At most %(most)s properties are allowed.",
    "invalid.repeated": "Items must not repeat.",
    "invalid.no_form": "It has none of the allowed forms.",
    "invalid.whole": "It must be a whole number.",
    "invalid.whole_least": "It must be a whole number of at least %(least)s.",
    "invalid.whole_range": "It must be a whole number from %(least)s to %(most)s.",
    "invalid.range": "It must be a number from %(least)s to %(most)s.",
    "invalid.name": "It must have 1 to 255 %(characters)s, without spaces at either end.",
    "invalid.not_blank": "It must have 1 to 255 characters that are not all spaces.",
}
