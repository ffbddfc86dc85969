# Every command a contributor types. Nothing but Python 3.11 or newer, make and a shell has to be installed:
# each target first makes .venv complete (minutes the first time, no time after that).

PYTHON ?= python3
ARGS ?=
STAMP := .venv/.complete

export PYTHON
export PATH := $(CURDIR)/.venv/bin:$(PATH)

.DEFAULT_GOAL := help
.PHONY: help setup demo local cdk synth test screenshots bench check docs format lock clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(STAMP): requirements.txt .ci/set-up .ci/browser/package-lock.json
	@.ci/set-up

setup: $(STAMP) ## Make .venv complete: packages, Java, Node.js, the cdk command, a browser for tests

demo: $(STAMP) ## Run it all on this machine and write a report (ARGS="--customers 20000")
	python -m local demo $(ARGS)

local: $(STAMP) ## Keep AWS running on this machine for experiments (ARGS="--port 4566 --json")
	python -m local up $(ARGS)

cdk: $(STAMP) ## Run the AWS CDK command (ARGS="deploy", ARGS="diff", ...)
	cdk $(ARGS)

synth: $(STAMP) ## Synthesise the CloudFormation template into cdk.out
	cdk synth --quiet $(ARGS)

test: $(STAMP) ## Run the tests (ARGS="tests/unit -k priority")
	python -m pytest $(ARGS)

bench: $(STAMP) ## Run all benchmarks into build/bench and docs/benchmarks.md (ARGS="--quick")
	python -m benchmarks.all $(ARGS)

screenshots: $(STAMP) ## Renew the pictures of the page in the docs
	python -m pytest tests/ui/test_screenshots.py --renew-screenshots $(ARGS)

check: $(STAMP) ## Lint, types, walls between packages, pins
	ruff check .
	ruff format --check .
	mypy
	lint-imports
	.ci/pins-in-step

docs: $(STAMP) ## Build the documentation as a site into build/docs, without a network
	python -m sphinx --quiet --fresh-env --fail-on-warning --keep-going -d build/doctrees docs build/docs $(ARGS)
	@echo "build/docs/index.html"

format: $(STAMP) ## Format the code and mend what the linter can
	ruff check --fix-only .
	ruff format .

lock: $(STAMP) ## Compile requirements.in into requirements.txt
	uv pip compile --universal --python-version 3.11 --no-header --quiet $(ARGS) requirements.in -o requirements.txt

clean: ## Remove what runs and builds leave behind (.venv stays)
	rm -rf build cdk.out .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache spark-warehouse
	find . -name .venv -prune -o -type d -name __pycache__ -exec rm -rf {} +
