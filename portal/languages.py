"""The language of a page: the user's choice, else the browser's, else English.

The catalogues are text files in `portal/locale`. Their compiled form, which Django reads, is created when it is missing
or outdated. The APIs always use English, because programs read their messages.
"""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from django.conf import settings
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils import translation
from django.utils.cache import patch_cache_control
from django.utils.translation.trans_real import parse_accept_lang_header
from django.views.i18n import JavaScriptCatalog

log = logging.getLogger(__name__)
LOCALE_DIR = Path(__file__).parent / "locale"
ENGLISH = "en"
SECONDS_KEPT = 3600


@contextmanager
def of_request(request: HttpRequest) -> Iterator[None]:
    """Activate the caller's language while a page is rendered, on this thread only."""
    with translation.override(translation.get_language_from_request(request)):
        yield


def of_header(text: str) -> str:
    """Return the best of our languages for an Accept-Language header."""
    for name, _ in parse_accept_lang_header(text):
        try:
            return translation.get_supported_language_variant(name)
        except LookupError:
            continue
    return ENGLISH


def scripts_words(request: HttpRequest, language: str) -> HttpResponseBase:
    """Return the translations for the scripts; English is in the scripts themselves."""
    known = dict(settings.LANGUAGES)
    with translation.override(language if language in known else ENGLISH):
        response = JavaScriptCatalog.as_view(packages=["portal"])(request)
    patch_cache_control(response, public=True, max_age=SECONDS_KEPT)
    return response


def compile_catalogues(locale_dir: Path = LOCALE_DIR) -> list[Path]:
    """Compile every catalogue that has changed; returns the paths of the compiled files."""
    made = []
    for source in sorted(locale_dir.glob("*/LC_MESSAGES/*.po")):
        target = source.with_suffix(".mo")
        if target.exists() and target.stat().st_mtime >= source.stat().st_mtime:
            continue
        try:
            _compile(source, target)
        except OSError as error:
            log.warning("%s cannot be written (%s): pages stay in English", target, error.strerror)
            continue
        made.append(target)
    return made


def _compile(source: Path, target: Path) -> None:
    """Write `target`. Several processes may start at once: each writes its own file, and the last one stays."""
    from babel.messages import mofile, pofile  # a wheel has compiled catalogues, and needs no Babel

    with source.open("rb") as file:
        catalogue = pofile.read_po(file, abort_invalid=True)
    number, draft = tempfile.mkstemp(dir=target.parent, prefix=".mo-")
    try:
        with os.fdopen(number, "wb") as file:
            mofile.write_mo(file, catalogue)
        Path(draft).chmod(0o644)
        Path(draft).replace(target)
    finally:
        Path(draft).unlink(missing_ok=True)
