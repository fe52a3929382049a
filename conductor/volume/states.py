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
RESERVED = "reserved"
UPLOADING = "uploading"
REVERTING = "reverting"
DOWNLOADING = "downloading"
AWAITING_TRANSFER = "awaiting-transfer"
MAINTENANCE = "maintenance"
BACKING_UP = "backing-up"
RESTORING_BACKUP = "restoring-backup"
UNMANAGING = "unmanaging"
STATUSES = (
    *(CREATING, AVAILABLE, RESERVED, ATTACHING, IN_USE, DETACHING, EXTENDING, UPLOADING, REVERTING),
    *(DOWNLOADING, AWAITING_TRANSFER, BACKING_UP, RESTORING_BACKUP, UNMANAGING, MAINTENANCE),
    *(DELETING, ERROR),
)
# What an operator may say that a volume is; the last ones are words of others for an error.
TELLABLE = (*STATUSES, "error_deleting", "error_extending", "error_restoring")
SNAPSHOT_STATUSES = (CREATING, AVAILABLE, DELETING, ERROR)
SNAPSHOT_TELLABLE = (*SNAPSHOT_STATUSES, "error_deleting")
LENT_STATUSES = (RESERVED, ATTACHING, IN_USE, DETACHING)  # of an attachment, the weightiest last but one
DELETABLE = (AVAILABLE, ERROR, "error_deleting", "error_extending", "error_restoring")

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
        ("error_deleting", DELETING),
        ("error_extending", DELETING),
        ("error_restoring", DELETING),
        (IN_USE, EXTENDING),  # the same, of one that a guest has
        (EXTENDING, IN_USE),
        (AVAILABLE, RESERVED),  # its owner makes an attachment
        (RESERVED, ATTACHING),
        (RESERVED, IN_USE),
        (RESERVED, AVAILABLE),
        (AVAILABLE, UPLOADING),  # an image is made of it
        (IN_USE, UPLOADING),
        (UPLOADING, AVAILABLE),
        (UPLOADING, IN_USE),
        (AVAILABLE, REVERTING),  # it becomes what its snapshot is
        (REVERTING, AVAILABLE),
        (REVERTING, ERROR),
        (AVAILABLE, DOWNLOADING),  # it gets the data of another image
        (ERROR, DOWNLOADING),
        (RESERVED, DOWNLOADING),
        (DOWNLOADING, AVAILABLE),
        (DOWNLOADING, RESERVED),
        (DOWNLOADING, ERROR),
        (AVAILABLE, AWAITING_TRANSFER),  # offered to another project
        (AWAITING_TRANSFER, AVAILABLE),
        (AVAILABLE, UNMANAGING),  # the row goes, and the file stays
        (AVAILABLE, BACKING_UP),  # its data are kept somewhere else as well
        (IN_USE, BACKING_UP),
        (BACKING_UP, AVAILABLE),
        (BACKING_UP, IN_USE),
        (CREATING, RESTORING_BACKUP),  # made to get the data of a backup
        (AVAILABLE, RESTORING_BACKUP),  # it becomes what its backup is
        ("error_restoring", RESTORING_BACKUP),
        (RESTORING_BACKUP, AVAILABLE),
        (RESTORING_BACKUP, "error_restoring"),
    }
)
IMAGE, SNAPSHOT, VOLUME, BACKUP = "image", "snapshot", "volume", "backup"
SOURCES = (IMAGE, SNAPSHOT, VOLUME, BACKUP)
# What a process that dies leaves behind here is finished by the next sweep.
PASSING = (CREATING, EXTENDING, DELETING, UNMANAGING)
