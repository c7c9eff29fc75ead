# The whole interface of a developer; CI calls nothing else. Nothing needs an activated environment.

# uv makes the environment from uv.lock. Where it is missing, pip puts it into .uv/ (nothing outside this folder changes).
UV := $(or $(shell command -v uv 2>/dev/null),.uv/bin/uv)
PYTHON ?= python3
BIN := .venv/bin

# Only a Python that is already on the machine.
export UV_PYTHON_DOWNLOADS := never
export UV_NO_PROGRESS := 1
# A test run starts hundreds of Python processes. Without bytecode files each compiles every module that it imports.
unexport PYTHONDONTWRITEBYTECODE
# Material tells at each build that its successor is there (pyproject.toml has what we make of that).
export NO_MKDOCS_2_WARNING := 1
# Trust what the machine trusts, where it says so: company proxies have certificates of their own.
ifneq ($(wildcard /etc/ssl/certs/ca-certificates.crt /etc/pki/tls/certs/ca-bundle.crt /etc/ssl/cert.pem),)
export UV_SYSTEM_CERTS := 1
endif

TYPED := proto core operator cli tools tests $(wildcard devcluster benchmarks)
PROTOS := $(sort $(wildcard proto/muster_si/*.proto))
PYTEST := $(BIN)/pytest -n 3 $(ARGS)

.DEFAULT_GOAL := help
.PHONY: help setup check test test-py e2e e2e-all e2e-kind e2e-frameworks attacks soak chaos bench demo image docs proto diagrams manifests chart changelog release-facts

help: ## print this help
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: .venv/.ready ## make the environment in .venv from uv.lock (gets uv itself if it is missing)

.venv/.ready: pyproject.toml uv.lock | $(UV)
	$(UV) sync --frozen --quiet --extra tracing
	@touch $@

.uv/bin/uv:
	PIP_USER=0 $(PYTHON) -m pip install --quiet --disable-pip-version-check --root-user-action=ignore --target .uv 'uv>=0.13,<1'

# The environment of `setup` and what draws charts, or makes the site; neither takes away the other.
.venv/.bench: .venv/.ready
	$(UV) sync --frozen --quiet --inexact --group bench
	@touch $@

.venv/.docs: .venv/.ready
	$(UV) sync --frozen --quiet --inexact --group docs
	@touch $@

check: setup .venv/.docs ## style, format, types, layers, generated code, documents, and the tests of the repository itself
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy $(TYPED)
	$(BIN)/lint-imports --no-logo
	$(BIN)/python -m tools.proto --check
	$(BIN)/python -m tools.workflows
	$(BIN)/pytest -q -n 2 tests/unit/repo
	$(BIN)/python -m mkdocs build --strict --quiet

test: check ## the checks, then all tests: units in seconds, end to end on a local control plane (ARGS="-k name" chooses; ARGS="-n0 --pdb" stays in one process)
	$(BIN)/python -m devcluster build
	$(PYTEST) --ignore tests/unit/repo tests/unit tests/conformance tests/install tests/e2e tests/attacks

test-py: setup | $(UV) ## unit and contract tests on every CPython from 3.11 up that is here, each in an environment of its own (PYTHONS="3.12 3.13" chooses; ARGS as for test)
	$(BIN)/python -m tools.pythons --uv $(UV) $(foreach version,$(PYTHONS),--python $(version)) $(ARGS)

e2e: setup ## only the end-to-end tests
	$(BIN)/python -m devcluster build
	$(PYTEST) tests/e2e

e2e-all: setup ## the end-to-end tests with the placement Auto, then those of gangs with Reserve, Atomic and Direct (ARGS as for test)
	$(BIN)/python -m devcluster build
	$(PYTEST) tests/e2e
	MUSTER_GANG_PLACEMENT=Reserve $(PYTEST) -m gangs tests/e2e
	MUSTER_GANG_PLACEMENT=Atomic $(PYTEST) -m gangs tests/e2e
	MUSTER_GANG_PLACEMENT=Direct $(PYTEST) -m gangs tests/e2e

e2e-kind: setup ## image, chart and gangs on a kind cluster with real kubelets (KIND_CLUSTER_NAME uses one that is there, KIND_NODE_IMAGE, BASE, KEEP=1, ARGS)
	$(BIN)/python -m tools.on_kind $(ARGS)

e2e-frameworks: setup ## the real controllers of Spark, Ray, Kubeflow, JobSet and others with Muster on a local control plane; builds them first (ARGS as for test)
	$(BIN)/python -m devcluster build --frameworks
	$(BIN)/pytest -n 0 $(ARGS) tests/frameworks

attacks: setup ## what a namespace user can do to the others, at full size (ARGS as for test)
	$(BIN)/python -m devcluster build
	MUSTER_ATTACKS=full $(PYTEST) -n 0 tests/attacks

soak: setup ## random events against the core's invariants, random pods against kube-scheduler's plugins, then all of the unit tests of which `make test` runs a part (EVENTS=100000 PAIRS=20000 SEED=7, CLOCK=1 for cycles by the real clock; what breaks is shrunk and printed)
	$(BIN)/python -m tools.soak --events $(or $(EVENTS),100000) $(if $(SEED),--seed $(SEED)) $(if $(CLOCK),--clock)
	$(BIN)/python -m tools.soak_placement --pairs $(or $(PAIRS),20000) $(if $(SEED),--seed $(SEED))
	MUSTER_TESTS=thorough $(BIN)/pytest -n 2 --timeout 1800 -m "thorough or hypothesis" $(ARGS) tests/unit

chaos: setup ## kills and faults under load, then look for what was lost, leaked or doubled (N=200 SEED=7 OPERATORS=2 KEEP=folder)
	$(BIN)/python -m devcluster build
	$(BIN)/python -m tools.chaos --episodes $(or $(N),200) $(if $(SEED),--seed $(SEED)) $(if $(OPERATORS),--operators $(OPERATORS)) $(if $(KEEP),--keep $(KEEP))

bench: .venv/.bench ## measure, and show the numbers of kube-scheduler and YuniKorn beside ours (ARGS="--quick core" chooses)
	$(BIN)/python -m benchmarks $(ARGS)

demo: setup ## a gang on a local cluster: placeholder, replace, release (KEEP=1 leaves the cluster up)
	$(BIN)/python -m devcluster.demo $(ARGS)

# BASE=another base image, IMAGE=name:tag. Behind a proxy with its own authority hand over a BASE that trusts it.
ENGINE := $(firstword $(foreach program,docker podman,$(if $(shell command -v $(program) 2>/dev/null),$(program))))
IMAGE ?= muster:dev
image: ## build the container image with docker or podman (IMAGE=muster:dev BASE=python:3.12-slim)
	@test -n "$(ENGINE)" || { echo "make image needs docker or podman, and found neither on PATH" >&2; exit 1; }
	$(ENGINE) build --tag $(IMAGE) $(if $(BASE),--build-arg BASE=$(BASE)) \
	  --build-arg VERSION=$(shell sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml) \
	  --build-arg REVISION=$(shell git rev-parse HEAD 2>/dev/null || echo unknown) \
	  --build-arg CREATED=$(or $(shell git log -1 --format=%cI 2>/dev/null),$(shell date -u +%Y-%m-%dT%H:%M:%SZ)) .

docs: .venv/.docs ## make a site of the documents in build/site, without a network (SERVE=127.0.0.1:8000 shows it, and renews it as you write)
	$(BIN)/python -m mkdocs $(if $(SERVE),serve --strict --dev-addr $(SERVE),build --strict --quiet && echo "build/site/index.html")

proto: setup ## generate the message classes of proto/muster_si/*.proto
	$(BIN)/python -m tools.proto

diagrams: setup ## write what is made of the code: states/, pictures/, openapi.json and tables in docs/, deploy/webhooks.yaml, what the chart copies
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

manifests: setup ## render deploy/base and deploy/overlays from the chart, for kubectl apply -k
	$(BIN)/python -m tools.manifests

chart: setup ## lint the chart and package it into build/chart (PUSH=oci://registry/path sends it, with IMAGE=registry/name as its default image)
	$(BIN)/python -m tools.package $(if $(PUSH),--push $(PUSH) --image $(IMAGE))

changelog: setup ## show what changelog.d says of the next release (VERSION=0.1.0 moves it into CHANGELOG.md)
	$(BIN)/towncrier build $(if $(VERSION),--yes --version $(VERSION),--draft --version unreleased)

release-facts: setup ## what a release is called, once every place that has the version agrees (TAG=v0.1.0)
	@$(BIN)/python -m tools.release $(TAG)
