"""Tables of one cell: instances and all that hangs on them, services, compute nodes, migrations."""

from conductor.cell_db.models.block_device import BlockDevice
from conductor.cell_db.models.compute_node import ComputeNode
from conductor.cell_db.models.console_door import ConsoleDoor
from conductor.cell_db.models.drain import Drain
from conductor.cell_db.models.guest_count import GuestCount
from conductor.cell_db.models.instance import ConsoleLog, Instance, InstanceFault
from conductor.cell_db.models.migration import Migration
from conductor.cell_db.models.service import Service

__all__ = [
    "BlockDevice",
    "ComputeNode",
    "ConsoleDoor",
    "ConsoleLog",
    "Drain",
    "GuestCount",
    "Instance",
    "InstanceFault",
    "Migration",
    "Service",
]
