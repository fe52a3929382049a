# `make` lists what can be done. The set-up is tools/bootstrap.py; it does only what has changed.
PY ?= python3
VENV_PYTHON := .venv/bin/python
T ?= tests
# More than the processors: tests that wait for processes to die and to come back leave them to others.
WORKERS ?= 5
# Folder by folder: the first have the files that take longest, which would else begin last, for they hold few tests.
PYTEST := $(VENV_PYTHON) -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder --max-worker-restart 2
SEED ?= 1
# Bytecode is kept, whatever the environment says: processes start in half the time with it.
unexport PYTHONDONTWRITEBYTECODE
# What depends on how a database locks, commits and sorts is proven on both kinds.
ON_POSTGRESQL := tests/integration/placement $(addprefix tests/integration/test_,$(addsuffix .py,races engine run_sets shared_transactions placement addresses ports launch instance_delete instance_indexes instance_lists ledgers host_reports reports_elsewhere provider_trees))
# libvirt opens the hypervisor inside a process some twenty times and no more: one file needs most of them for itself.
APART := $(addprefix tests/compute_drivers/test_,libvirt_faults.py tiny_linux.py)

# What needs neither a service nor a process of its own: a worker for each processor is the fastest here.
QUICK := tests/integration/flows tests/unit tests/integration/test_engine.py tests/integration/test_transitions.py

.DEFAULT_GOAL := help
.PHONY: help run wheel check test lint format types docs site words bench chaos pictures audit lock clean setup setup-dev

help: ## list the targets
	@sed -n 's/^\([a-z][a-z-]*\):[^#]*## \(.*\)/make \1|\2/p' Makefile | awk -F '|' '{ printf "%-16s %s\n", $$1, $$2 }'

run: setup ## set up what is missing and start everything: portal, APIs, conductor, hosts
	@$(PY) -m tools.system_packages run
	@exec $(VENV_PYTHON) manage.py up

wheel: setup-dev ## build the package into dist/, with browser packages and compiled catalogues
	@.venv/bin/uv build --quiet --wheel --no-build-isolation --python $(VENV_PYTHON) --out-dir dist
	@ls dist/*.whl

# The project is compiled once: each worker would do it by itself.
test: setup-dev ## set up what is missing and run the whole test suite with every gate (T=tests/unit: a part)
	@$(PY) -m tools.system_packages test
	@$(VENV_PYTHON) -m compileall -q -j 2 portal conductor compute_drivers scheduler_plugins tests
	@$(PYTEST) $(T) $(if $(filter tests,$(T)),$(addprefix --ignore=,$(APART)))
	@[ "$(T)" != tests ] || TEST_DATABASE=postgresql $(PYTEST) -q $(APART) $(ON_POSTGRESQL)

check: setup-dev ## check quickly: style, types, unit tests, and integration tests that start no process
	@$(VENV_PYTHON) -m ruff check -q . && $(VENV_PYTHON) -m ruff format -q --check . && $(VENV_PYTHON) -m mypy
	@$(VENV_PYTHON) -m pytest -q -n $(shell nproc) --dist loadfile --no-loadscope-reorder $(QUICK)

lint: setup-dev ## check style, formatting and who imports whom
	@$(VENV_PYTHON) -m ruff check .
	@$(VENV_PYTHON) -m ruff format --check .
	@$(VENV_PYTHON) -m pytest -q tests/architecture/test_imports.py tests/architecture/test_budgets.py

format: setup-dev ## format the code and mend what can be mended by machine
	@$(VENV_PYTHON) -m ruff check --fix .
	@$(VENV_PYTHON) -m ruff format .

types: setup-dev ## check the types
	@$(VENV_PYTHON) -m mypy

docs: setup-dev ## check that the documentation names all that there is
	@$(VENV_PYTHON) -m pytest -q tests/architecture/test_docs.py

site: setup-dev ## build the documentation's site into build/site; a broken link fails it
	@$(VENV_PYTHON) -m sphinx -E -W --keep-going -q -b html docs build/site

words: setup-dev ## bring the catalogues of translations in step with what pages say; lists what is to be said
	@$(VENV_PYTHON) -m tools.catalogues

bench: setup-dev ## run the benchmarks, store their figures and write RESULTS.md
	@$(VENV_PYTHON) -m benchmarks

chaos: setup-dev ## kill everything on purpose: simulated schedules, every place of every flow, and a random campaign
	@$(PY) -m tools.system_packages test
	@$(VENV_PYTHON) -m tests.chaos.simulate --crowded 20000 --schedules 5000 --real 3000 --planted 2000
	@$(VENV_PYTHON) -m tests.chaos --mode every-point
	@$(VENV_PYTHON) -m tests.chaos --mode random --seed $(SEED) --actions 10000 --kills 1000 --server-kills 40

pictures: setup-dev ## draw the pictures of the README and all screens of docs/screens anew
	@$(VENV_PYTHON) -m pytest -q tests/browser/pictures.py

audit: setup-dev ## check that no dependency is locked at a version with a known weakness
	@$(VENV_PYTHON) -m tools.audit

lock: setup-dev ## resolve the dependencies of pyproject.toml and package.json anew into their hashed locks
	@$(VENV_PYTHON) -m tools.lock

clean: ## remove the environment, fetched browser packages and caches (never the data in var/)
	@rm -rf .venv node_modules portal/static/vendor .pytest_cache .mypy_cache .ruff_cache .import_linter_cache

setup:
	@$(PY) -m tools.bootstrap run

setup-dev:
	@$(PY) -m tools.bootstrap test
