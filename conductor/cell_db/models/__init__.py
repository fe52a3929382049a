"""Tables of one cell: instances and all that hangs on them, services, compute nodes."""

from conductor.cell_db.models.compute_node import ComputeNode
from conductor.cell_db.models.instance import ConsoleLog, Instance, InstanceFault
from conductor.cell_db.models.service import Service

__all__ = ["ComputeNode", "ConsoleLog", "Instance", "InstanceFault", "Service"]
