# All commands for developers. CI calls only these targets. No target needs an activated environment.

# uv creates the environment from uv.lock. If uv is not on PATH, pip installs it in .uv/; nothing outside this folder changes.
UV := $(or $(shell command -v uv 2>/dev/null),.uv/bin/uv)
PYTHON ?= python3
BIN := .venv/bin

# Use only a Python that is already installed.
export UV_PYTHON_DOWNLOADS := never
export UV_NO_PROGRESS := 1
# A test run starts hundreds of Python processes. Without bytecode files, each one compiles all modules that it imports.
unexport PYTHONDONTWRITEBYTECODE
# Disables the notice of Material for MkDocs about its successor (see pyproject.toml).
export NO_MKDOCS_2_WARNING := 1
# Use the certificates of the system if there are any, because corporate proxies have their own authority.
ifneq ($(wildcard /etc/ssl/certs/ca-certificates.crt /etc/pki/tls/certs/ca-bundle.crt /etc/ssl/cert.pem),)
export UV_SYSTEM_CERTS := 1
endif

TYPED := proto core operator cli tools tests $(wildcard devcluster benchmarks)
PROTOS := $(sort $(wildcard proto/muster_si/*.proto))
# More processes than cores: end-to-end tests wait more than they compute. With four, one of them runs the other tests.
PYTEST = $(BIN)/pytest -n $(PROCESSES) $(ARGS)
PROCESSES = 3
test: PROCESSES = 4

.DEFAULT_GOAL := help
.PHONY: help setup browser check .types .tree test test-py e2e e2e-all e2e-kind e2e-frameworks attacks soak chaos bench simulate-bench decisions demo image docs proto diagrams manifests chart krew changelog release-facts

##@ Start
setup: .venv/.ready browser ## create the environment in .venv (from uv.lock; installs uv and Chromium if they are missing)

demo: setup ## run two gangs on a local cluster (KEEP=1 keeps the cluster)
	$(BIN)/python -m devcluster.demo $(ARGS)

test: check ## run the checks and all tests (end-to-end tests on a local control plane; ARGS="-k name" selects tests; ARGS="-n0 --pdb" uses one process)
	$(BIN)/python -m devcluster build
	$(PYTEST) --ignore tests/unit/repo tests/unit tests/browser tests/conformance tests/install tests/e2e tests/attacks

# `## text (options)` of a target, without the options; `##@ heading` begins a group.
help: ## print this help
	@awk -F ':.*## ' '/^##@ / { print "\n" substr($$0, 5) } /^[a-z0-9-]+:.*## / { sub(/ \(.*/, "", $$2); printf "  make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo; echo "The options of a target are after its description in the Makefile."

##@ Check and test
.venv/.ready: pyproject.toml uv.lock | $(UV)
	$(UV) sync --frozen --quiet --extra tracing --extra mcp
	@touch $@

# Only the tests of the web UI need a browser. Without one they are skipped.
browser: ## install Chromium for the web UI tests if it is missing (part of setup; with apt-get, only as root)
	@for name in chromium chromium-browser google-chrome; do command -v $$name > /dev/null && exit 0; done; \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get > /dev/null; then \
	    install="apt-get install -qq --no-install-recommends -y chromium fonts-dejavu-core"; \
	    { $$install || { apt-get update -qq && $$install; }; } > /dev/null 2>&1 && exit 0; \
	  fi; \
	  echo "Chromium is missing and could not be installed: install the package chromium for the tests of the web UI" >&2

.uv/bin/uv:
	PIP_USER=0 $(PYTHON) -m pip install --quiet --disable-pip-version-check --root-user-action=ignore --target .uv 'uv>=0.13,<1'

# The environment of `setup` with the packages for charts or for the site. Neither removes the other's packages.
.venv/.bench: .venv/.ready
	$(UV) sync --frozen --quiet --inexact --group bench
	@touch $@

.venv/.docs: .venv/.ready
	$(UV) sync --frozen --quiet --inexact --group docs
	@touch $@

check: setup .venv/.docs ## check style, types, layers, generated files and documents
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	@$(MAKE) --no-print-directory --jobs 2 .types .tree

.types:
	$(BIN)/mypy $(TYPED)

.tree:
	$(BIN)/lint-imports --no-logo
	$(BIN)/python -m tools.proto --check
	$(BIN)/python -m tools.workflows
	$(BIN)/pytest -q -n 2 tests/unit/repo
	$(BIN)/python -m mkdocs build --strict --quiet

test-py: setup | $(UV) ## run unit and contract tests on each installed CPython (from 3.11, in separate environments; PYTHONS="3.12 3.13" selects versions; ARGS as for test)
	$(BIN)/python -m tools.pythons --uv $(UV) $(foreach version,$(PYTHONS),--python $(version)) $(ARGS)

e2e: setup ## run only the end-to-end tests (ARGS as for test)
	$(BIN)/python -m devcluster build
	$(PYTEST) tests/e2e

e2e-all: setup ## run the end-to-end tests, gangs in all placements (ARGS as for test)
	$(BIN)/python -m devcluster build
	$(PYTEST) tests/e2e
	MUSTER_GANG_PLACEMENT=Reserve $(PYTEST) -m gangs tests/e2e
	MUSTER_GANG_PLACEMENT=Direct $(PYTEST) -m gangs tests/e2e

e2e-kind: setup ## test image, chart and gangs on a kind cluster (KIND_CLUSTER_NAME uses an existing cluster; KIND_NODE_IMAGE, BASE, KEEP=1, ARGS)
	$(BIN)/python -m tools.on_kind $(ARGS)

e2e-frameworks: setup ## test with the real controllers of frameworks (builds them first; ARGS as for test)
	$(BIN)/python -m devcluster build --frameworks
	$(BIN)/pytest -n 0 $(ARGS) tests/frameworks

attacks: setup ## run attacks on other tenants at full size (ARGS as for test)
	$(BIN)/python -m devcluster build
	MUSTER_ATTACKS=full $(PYTEST) -n 0 tests/attacks

soak: setup ## run all random tests of core and placement (EVENTS=100000 PAIRS=20000 SEED=7; CLOCK=1 limits cycles by real time)
	$(BIN)/python -m tools.soak --events $(or $(EVENTS),100000) $(if $(SEED),--seed $(SEED)) $(if $(CLOCK),--clock)
	$(BIN)/python -m tools.soak_placement --pairs $(or $(PAIRS),20000) $(if $(SEED),--seed $(SEED))
	MUSTER_TESTS=thorough $(BIN)/pytest -n 2 --timeout 1800 -m "thorough or hypothesis" $(ARGS) tests/unit

chaos: setup ## inject faults, kill processes, and check the pods (N=200 SEED=7 OPERATORS=2 KEEP=folder)
	$(BIN)/python -m devcluster build
	MUSTER_FAULTS=full $(BIN)/pytest -n 0 -s tests/e2e/faults/test_each_request.py
	$(BIN)/python -m tools.chaos --episodes $(or $(N),200) $(if $(SEED),--seed $(SEED)) $(if $(OPERATORS),--operators $(OPERATORS)) $(if $(KEEP),--keep $(KEEP))

##@ Measure
bench: .venv/.bench ## run the benchmarks against other schedulers (ARGS="--quick core" selects benchmarks)
	$(BIN)/python -m benchmarks $(ARGS)

simulate-bench: setup ## measure simulator and estimates with traces (TRACES=folder, ARGS="philly hpc2n openb calibration latency"; 30 minutes: ARGS=live)
	$(BIN)/python -m benchmarks.simulation $(ARGS)

decisions: setup ## replay histories and show decisions that differ (ARGS="--compare main HEAD", ARGS=--store accepts them)
	$(BIN)/python -m tools.decisions $(ARGS)

##@ Build and generate
# BASE: base image; IMAGE: name and tag. Behind a proxy with its own certificate authority, BASE must trust that authority.
ENGINE := $(firstword $(foreach program,docker podman,$(if $(shell command -v $(program) 2>/dev/null),$(program))))
IMAGE ?= muster:dev
image: ## build the container image with docker or podman (IMAGE=muster:dev BASE=python:3.12-slim)
	@test -n "$(ENGINE)" || { echo "make image needs docker or podman: neither is on PATH, install one of them" >&2; exit 1; }
	$(ENGINE) build --tag $(IMAGE) $(if $(BASE),--build-arg BASE=$(BASE)) \
	  --build-arg VERSION=$(shell sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml) \
	  --build-arg REVISION=$(shell git rev-parse HEAD 2>/dev/null || echo unknown) \
	  --build-arg CREATED=$(or $(shell git log -1 --format=%cI 2>/dev/null),$(shell date -u +%Y-%m-%dT%H:%M:%SZ)) .

docs: .venv/.docs ## build the documentation site in build/site (SERVE=127.0.0.1:8000 serves it and rebuilds it on changes)
	$(BIN)/python -m mkdocs $(if $(SERVE),serve --strict --dev-addr $(SERVE),build --strict --quiet && echo "build/site/index.html")

proto: setup ## generate the message classes of proto/muster_si/*.proto
	$(BIN)/python -m tools.proto

diagrams: setup ## generate tables and pictures of the docs from the code (also openapi.json, deploy/webhooks.yaml and files of the chart)
	$(BIN)/python -m tools.diagrams
	$(BIN)/python -m tools.compatibility
	$(BIN)/python -m tools.openapi
	$(BIN)/python -m tools.webhooks > deploy/webhooks.yaml
	$(BIN)/python -m tools.settings
	$(BIN)/python -m tools.queues
	$(BIN)/python -m tools.metrics
	$(BIN)/python -m tools.events
	$(BIN)/python -m tools.commands
	$(BIN)/python -m tools.chart

manifests: setup ## render deploy/base and deploy/overlays from the chart
	$(BIN)/python -m tools.manifests

chart: setup ## lint the chart and package it in build/chart (PUSH=oci://registry/path pushes it, with IMAGE=registry/name as its default image)
	$(BIN)/python -m tools.package $(if $(PUSH),--push $(PUSH) --image $(IMAGE))

krew: setup ## package the kubectl plug-in in build/krew (URL=https://host/folder is where its archive will be)
	$(BIN)/python -m tools.krew $(if $(URL),--url $(URL))

changelog: setup ## show the change notes of the next release (VERSION=0.1.0 moves them to CHANGELOG.md)
	$(BIN)/towncrier build $(if $(VERSION),--yes --version $(VERSION),--draft --version unreleased)

release-facts: setup ## check and print the version and tags of a release (TAG=v0.1.0)
	@$(BIN)/python -m tools.release $(TAG)
