"""States of volumes: which follows which, and which are passed through only."""

from __future__ import annotations

CREATING = "creating"
AVAILABLE = "available"
ATTACHING = "attaching"
IN_USE = "in-use"
DETACHING = "detaching"
EXTENDING = "extending"
DELETING = "deleting"
ERROR = "error"
STATUSES = (CREATING, AVAILABLE, ATTACHING, IN_USE, DETACHING, EXTENDING, DELETING, ERROR)

# From the first to the second, and by whom.
CHANGES = frozenset(
    {
        (CREATING, AVAILABLE),  # its file is there
        (CREATING, ATTACHING),  # the same, of one that is made for a server
        (CREATING, DELETING),  # its server is not to be
        (CREATING, ERROR),
        (AVAILABLE, ATTACHING),  # attach_volume reserves it
        (ATTACHING, IN_USE),  # the guest has it
        (ATTACHING, AVAILABLE),  # the guest could not have it
        (IN_USE, DETACHING),  # detach_volume begins
        (ATTACHING, DETACHING),  # its server is deleted, and nobody knows whether the guest got it
        (DETACHING, IN_USE),  # the guest kept it
        (DETACHING, AVAILABLE),  # the guest has let it go
        (IN_USE, AVAILABLE),  # its server is gone
        (ATTACHING, DELETING),  # its server is gone, and takes it along
        (IN_USE, DELETING),
        (DETACHING, DELETING),
        (AVAILABLE, EXTENDING),  # its file grows
        (EXTENDING, AVAILABLE),
        (AVAILABLE, DELETING),  # its owner deletes it; the row goes with the file
        (ERROR, DELETING),
    }
)
IMAGE, SNAPSHOT, VOLUME = "image", "snapshot", "volume"
SOURCES = (IMAGE, SNAPSHOT, VOLUME)
# What a process that dies leaves behind here is finished by the next sweep.
PASSING = (CREATING, EXTENDING, DELETING)
