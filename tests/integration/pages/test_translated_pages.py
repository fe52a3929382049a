"""Every text of a page is translated: where each translation is marked, only data is left without a mark."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any

import pytest
from babel.messages import pofile
from django.utils import translation

from portal.pages.resource_pages.catalog import RESOURCES
from tests.fixtures.every_page import PAGES, a_little_of_everything
from tests.integration.page_clients import signed_in
from tools import catalogues

OPEN, CLOSE = "\u2045", "\u2046"
MARKED = re.compile(f"{OPEN}[^{OPEN}{CLOSE}]*{CLOSE}")
PLUGIN = re.compile(r"\b[A-Z]\w+(?:Filter|Weigher|Isolation)\b")  # a plugin is shown by its class, too
CODE = re.compile(
    r"\S*[a-z0-9][./_@#=:][A-Za-z0-9{]\S*"  # an action, an address, a name with a version
    r"|\S*[0-9a-f]{8}\S*|\S*w{20,}\S*"  # an id, and the longest name
    r"|(?:(?:GET|POST|PUT|PATCH|DELETE) )?/\S+"  # a request
)
WORD = re.compile(r"[A-Za-z]{3,}")
SHOWN = frozenset({"title", "placeholder", "aria-label", "alt"})
VOID = frozenset({"input", "img", "br", "hr", "meta", "link", "source", "col", "wbr", "area", "base", "embed"})
DATA = frozenset({"script", "style", "code", "pre", "svg", "kbd"})
ENGLISH = frozenset({"api"})  # the reference of the API is in the language of the API
# Names and codes, and what the cloud of this test is made of.
NAMES = """
    Novella API Deutsch English TCP UDP ICMP IPv UTC EUR vCPU min
    any required true false null info warning error instance raw public files QCOW RAW ISO VMDK VDI VHD
    DHCP MTU SSH SCTP ICMPv ping auto depth-first blue in-process openid profile email single sign-on INFO True False
    admin ana chi rea shop lab default Default security group manager member reader service
    cell sim worker rack compute-with-a-rather-long-name example fake container libvirt redfish
    Build failure Compute status Ram Aggregate image properties instance extra specs io ops multi tenancy num type
    instances affinity isolation Json Simple cidr
    No valid host was found of hosts image needs qemu host runs is down starting the guest
    simulated-linux private private-subnet small web a-server deploys
    Cell rests on Sunday Its servers go on New ones wait
    a reason that is long enough to need more than a line on a phone
"""


class ShownText(HTMLParser):
    """The texts of a page as a reader sees them or has them read out."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.stack: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.stack.append(tag)
        self.found += [value for name, value in attrs if name in SHOWN and value]

    def handle_endtag(self, tag: str) -> None:
        while self.stack and self.stack.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        if not DATA & set(self.stack) and data.strip():
            self.found.append(data)


@pytest.fixture
def marks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put each translation between marks. A text that the catalogue does not have gets none."""
    path = catalogues.LOCALE_DIR / "de" / "LC_MESSAGES" / "django.po"
    with path.open("rb") as file:
        messages = {catalogues.text_of(message) for message in pofile.read_po(file)}
    for name in ("gettext", "ngettext"):
        translate = getattr(translation._trans, name)  # type: ignore[attr-defined]

        def marked(*args: Any, translate: Any = translate) -> str:
            text = translate(*args)
            return f"{OPEN}{text}{CLOSE}" if args[0] in messages else text

        monkeypatch.setattr(translation._trans, name, marked)  # type: ignore[attr-defined]


def untranslated(page: str, known: frozenset[str]) -> set[str]:
    """Return the texts that have words outside of marks."""
    reader = ShownText()
    reader.feed(page)
    reader.close()
    whole = "\n".join(reader.found)  # a translation may hold tags
    while (rest := MARKED.sub("", whole)) != whole:
        whole = rest
    return {
        line.strip() for line in whole.splitlines() if set(WORD.findall(CODE.sub("", PLUGIN.sub("", line)))) - known
    }


def test_text_without_a_translation_is_data(people: Any, settings: Any, marks: None) -> None:
    ids = a_little_of_everything(people, settings)
    addresses = {name: address(ids) for name, address in PAGES.items() if name not in ENGLISH}
    for resource in RESOURCES:
        addresses[resource.id] = f"/{resource.id}"
        for action in resource.actions:
            if action.is_creation:
                addresses[f"{resource.id}: {action.id}"] = f"/{resource.id}/do/{action.id}"
    reach = f"/security-groups/reach?source={ids['server']}&target={ids['server']}&protocol=tcp&port=80"
    addresses["connectivity"] = reach
    known = frozenset(WORD.findall(NAMES))
    admin, left = signed_in("admin"), {}
    for name, address in addresses.items():
        page = admin.get(address, HTTP_ACCEPT_LANGUAGE="de")
        if found := untranslated(page.content.decode(), known):
            left[name] = found
    assert left == {}
