"""The run of the test suite: what is red, what is unstable, and what ends it."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.waiting import WAIT_SECONDS, wait_until
from tools.run_tests import Failed, Pool, Run, Stage, stages_of, stages_of_all

PASSES = "def test_a():\n    pass\n"
FAILS = "def test_a():\n    assert 1 == 2\n"
# Fails the first time only.
UNSTABLE = """
from pathlib import Path
import pytest

@pytest.mark.parametrize("number", range({count}))
def test_a(number):
    mark = Path(__file__).with_name(f"seen-{{number}}")
    if not mark.exists():
        mark.touch()
        raise AssertionError(f"first look {{number}}")
"""
DIES = "import os, signal\n\ndef test_a():\n    os.kill(os.getpid(), signal.SIGSEGV)\n"
HANGS = """
import threading
from pathlib import Path

def test_a():
    Path(__file__).with_name("hangs").touch()
    threading.Event().wait()
"""
# Leaves two services in sessions of their own: a child, and one whose parent is gone. Then it hangs, or passes.
SERVES = """
import subprocess, sys, threading
from pathlib import Path

WAITS = "import signal; signal.pause()"
STARTS = "import subprocess, sys; command = [sys.executable, '-c', sys.argv[1]]; "
STARTS += "print(subprocess.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True).pid)"

def test_a():
    child = subprocess.Popen([sys.executable, "-c", WAITS], start_new_session=True).pid
    orphan = subprocess.check_output([sys.executable, "-c", STARTS, WAITS], text=True).strip()
    pids = Path(__file__).with_name("pids")
    pids.with_suffix(".new").write_text(f"{{child}} {{orphan}}")
    pids.with_suffix(".new").rename(pids)
    if {hangs}:
        threading.Event().wait()
"""
# Until the clock that the recorder reads, which ticks a hundred times a second, shows that much.
COMPUTES = """
import subprocess, sys

def test_a():
    subprocess.run([sys.executable, "-c", "import os\\nwhile sum(os.times()[:2]) < 0.3: pass"], check=True)
"""
# Passes while the other one runs, and leaves a mark.
MEETS = """
from pathlib import Path
from tests.waiting import wait_until

def test_a():
    Path(__file__).with_name("{own}").touch()
    wait_until("the other runs", Path(__file__).with_name("{other}").exists)
    Path(__file__).with_name("{own}-has-met").touch()
"""
COMES_AFTER = """
from pathlib import Path

def test_a():
    assert Path(__file__).with_name("a-has-met").exists()
"""
NO_MODULE = "import nothing_of_this_name\n"


@pytest.fixture
def tests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for tests that are run with no plugin but xdist."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTHONPATH", str(Path.cwd()))  # for the plugin in tools/
    folder = tmp_path / "checked"
    folder.mkdir()
    (folder / "pytest.ini").write_text("[pytest]\naddopts = -p xdist.plugin\n")
    return folder


def stage(folder: Path, *sources: str, must_pass: bool = False, workers: int | None = None) -> Stage:
    paths = [folder / f"test_{number}.py" for number in range(len(sources))]
    for path, source in zip(paths, sources, strict=True):
        path.write_text(source)
    return Stage(((Pool("checked", tuple(path.name for path in paths), workers),),), must_pass)


LATER = Stage(((Pool("later", ("test_1.py",), workers=None),),))


def run_of(tests: Path) -> Run:
    records = tests.with_name("records")
    records.mkdir()
    return Run(records, tests)


def test_a_passing_run_is_green(tests: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = run_of(tests)
    run.run([stage(tests, PASSES, PASSES)])
    run.report()
    printed = capsys.readouterr().out
    assert "== checked: " in printed
    assert "== 2 passed\n== by folder: seconds of tests, and of processors\n" in printed
    assert "UNSTABLE" not in printed


def test_processor_time_counts_for_the_test_whose_child_spent_it(tests: Path) -> None:
    run = run_of(tests)
    run.run([stage(tests, PASSES, COMPUTES, workers=1)])
    spent = run.records["checked"].processor_seconds
    assert spent["test_1.py::test_a"] >= 0.3
    assert spent["test_0.py::test_a"] < 0.3


def test_a_test_that_fails_twice_is_red_with_both_outputs(tests: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(Failed, match=r"failed twice: \n  test_0\.py::test_a$"):
        run_of(tests).run([stage(tests, FAILS, PASSES)])
    printed = capsys.readouterr().out
    assert printed.count("E       assert 1 == 2") == 2
    assert "again-1 | " in printed


def test_a_module_that_cannot_be_imported_is_red(tests: Path) -> None:
    with pytest.raises(Failed, match=r"failed twice: \n  test_1\.py$"):
        run_of(tests).run([stage(tests, PASSES, NO_MODULE)])


def test_a_test_that_passes_alone_is_unstable_and_the_run_green(
    tests: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_of(tests).run([stage(tests, UNSTABLE.format(count=3))])
    printed = capsys.readouterr().out
    assert printed.count("== UNSTABLE: ") == 3
    assert "AssertionError: first look 2" in printed.partition("== UNSTABLE: ")[2]


def test_more_than_three_unstable_tests_are_red(tests: Path) -> None:
    with pytest.raises(Failed, match="more than 3 unstable tests"):
        run_of(tests).run([stage(tests, UNSTABLE.format(count=4))])


def test_more_failures_than_are_looked_at_again_are_red(tests: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(Failed, match="too many to look at again"):
        run_of(tests).run([stage(tests, UNSTABLE.format(count=21))])
    assert "second look" not in capsys.readouterr().out


def test_a_dead_process_ends_the_run_with_its_stack_and_its_tests(
    tests: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(Failed, match=r"process gw\d of checked died"):
        run_of(tests).run([stage(tests, DIES, PASSES, workers=2), LATER])
    printed = capfd.readouterr().out
    assert "Fatal Python error: " in printed
    assert 'test_0.py", line 4 in test_a' in printed
    assert "later | " not in printed


def test_a_stage_that_must_pass_stops_the_run(tests: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(Failed, match="checked must pass before anything else is run"):
        run_of(tests).run([stage(tests, FAILS, PASSES, must_pass=True), LATER])
    assert "later | " not in capsys.readouterr().out


def test_tracks_run_at_the_same_time_and_pools_of_a_track_one_after_the_other(tests: Path) -> None:
    stage(tests, MEETS.format(own="a", other="b"), MEETS.format(own="b", other="a"), COMES_AFTER)
    first, other, last = (Pool(f"pool-{number}", (f"test_{number}.py",), workers=None) for number in range(3))
    run = run_of(tests)
    run.run([Stage(((first, last), (other,)))])
    assert [run.records[pool.name].passed for pool in (first, other, last)] == [1, 1, 1]


def test_a_dead_process_ends_the_lane_of_its_pool(tests: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stage(tests, DIES, PASSES)
    first = Pool("first", ("test_0.py",), workers=1)
    with pytest.raises(Failed, match=r"process gw\d of first died"):
        run_of(tests).run([Stage(((first, *LATER.pools),))])
    assert "later | " not in capsys.readouterr().out


def test_a_run_that_expires_prints_the_stacks(tests: Path, capfd: pytest.CaptureFixture[str]) -> None:
    run = run_of(tests)

    def expire_when_it_hangs() -> None:
        wait_until("the test has begun", (tests / "hangs").exists)
        run.expire()

    expiring = threading.Thread(target=expire_when_it_hangs)
    expiring.start()
    with pytest.raises(Failed, match=r"not through after \d+ minutes"):
        run.run([stage(tests, HANGS, PASSES, workers=1), LATER])
    expiring.join()
    printed = capfd.readouterr().out
    assert re.search(r'test_0\.py", line [67] in test_a', printed)
    assert "later | " not in printed


@pytest.mark.parametrize("hangs", [True, False])
def test_nothing_that_tests_have_started_outlives_the_run(tests: Path, hangs: bool) -> None:
    stage(tests, SERVES.format(hangs=hangs))
    command = [sys.executable, "-m", "tools.run_tests", "part", str(tests / "test_0.py")]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    wait_until("the services run", (tests / "pids").exists)
    services = [int(pid) for pid in (tests / "pids").read_text().split()]
    if hangs:
        running.send_signal(signal.SIGTERM)
    printed = running.communicate(timeout=WAIT_SECONDS)[0]
    assert running.returncode == int(hangs)
    assert ("== FAILED: ended by SIGTERM" if hangs else "== PASSED") in printed
    wait_until("the services are gone", lambda: not any(Path(f"/proc/{pid}").exists() for pid in services))


def test_every_folder_of_tests_is_in_a_stage_of_the_whole_suite() -> None:
    named = [path for one in stages_of_all() for pool in one.pools for path in pool.paths]
    folders = {str(path.parent.relative_to(Path.cwd())) for path in Path.cwd().glob("tests/*/test_*.py")}
    assert folders - {"tests/architecture"} <= set(named)
    assert {str(path.relative_to(Path.cwd())) for path in Path.cwd().glob("tests/architecture/test_*.py")} <= set(named)
    assert all(Path(path).exists() for path in named)


def test_what_starts_processes_runs_after_the_quick_tests_and_all_else_runs_with_them() -> None:
    (quick,) = stages_of("quick", ())[1].pools
    later = {path for pool in stages_of_all()[2].pools for path in pool.paths}
    assert "tests/integration/services/test_group_services.py" in quick.ignored  # imports subprocess
    assert "tests/integration/rpc/test_redis_broker.py" in quick.ignored  # has a fixture that starts a service
    assert "tests/integration/rpc/test_brokers.py" in quick.ignored  # has the fixtures of several, by name
    assert "tests/integration/services/test_launch.py" not in quick.ignored
    assert not any(path.startswith("tests/unit/") for path in quick.ignored)
    assert set(quick.ignored) <= later
