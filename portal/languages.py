"""The language of a page: the person's choice, else what the browser asks for, else English.

The catalogues lie as text in `portal/locale`; what Django reads is made from them where it is missing or older. The
APIs speak English to everybody: their words are for programs.
"""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from babel.messages import mofile, pofile
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
    """While a page is made its thread speaks the language of who asks; what comes next on the thread does not."""
    with translation.override(translation.get_language_from_request(request)):
        yield


def of_header(text: str) -> str:
    """The best of our languages for an Accept-Language header."""
    for name, _ in parse_accept_lang_header(text):
        try:
            return translation.get_supported_language_variant(name)
        except LookupError:
            continue
    return ENGLISH


def scripts_words(request: HttpRequest, language: str) -> HttpResponseBase:
    """The words of the scripts in a language; English ones are in the scripts themselves."""
    known = dict(settings.LANGUAGES)
    with translation.override(language if language in known else ENGLISH):
        response = JavaScriptCatalog.as_view(packages=["portal"])(request)
    patch_cache_control(response, public=True, max_age=SECONDS_KEPT)
    return response


def compile_catalogues(locale_dir: Path = LOCALE_DIR) -> list[Path]:
    """Make what Django reads from every catalogue that has changed since; the paths of what was made."""
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
    """Several processes may start at once: each writes its own file, and the last one stays."""
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
