"""`If-Match`: refuses a change that is based on an outdated revision.

revision = seen_revision(request)          # 428 without the header, 400 for a malformed one
service.change(…, revision=revision)       # 412 unless it is the current one; None matches any
"""

from __future__ import annotations

import re

from conductor.core.errors import Invalid
from portal.api.base import ApiRequest
from portal.api.errors import ConditionNeeded

HEADER = "If-Match"
_NUMBER = re.compile(r'\A(?:W/)?"(\d{1,9})"\Z')


def seen_revision(request: ApiRequest, *, is_needed: bool = True) -> int | None:
    """Return the revision in `If-Match`; None for `*`, and for no header unless it `is_needed`."""
    text = request.headers.get(HEADER, "").strip()
    if text == "*" or (not text and not is_needed):
        return None
    if not text:
        fix = "so that no change is lost"
        raise ConditionNeeded(f'Send If-Match with the version that you have seen, such as "3", or *, {fix}.')
    found = _NUMBER.match(text)
    if found is None:
        raise Invalid('If-Match is one version in quotes, such as "3", or *.', field=HEADER)
    return int(found[1])
