"""Turns errors of controllers and of the connection to them into DriverError, one sentence with its first cause."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import requests
import sushy
import urllib3

from conductor.core.errors import DriverError

log = logging.getLogger(__name__)

# What parsing an invalid answer raises.
INVALID_ANSWER = (ValueError, LookupError, TypeError, AttributeError)
# Part of a library's error → the cause to show. The first match counts.
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
def bmc_errors(machine: str, what: str) -> Iterator[None]:
    """Raise DriverError with machine and cause for errors inside the block; details go to the log.

    Args:
        what: Completes "was asked …", such as "to start".
    """
    controller = f"The controller of machine {machine}"
    try:
        yield
    except sushy.exceptions.AccessError:
        raise DriverError(f"{controller} refuses the user or the password that it was given.") from None
    except (
        sushy.exceptions.ConnectionError,
        requests.RequestException,
        urllib3.exceptions.HTTPError,
        OSError,
    ) as error:
        raise DriverError(f"{controller} does not answer: {cause_of(error)}.") from None
    except sushy.exceptions.HTTPError as error:
        raise _refused(machine, what, error) from None
    except sushy.exceptions.SushyError as error:
        log.warning("machine %s cannot be asked %s: %s", machine, what, type(error).__name__)
        raise DriverError(f"{controller} cannot be asked {what}: it does not offer that.") from None
    except INVALID_ANSWER as error:
        if isinstance(error.__context__, sushy.exceptions.HTTPError):  # sushy failed to parse the error response
            raise _refused(machine, what, error.__context__) from None
        log.warning("machine %s, asked %s, made no sense", machine, what, exc_info=error)
        raise DriverError(f"{controller} was asked {what}, and its answer makes no sense.") from None


def _refused(machine: str, what: str, error: sushy.exceptions.HTTPError) -> DriverError:
    log.warning("machine %s, asked %s, answered %s: %s", machine, what, error.status_code, error.code)
    return DriverError(
        f"The controller of machine {machine} was asked {what} and answered with error {error.status_code}."
    )


def cause_of(error: BaseException) -> str:
    """Return the cause of a connection error as a clause."""
    text = f"{type(error).__name__} {error}"
    return next((plain for part, plain in CAUSES.items() if part in text), "the connection failed")
