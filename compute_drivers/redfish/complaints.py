"""What controllers and the way to them do wrong, as one plain sentence with its first cause."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import requests
import sushy
import urllib3

from conductor.core.errors import DriverError

log = logging.getLogger(__name__)

# What firmware that answers nonsense makes of its readers.
NONSENSE = (ValueError, LookupError, TypeError, AttributeError)
# Parts of what libraries say → what is to be read, the first that is found.
CAUSES = {
    "CERTIFICATE_VERIFY_FAILED": "its certificate is not from an authority that this host trusts",
    "doesn't match": "its certificate is for another name",
    "WRONG_VERSION_NUMBER": "it speaks no TLS there",
    "SSLError": "no encrypted connection could be made",
    "Connection refused": "the connection was refused",
    "No route to host": "there is no way to it",
    "Network is unreachable": "there is no way to it",
    "Name or service not known": "its name is not known",
    "Failed to resolve": "its name is not known",
    "timed out": "it took too long",
    "imeout": "it took too long",
    "reset by peer": "it broke the connection off",
    "Connection aborted": "it broke the connection off",
}


@contextmanager
def asked(machine: str, what: str) -> Iterator[None]:
    """Raises DriverError, which names the machine and why; all that the libraries say goes to the log."""
    who = f"The controller of machine {machine}"
    try:
        yield
    except sushy.exceptions.AccessError:
        raise DriverError(f"{who} refuses the user or the password that it was given.") from None
    except (
        sushy.exceptions.ConnectionError,
        requests.RequestException,
        urllib3.exceptions.HTTPError,
        OSError,
    ) as error:
        raise DriverError(f"{who} does not answer: {cause_of(error)}.") from None
    except sushy.exceptions.HTTPError as error:
        raise _refused(machine, what, error) from None
    except sushy.exceptions.SushyError as error:
        log.warning("machine %s cannot be asked %s: %s", machine, what, type(error).__name__)
        raise DriverError(f"{who} cannot be asked {what}: it does not offer that.") from None
    except NONSENSE as error:
        if isinstance(error.__context__, sushy.exceptions.HTTPError):  # the library fell over what it found in it
            raise _refused(machine, what, error.__context__) from None
        log.warning("machine %s, asked %s, made no sense", machine, what, exc_info=error)
        raise DriverError(f"{who} was asked {what}, and its answer makes no sense.") from None


def _refused(machine: str, what: str, error: sushy.exceptions.HTTPError) -> DriverError:
    log.warning("machine %s, asked %s, answered %s: %s", machine, what, error.status_code, error.code)
    return DriverError(
        f"The controller of machine {machine} was asked {what} and answered with error {error.status_code}."
    )


def cause_of(error: BaseException) -> str:
    said = f"{type(error).__name__} {error}"
    return next((plain for part, plain in CAUSES.items() if part in said), "the connection failed")
