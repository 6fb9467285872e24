# Everything runs from .venv, which `make` builds on first use and rebuilds when the lock or the project file changes.

COHORT ?= moderate-chat
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.stamp
SUPPORTED := (3, 11) <= sys.version_info[:2] < (3, 14)

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help plan ui test lint lock clean

help: ## show this list
	@sed -n 's/^\([a-z]*\):.*## /  make \1\t/p' $(MAKEFILE_LIST) | expand -t 16

plan: $(STAMP) ## plan a cohort: make plan COHORT=bursty-documents
	@$(BIN)/phaseledger plan $(COHORT)

ui: $(STAMP) ## open the assets and their lineage in the browser
	@$(BIN)/phaseledger ui

test: lint ## lint, test, and validate the Dagster definitions
	$(BIN)/pytest -q -n auto --dist loadfile
	@home=$$(mktemp -d) && trap 'rm -rf "$$home"' EXIT && printf 'telemetry: {enabled: false}\n' > "$$home/dagster.yaml" && \
	echo "$(BIN)/dagster definitions validate -w workspace.yaml" && \
	DAGSTER_HOME="$$home" $(BIN)/dagster definitions validate -w workspace.yaml

lint: $(STAMP) ## check style, format, types and who imports whom
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

lock: ## resolve requirements.lock anew from pyproject.toml (needs uv)
	@command -v uv > /dev/null || { echo "make lock needs uv: see https://docs.astral.sh/uv/" >&2; exit 1; }
	uv pip compile --quiet --universal --python-version 3.11 --all-extras --generate-hashes --no-header --no-annotate \
		pyproject.toml --output-file requirements.lock

clean: ## remove .venv, builds and caches; receipts stay
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	find pipelines tests cohorts -name __pycache__ -type d -prune -exec rm -rf {} +

# The stamp is written last and removed first: an environment without one was never finished, and is built anew.
$(STAMP): requirements.lock pyproject.toml
	@if [ -n "$(PYTHON)" ]; then candidates="$(PYTHON)"; else candidates="python3 python3.13 python3.12 python3.11"; fi; \
	python=""; found=""; \
	for candidate in $$candidates; do \
		version=$$("$$candidate" -c 'import platform; print(platform.python_version())' 2> /dev/null) || continue; \
		if "$$candidate" -c 'import sys; sys.exit(not ($(SUPPORTED)))'; then python="$$candidate"; break; fi; \
		found="$$found $$candidate is $$version;"; \
	done; \
	if [ -z "$$python" ]; then \
		echo "phaseledger needs Python 3.11, 3.12 or 3.13;$${found:- none found (looked for $$candidates);} try make PYTHON=/path/to/python3.12" >&2; \
		exit 1; \
	fi; \
	if [ ! -e $(STAMP) ] || ! $(BIN)/python -c 'import sys, pip; sys.exit(not ($(SUPPORTED)))' 2> /dev/null; then \
		echo "Creating $(VENV) with $$("$$python" --version)"; \
		"$$python" -m venv --clear $(VENV) || exit 1; \
	fi; \
	rm -f $(STAMP)
	@echo "Installing the locked packages into $(VENV) (about half a minute)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-input --no-deps --require-hashes -r requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-input --no-deps --no-build-isolation -e .
	@touch $(STAMP)
