"""The file format of scheduling cases as a JSON schema."""

from __future__ import annotations

from typing import Any

FORMAT = "nova-scheduler-cases/1"

TEXT: dict[str, Any] = {"type": "string"}
NAME: dict[str, Any] = {"type": "string", "minLength": 1}
TEXTS: dict[str, Any] = {"type": "array", "items": TEXT}
COUNT: dict[str, Any] = {"type": "integer", "minimum": 0}
WHOLE: dict[str, Any] = {"type": "integer"}
NUMBER: dict[str, Any] = {"type": "number"}
SWITCH: dict[str, Any] = {"type": "boolean"}
NULL: dict[str, Any] = {"type": "null"}
ANY_OBJECT: dict[str, Any] = {"type": "object"}
CPUS: dict[str, Any] = {"type": "array", "items": COUNT}


def _or_null(rule: dict[str, Any]) -> dict[str, Any]:
    return {"anyOf": [rule, NULL]}


def _object(required: tuple[str, ...] = (), **properties: dict[str, Any]) -> dict[str, Any]:
    """Return an object schema in which every key that is not required may also be null."""
    rules = {name: rule if name in required else _or_null(rule) for name, rule in properties.items()}
    return {"type": "object", "required": list(required), "properties": rules}


def _list(item: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": item}


AGGREGATE = _object(("name",), name=NAME, metadata=ANY_OBJECT, az=TEXT)
GROUP = _object(
    ("name", "policy"),
    name=NAME,
    policy={"enum": ["affinity", "anti-affinity", "soft-affinity", "soft-anti-affinity"]},
    rules=_object(max_server_per_host={"type": ["integer", "string"]}),
    members=TEXTS,
)
INVENTORY = _object(
    ("total",),
    total=COUNT,
    used=COUNT,
    reserved=COUNT,
    ratio=NUMBER,
    min_unit=COUNT,
    max_unit=COUNT,
    step_size={"type": "integer", "minimum": 1},
)
CELL = _object(
    ("id",),
    id=COUNT,
    cpus=CPUS,
    pcpus=CPUS,
    memory_mb=COUNT,
    memory_mb_used=COUNT,
    cpus_used=COUNT,
    pinned=CPUS,
    siblings=_list(CPUS),
    pages=_list(_object(("size_kb", "total"), size_kb=COUNT, total=COUNT, used=COUNT)),
    socket=WHOLE,
)
POOL = _object(
    ("vendor_id", "product_id", "count"),
    vendor_id=TEXT,
    product_id=TEXT,
    numa_node=WHOLE,
    count=COUNT,
    tags=ANY_OBJECT,
)
RESIDENT = {"anyOf": [TEXT, _object(("uuid",), uuid=TEXT, image_properties=ANY_OBJECT)]}
HOST = _object(
    ("name", "vcpus", "ram_mb", "disk_gb"),
    name=NAME,
    node=NAME,
    uuid=NAME,
    cell=NAME,
    ip=TEXT,
    aggregates=TEXTS,
    status={"enum": ["up", "down", "disabled", "forced_down"]},
    **{key: COUNT for size in ("vcpus", "ram_mb", "disk_gb") for key in (size, f"{size}_used")},
    **{f"{size}_ratio": NUMBER for size in ("vcpus", "ram_mb", "disk_gb")},
    disk_available_least=WHOLE,
    resources={"type": "object", "additionalProperties": INVENTORY},
    traits=TEXTS,
    hypervisor_type=TEXT,
    hypervisor_version=WHOLE,
    supported_instances=_list({"type": "array", "items": TEXT, "minItems": 3, "maxItems": 3}),
    cpu_info={"type": ["object", "string"]},
    stats=ANY_OBJECT,
    instances=_list(RESIDENT),
    num_instances=WHOLE,
    io_ops=WHOLE,
    failed_builds=WHOLE,
    metrics={"type": "object", "additionalProperties": NUMBER},
    numa=_list(CELL),
    pci=_list(POOL),
)
FLAVOR = _object(
    ("vcpus", "ram_mb"),
    name=TEXT,
    vcpus=COUNT,
    ram_mb=COUNT,
    disk_gb=COUNT,
    ephemeral_gb=COUNT,
    swap_mb=COUNT,
    extra_specs=ANY_OBJECT,
)
REQUEST = _object(
    ("name", "flavor"),
    name=NAME,
    flavor=FLAVOR,
    image=_object(id=TEXT, properties=ANY_OBJECT, disk_format=TEXT),
    bfv=SWITCH,
    az=TEXT,
    project_id=TEXT,
    hints=ANY_OBJECT,
    group=TEXT,
    num_instances={"type": "integer", "minimum": 1},
    instance_uuids={"type": "array", "items": TEXT},
    force_hosts=TEXTS,
    force_nodes=TEXTS,
    ignore_hosts=TEXTS,
    destination=_object(host=TEXT, node=TEXT, cell=TEXT, allow_cross_cell_move=SWITCH),
    check_type={"enum": ["rebuild"]},
)
CASE = _object(
    ("name", "hosts", "requests"),
    name=NAME,
    config=ANY_OBJECT,
    filters=TEXTS,
    weighers=TEXTS,
    hosts=_list(HOST),
    requests=_list(REQUEST),
    aggregates=_list(AGGREGATE),
    groups=_list(GROUP),
)
