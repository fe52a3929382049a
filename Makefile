# `make` lists what can be done. The set-up is tools/bootstrap.py; it does only what has changed.
PY ?= python3
VENV_PYTHON := .venv/bin/python
BASE ?= main
SEED ?= 1
# Bytecode is kept, whatever the environment says: processes start in half the time with it.
unexport PYTHONDONTWRITEBYTECODE
# Once for all: each process that runs tests, or that tests start, would do it by itself.
COMPILE := $(VENV_PYTHON) -m compileall -q -j 2 portal conductor compute_drivers scheduler_plugins tests
.DEFAULT_GOAL := help
.PHONY: help run wheel check test test-changed lint format types docs reference site words bench chaos conformance pictures audit lock clean setup setup-dev

help: ## list the targets
	@sed -n 's/^\([a-z][a-z-]*\):[^#]*## \(.*\)/make \1|\2/p' Makefile | awk -F '|' '{ printf "%-16s %s\n", $$1, $$2 }'

run: setup ## set up what is missing and start everything: portal, APIs, conductor, hosts
	@$(PY) -m tools.system_packages run
	@exec $(VENV_PYTHON) manage.py up

wheel: setup-dev ## build the package into dist/, with browser packages and compiled catalogues
	@.venv/bin/uv build --quiet --wheel --no-build-isolation --python $(VENV_PYTHON) --out-dir dist
	@ls dist/*.whl

# What comes over the network comes before all tests, so that a network that is away is found at once.
test: setup-dev ## set up what is missing and run the whole test suite with every check (T=tests/unit: a part)
	@$(PY) -m tools.system_packages test
	@$(COMPILE)
	@$(if $(T),,$(VENV_PYTHON) -m conductor.management.tiny_linux.builder --output .pytest_cache/tiny-linux)
	@$(VENV_PYTHON) -m tools.run_tests $(if $(T),part $(T),all)

test-changed: setup-dev ## run the checks of the code and what the files changed since main can break, by imports (BASE=main)
	@$(PY) -m tools.system_packages test
	@$(VENV_PYTHON) -m tools.run_tests changed $(BASE)

check: setup-dev ## check quickly: style, types, imports, unit tests, and all other tests that start no process
	@$(PY) -m tools.system_packages test
	@$(COMPILE)
	@$(VENV_PYTHON) -m tools.run_tests quick

lint: setup-dev ## check style, formatting and who imports whom
	@$(VENV_PYTHON) -m ruff check .
	@$(VENV_PYTHON) -m ruff format --check .
	@$(VENV_PYTHON) -m pytest -q tests/architecture/test_imports.py tests/architecture/test_budgets.py

format: setup-dev ## format the code and mend what can be mended by machine
	@$(VENV_PYTHON) -m ruff check --fix .
	@$(VENV_PYTHON) -m ruff format .

types: setup-dev ## check the types, strictly
	@$(VENV_PYTHON) -m mypy

docs: setup-dev ## check that the documentation names all that there is
	@$(VENV_PYTHON) -m pytest -q tests/architecture/test_docs.py

reference: setup-dev ## write the generated pages of docs/reference anew, from the code
	@$(VENV_PYTHON) -m tools.reference

site: setup-dev ## build the documentation's site into build/site; a broken link fails it
	@$(VENV_PYTHON) -m sphinx -E -W --keep-going -q -b html docs build/site

words: setup-dev ## update the catalogues of translations; list messages without a translation
	@$(VENV_PYTHON) -m tools.catalogues

bench: setup-dev ## run the benchmarks, store their figures and write RESULTS.md
	@$(VENV_PYTHON) -m benchmarks

chaos: setup-dev ## kill everything on purpose: simulated schedules, every place of every flow, and a random campaign
	@$(PY) -m tools.system_packages test
	@$(VENV_PYTHON) -m tests.chaos.simulate --crowded 20000 --schedules 5000 --real 3000 --planted 2000
	@$(VENV_PYTHON) -m tests.chaos --mode every-point
	@$(VENV_PYTHON) -m tests.chaos --mode every-point --schedulers 0 --match "SelectDestinations|PickDestination|ChooseHostAgain"
	@$(VENV_PYTHON) -m tests.chaos.planted_in_clouds
	@$(VENV_PYTHON) -m tests.chaos --mode random --seed $(SEED) --actions 10000 --kills 1000 --server-kills 40

conformance: setup-dev ## run the integration tests of OpenStack (Tempest) against a cloud of its own
	@$(VENV_PYTHON) -m tests.tempest_suite $(if $(T),--tests '$(T)')

pictures: setup-dev ## draw the screens of the README and of docs/reference/screens again
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
