# Every command for contributors. You need only Python 3.11 or newer, make and a shell: each target first completes
# .venv, which takes minutes the first time and no time after that.

PYTHON ?= python3
ARGS ?=
STAMP := .venv/.complete
# A worker for each core and two more, one with deep tests, each with servers of its own.
# pytest-xdist 3.8 can hang once it replaces a worker that died.
PYTEST := python -m pytest --numprocesses auto --maxprocesses 4 --max-worker-restart 0

LOCK := uv pip compile --generate-hashes --no-header --quiet

# Set in many a container. Every process would compile its packages anew: aws_cdk takes 5 s of each that imports it.
unexport PYTHONDONTWRITEBYTECODE
export PYTHON
export PATH := $(CURDIR)/.venv/bin:$(PATH)

.DEFAULT_GOAL := help
.PHONY: help setup demo local synth test test-deep nightly screenshots check docs format lock clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(STAMP): requirements.txt .ci/set-up .ci/browser/package-lock.json .ci/python-3.14/package-lock.json
	@.ci/set-up

setup: $(STAMP) ## Complete .venv: packages, Java, Node.js, the cdk command, a browser and Python 3.14 for tests

demo: $(STAMP) ## Run everything on this machine and write a report (ARGS="--customers 20000")
	python -m local.demo $(ARGS)

local: $(STAMP) ## Keep AWS running on this machine for experiments (ARGS="--port 4566")
	python -m lanes local up $(ARGS)

synth: $(STAMP) ## Synthesise the CloudFormation template into cdk.out
	python -m lanes cdk synth --quiet $(ARGS)

test: $(STAMP) ## Run the tests that guard the product (ARGS="tests/unit -k priority")
	$(PYTEST) -m "not deep and not nightly" $(ARGS)

test-deep: $(STAMP) ## Run the long searches and whole runs
	$(PYTEST) -m deep $(ARGS)

nightly: $(STAMP) ## Run the longest searches and floods, and compare the pictures in the docs
	$(PYTEST) -m nightly $(ARGS)

screenshots: $(STAMP) ## Renew the screenshots in the docs
	python -m pytest tests/ui/test_screenshots.py --renew-screenshots $(ARGS)

check: $(STAMP) ## Check style, types, imports between packages and pins
	ruff check .
	ruff format --check .
	mypy
	lint-imports
	.ci/pins-in-step

docs: $(STAMP) ## Build the documentation as a site into build/docs, without a network
	python -m sphinx --quiet --fresh-env --fail-on-warning --keep-going -d build/doctrees docs build/docs $(ARGS)
	@echo "build/docs/index.html"

format: $(STAMP) ## Format the code and apply fixes of the linter
	ruff check --fix-only .
	ruff format .

lock: $(STAMP) ## Compile requirements.in into requirements.txt, with the hashes of all files
	$(LOCK) --universal --python-version 3.11 $(ARGS) requirements.in -o requirements.txt
	$(LOCK) --python-platform linux --python-version 3.14 --extra cli --constraint requirements.txt pyproject.toml \
		-o examples/container/requirements.txt

clean: ## Remove the files of runs and builds (.venv stays)
	rm -rf build cdk.out .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache spark-warehouse
	find . -name .venv -prune -o -type d -name __pycache__ -exec rm -rf {} +
