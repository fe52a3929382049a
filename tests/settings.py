"""The product's settings with a data directory of this test run's own, so that parallel runs do not conflict."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from functools import partial
from pathlib import Path

for _name in [name for name in os.environ if name.startswith("NOVELLA_")]:
    del os.environ[_name]  # the operator's shell decides nothing here
_data_dir = Path(tempfile.mkdtemp(prefix="novella-test-"))
os.environ["NOVELLA_DATA"] = str(_data_dir)
atexit.register(partial(shutil.rmtree, _data_dir, ignore_errors=True))

# TEST_DATABASE=postgresql: the same tests on a server of this run's own.
_is_on_postgresql = os.environ.get("TEST_DATABASE", "sqlite") == "postgresql"
if _is_on_postgresql:
    from tests import migrated

    # In memory where there is some: what these tests prove does not depend on a disk.
    _memory = Path("/dev/shm")
    _folder = Path(tempfile.mkdtemp(prefix="novella-test-", dir=_memory if os.access(_memory, os.W_OK) else None))
    atexit.register(partial(shutil.rmtree, _folder, ignore_errors=True))
    _server = migrated.start_server(_folder / "postgresql", is_durable=False)
    atexit.register(_server.stop)
    os.environ["NOVELLA_DATABASE_URL"] = _server.url

from portal.settings import *  # noqa: E402, F403

os.environ.pop("NOVELLA_DATABASE_URL", None)  # child processes of a test set it themselves

# A power cut in the middle of a test proves nothing: leave out the waiting for the disk, keep all else.
for _database in () if _is_on_postgresql else DATABASES.values():  # noqa: F405
    _options = _database["OPTIONS"]
    _options["init_command"] = _options["init_command"].replace("synchronous=FULL", "synchronous=OFF")

# A tenth of a second and more of processor time for each hash, of which hardly a test takes notice.
PASSWORD_HASHERS = ["tests.cheap_hashes.CheapHasher"]

# A single process is notified of its own changes at once, so no test depends on polling.
NOVELLA_TOKEN_RECHECK_SECONDS = 3600.0
# No conductor runs beside a request by default.
NOVELLA_INTERFACE_SECONDS = 0.0
# Hosts of tests report once. None is down before the time limit of its test, however slow the machine is.
NOVELLA_HOST_DOWN_SECONDS = 300.0
# A launch in a cloud without hosts is about its failure.
NOVELLA_FIRST_REPORT_SECONDS = 0.0
