"""States of volumes: the allowed changes, and the transient states."""

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
    CREATING,
    AVAILABLE,
    RESERVED,
    ATTACHING,
    IN_USE,
    DETACHING,
    EXTENDING,
    UPLOADING,
    REVERTING,
    DOWNLOADING,
    AWAITING_TRANSFER,
    BACKING_UP,
    RESTORING_BACKUP,
    UNMANAGING,
    MAINTENANCE,
    DELETING,
    ERROR,
)
# Statuses that an operator may set; the last ones are other names of an error.
TELLABLE = (*STATUSES, "error_deleting", "error_extending", "error_restoring")
SNAPSHOT_STATUSES = (CREATING, AVAILABLE, DELETING, ERROR)
SNAPSHOT_TELLABLE = (*SNAPSHOT_STATUSES, "error_deleting")
LENT_STATUSES = (RESERVED, ATTACHING, IN_USE, DETACHING)  # of an attachment
DELETABLE = (AVAILABLE, ERROR, "error_deleting", "error_extending", "error_restoring")

# From the first to the second, with the cause.
CHANGES = frozenset(
    {
        (CREATING, AVAILABLE),  # its file exists
        (CREATING, ATTACHING),  # the same, of one for a new server
        (CREATING, DELETING),  # its server is deleted
        (CREATING, ERROR),
        (AVAILABLE, ATTACHING),  # attach_volume reserves it
        (ATTACHING, IN_USE),  # the guest has it
        (ATTACHING, AVAILABLE),  # the guest could not attach it
        (IN_USE, DETACHING),  # detach_volume begins
        (ATTACHING, DETACHING),  # its server is deleted while the attachment is unconfirmed
        (DETACHING, IN_USE),  # the guest kept it
        (DETACHING, AVAILABLE),  # the guest has released it
        (IN_USE, AVAILABLE),  # its server is deleted
        (ATTACHING, DELETING),  # its server is deleted, and the volume with it
        (IN_USE, DELETING),
        (DETACHING, DELETING),
        (AVAILABLE, EXTENDING),  # its file grows
        (EXTENDING, AVAILABLE),
        (AVAILABLE, DELETING),  # its owner deletes it; the row is deleted with the file
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
        (AVAILABLE, UPLOADING),  # an image is created of it
        (IN_USE, UPLOADING),
        (UPLOADING, AVAILABLE),
        (UPLOADING, IN_USE),
        (AVAILABLE, REVERTING),  # it gets its snapshot's data
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
        (AVAILABLE, UNMANAGING),  # the row is deleted, the file stays
        (AVAILABLE, BACKING_UP),  # its data are copied to a backup
        (IN_USE, BACKING_UP),
        (BACKING_UP, AVAILABLE),
        (BACKING_UP, IN_USE),
        (CREATING, RESTORING_BACKUP),  # created to get a backup's data
        (AVAILABLE, RESTORING_BACKUP),  # it gets its backup's data
        ("error_restoring", RESTORING_BACKUP),
        (RESTORING_BACKUP, AVAILABLE),
        (RESTORING_BACKUP, "error_restoring"),
    }
)
IMAGE, SNAPSHOT, VOLUME, BACKUP = "image", "snapshot", "volume", "backup"
SOURCES = (IMAGE, SNAPSHOT, VOLUME, BACKUP)
# The next sweep finishes these after their process died.
PASSING = (CREATING, EXTENDING, DELETING, UNMANAGING)
