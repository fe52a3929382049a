# `make` lists what can be done. The set-up is tools/bootstrap.py; it does only what has changed.
PY ?= python3
VENV_PYTHON := .venv/bin/python
T ?= tests
# More than the processors: tests that wait for processes to die and to come back leave them to others.
WORKERS ?= 5
# Folder by folder: the first have the files that take longest, which would else begin last, for they hold few tests.
PYTEST := $(VENV_PYTHON) -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder --max-worker-restart 2
SEED ?= 1
# What depends on how a database locks, commits and sorts is proven on both kinds.
ON_POSTGRESQL := tests/integration/placement $(addprefix tests/integration/test_,$(addsuffix .py,races engine shared_transactions placement addresses ports launch instance_delete instance_lists host_reports reports_elsewhere provider_trees))
# libvirt opens the hypervisor inside a process some twenty times and no more: one file needs most of them for itself.
APART := $(addprefix tests/compute_drivers/test_,libvirt_faults.py tiny_linux.py)

.DEFAULT_GOAL := help
.PHONY: help run test lint format types docs words bench chaos pictures audit lock clean setup setup-dev

help: ## list the targets
	@sed -n 's/^\([a-z][a-z-]*\):[^#]*## \(.*\)/make \1|\2/p' Makefile | awk -F '|' '{ printf "%-16s %s\n", $$1, $$2 }'

run: setup ## set up what is missing and start everything: portal, APIs, conductor, hosts
	@$(PY) -m tools.system_packages run
	@exec $(VENV_PYTHON) manage.py up

test: setup-dev ## set up what is missing and run the whole test suite with every gate (T=tests/unit: a part)
	@$(PY) -m tools.system_packages test
	@$(PYTEST) $(T) $(if $(filter tests,$(T)),$(addprefix --ignore=,$(APART)))
	@[ "$(T)" != tests ] || TEST_DATABASE=postgresql $(PYTEST) -q $(APART) $(ON_POSTGRESQL)

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

words: setup-dev ## bring the catalogues of translations in step with what pages say; lists what is to be said
	@$(VENV_PYTHON) -m tools.catalogues

bench: setup-dev ## run the benchmarks and print their ratios
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

lock: setup-dev ## resolve requirements/*.in and package.json anew into their hashed locks
	@$(VENV_PYTHON) -m tools.lock

clean: ## remove the environment, fetched browser packages and caches (never the data in var/)
	@rm -rf .venv node_modules portal/static/vendor .pytest_cache .mypy_cache .ruff_cache .import_linter_cache

setup:
	@$(PY) -m tools.bootstrap run

setup-dev:
	@$(PY) -m tools.bootstrap test
