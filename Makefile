# Three commands matter: `make demo`, `make check` while you work, `make test` before a change lands. Each sets up what it needs.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
# Three test processes, each with a control plane and a lab of its own, because most tests wait for daemons. All tests of
# a file run in one process; files start in the order of the command line.
PARALLEL  := -n 4 --dist loadfile --no-loadscope-reorder
DURATIONS := --durations=25 --durations-min=1
# A unit test that takes a minute hangs; the limit of the other tests is in pyproject.toml, as is the coverage floor.
UNIT      := -n 2 --timeout=60 --cov --cov-report=
STAMP  := $(VENV)/.ready-$(shell cat requirements/dev.txt pyproject.toml | sha256sum | cut -c1-16)

DOCS   := $(VENV)/.docs-$(shell sha256sum < requirements/docs.txt | cut -c1-16)

.DEFAULT_GOAL := help
.PHONY: help setup demo demo-down check test lint types unit integration chart e2e e2e-vm e2e-failure e2e-jobs e2e-users upgrade-test lock format generate bench-core bench-lab bench-operator bench-bridge bench-forecast bench-autoscaler bench-exporter chaos clean audit docs

help: ## Show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

setup: $(STAMP) ## Create .venv with the pinned tools

$(STAMP): requirements/dev.txt pyproject.toml
	@echo "==> Python environment in $(VENV)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.txt
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@rm -f $(VENV)/.ready-* && touch $@

demo: setup ## A real Kubernetes and a real Slurm with work in them
	@$(BIN)/slinky demo

demo-down: setup ## Remove every trace of the demo
	@$(BIN)/slinky lab down --name demo

check: lint types unit ## Style, types and unit tests

lint: setup ## Style, spelling, import layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/codespell
	$(BIN)/lint-imports

types: setup ## mypy, strict
	$(BIN)/mypy

unit: setup ## Pure tests with the coverage floor
	$(BIN)/pytest $(UNIT) tests/unit

integration: setup ## Tests on a real API server and a real Slurm
	$(BIN)/slinky lab prepare
	$(BIN)/pytest $(PARALLEL) $(DURATIONS) tests/integration

e2e: setup ## Tests on real nodes with real containers
	$(BIN)/slinky lab prepare
	$(BIN)/pytest $(PARALLEL) $(DURATIONS) tests/e2e/operator tests/e2e/bridge tests/e2e/lab

e2e-vm: setup ## Tests of confinement on a node with cgroup version 2, in a virtual machine
	$(BIN)/slinky lab prepare --vms
	$(BIN)/pytest $(DURATIONS) tests/e2e/vm

upgrade-test: setup ## Upgrade of a cluster from an earlier release of Slurm while a job runs, and restore of its backup
	$(BIN)/slinky lab prepare --earlier
	$(BIN)/pytest $(DURATIONS) tests/e2e/upgrade

e2e-jobs: setup ## GPUs, MPI and OCI containers with a site's own image of slurmd
	$(BIN)/slinky lab prepare
	$(BIN)/pytest $(DURATIONS) tests/e2e/jobs

e2e-users: setup ## Users of an LDAP server: login by ssh with keys from there, home directories, jobs
	$(BIN)/slinky lab prepare
	$(BIN)/pytest $(DURATIONS) tests/e2e/users

e2e-failure: setup ## A node that crashes, is cut off and is replaced while jobs run
	$(BIN)/slinky lab prepare
	$(BIN)/pytest $(DURATIONS) tests/e2e/failure

chaos: setup ## Twenty long seeds of the bridge's randomized test, each with every fault (an hour)
	$(BIN)/slinky lab prepare
	SLINKY_SEEDS=20 $(BIN)/pytest -n 2 $(DURATIONS) tests/integration/bridge/test_chaos.py

.PHONY: docs-test
docs-test: setup ## Run the commands of the documentation on a real cluster, as a reader follows them (five minutes)
	$(BIN)/slinky lab prepare
	$(BIN)/pytest $(DURATIONS) tests/docs

.PHONY: readme-test
readme-test: setup ## Follow the README in a fresh clone with an empty home folder and a cache of its own (ten minutes)
	$(BIN)/slinky lab prepare
	$(BIN)/pytest $(DURATIONS) tests/readme

.PHONY: compat compat-host compat-arm64
COMPAT ?= 1.33 1.35 1.37
compat: setup ## Integration tests on API servers of other Kubernetes versions; COMPAT=1.35 chooses; writes the table of docs/versions.md (half an hour)
	$(BIN)/slinky lab prepare $(COMPAT:%=--api-server %)
	$(BIN)/python -m tests.compat.api_servers $(COMPAT)

.PHONY: e2e-cert-manager
e2e-cert-manager: setup ## The certificates of both webhooks from the real cert-manager, which is built on demand
	$(BIN)/slinky lab prepare
	$(BIN)/python -m tests.support.cert_manager
	$(BIN)/pytest $(DURATIONS) tests/compat/test_cert_manager.py

compat-host: setup ## The lab on a machine with systemd and cgroup version 2 only, in QEMU (without KVM half an hour)
	$(BIN)/slinky lab prepare --vms
	$(BIN)/pytest -s $(DURATIONS) tests/compat/test_host.py

compat-arm64: setup ## Build the images for arm64 too, under QEMU, push both platforms to a registry, and start their programs (half an hour)
	$(BIN)/slinky lab prepare
	$(BIN)/pytest -s $(DURATIONS) tests/compat/test_arm64.py

chart: setup ## Tests of the charts with the real helm
	$(BIN)/slinky lab prepare
	$(BIN)/pytest $(PARALLEL) tests/chart

test: check ## Set up everything and run every check; ends with the slowest tests
	$(BIN)/slinky lab prepare --vms
	$(BIN)/pytest $(PARALLEL) $(DURATIONS) tests/e2e/vm/test_confinement.py tests/e2e/operator tests/e2e/bridge tests/e2e/lab tests/integration tests/chart

format: setup ## Format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

lock: ## Pin every dependency with hashes
	$(BIN)/uv pip compile -q pyproject.toml --generate-hashes --universal --no-strip-extras --no-emit-index-url --custom-compile-command 'make lock' -o requirements/runtime.txt
	$(BIN)/uv pip compile -q pyproject.toml --extra dev --generate-hashes --universal --no-strip-extras --no-emit-index-url --custom-compile-command 'make lock' -c requirements/runtime.txt -o requirements/dev.txt
	$(BIN)/uv pip compile -q pyproject.toml --extra docs --generate-hashes --universal --no-strip-extras --no-emit-index-url --custom-compile-command 'make lock' -c requirements/dev.txt -o requirements/docs.txt
	$(BIN)/uv pip compile -q pyproject.toml --extra top --generate-hashes --universal --no-strip-extras --no-emit-index-url --custom-compile-command 'make lock' -c requirements/dev.txt -o requirements/top.txt
	echo 'atheris>=3' | $(BIN)/uv pip compile -q - --generate-hashes --universal --no-annotate --no-emit-index-url --custom-compile-command 'make lock' -o requirements/fuzz.txt

generate: setup ## Write what is generated: definitions, value schemas, API reference
	$(BIN)/python -m charts.generate
	$(BIN)/python -m slinky.api.reference docs/reference
	$(BIN)/python -m slinky.webhook.reference docs/operator/admission.md
	$(BIN)/python -m slinky.bridge.reference docs/bridge
	$(BIN)/python -m tests.unit.bridge.failures docs/bridge/failures.md
	$(BIN)/python -m slinky.slurm.reference docs/slurm-client.md
	$(BIN)/python -m slinky.exporter.reference docs/exporter.md
	$(BIN)/python -m slinky.bounds docs/bounds.md
	$(BIN)/python -m docs.site.troubleshooting docs/troubleshooting.md
	$(BIN)/python -m docs.site.pictures docs/pictures
	$(BIN)/python -m docs.site.commands docs/tools/commands.md

docs: setup $(DOCS) ## The documentation as a site in build/docs/site: searchable, works without a network; checks links and headings
	$(BIN)/python -m docs.site build/docs

$(DOCS): requirements/docs.txt | setup
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/docs.txt
	@rm -f $(VENV)/.docs-* && touch $@

.PHONY: fuzz
FUZZ_SECONDS ?= 60
FUZZ_JOBS ?= $(shell nproc)
fuzz: setup ## A minute of coverage-guided fuzzing for each parser (half an hour on two cores); FUZZ_SECONDS sets another time
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/fuzz.txt
	@mkdir -p build/fuzz; $(BIN)/python -m tests.fuzz --list | tr '\n' '\0' | xargs -0 -P $(FUZZ_JOBS) -I{} sh -c 'echo "==> {}"; \
		$(BIN)/python -m tests.fuzz "{}" -max_total_time=$(FUZZ_SECONDS) -rss_limit_mb=1024 -timeout=20 -verbosity=0 \
		-artifact_prefix=build/fuzz/ </dev/null || { echo "==> {} failed"; exit 1; }'

.PHONY: hostile
hostile: setup ## Ten minutes of hostile objects, requests and answers against all running processes
	$(BIN)/slinky lab prepare
	SLINKY_HOSTILE_SECONDS=600 $(BIN)/pytest -s --timeout=1200 tests/integration/bridge/hostile

audit: setup ## Compare the packages of the images with their lock files, write SBOMs, ask for known vulnerabilities
	$(BIN)/slinky lab prepare
	$(BIN)/python -m slinky.lab.prepare.audit

IMAGES ?= build/images.yaml
CHARTS ?= build/charts
.PHONY: images charts release sign registry-test
images: setup ## Build the images; REGISTRY=host/path PUSH=1 pushes them (also TAG, PLATFORMS, CA, AUTHFILE)
	$(BIN)/python -m slinky.lab.prepare.publish --registry '$(REGISTRY)' --tag '$(TAG)' --platforms '$(PLATFORMS)' \
	  --ca '$(CA)' --authfile '$(AUTHFILE)' --output '$(IMAGES)' $(if $(filter 1,$(PUSH)),--push)

charts: setup ## Package the charts with the digests that `make images` has written
	$(BIN)/python -m charts.package --images '$(IMAGES)' --output '$(CHARTS)'

release: setup ## Everything that a release publishes: VERSION=x.y.z (also URL, ARCHIVES=1, COSIGN_KEY)
	$(BIN)/python -m release.kit --version '$(VERSION)' --images '$(IMAGES)' $(if $(URL),--url '$(URL)') $(if $(filter 1,$(ARCHIVES)),--archives) \
	  $(if $(COSIGN_KEY),--key '$(COSIGN_KEY)')

sign: setup ## Sign the images and charts in the registry: COSIGN_KEY=... (also IMAGES, CA, AUTHFILE)
	$(BIN)/python -m release.signing --key '$(COSIGN_KEY)' --images '$(IMAGES)' --ca '$(CA)' --authfile '$(AUTHFILE)'

registry-test: setup ## The documented installation from a real registry, with TLS and a login, and the kubectl plugin (five minutes)
	$(BIN)/slinky lab prepare
	$(BIN)/pytest $(DURATIONS) tests/e2e/registry tests/e2e/release

bench-core: setup ## Speed and size of the two libraries, on the real daemons
	$(BIN)/slinky lab prepare
	@status=0; $(BIN)/python -m bench.core_kube || status=1; $(BIN)/python -m bench.core_slurm || status=1; exit $$status

bench-operator: setup ## Every promise of docs/operator/performance.md (half an hour)
	$(BIN)/slinky lab prepare
	$(BIN)/python -m bench.operator

bench-bridge: setup ## Every promise of docs/bridge/performance.md; BENCH="--help" shows how to choose parts and sizes
	$(BIN)/slinky lab prepare
	$(BIN)/python -m bench.bridge $(BENCH)

bench-autoscaler: setup ## CPU time of the demand of 10,000 jobs, and how soon a worker follows a job beside 1,000 others (five minutes)
	$(BIN)/slinky lab prepare
	$(BIN)/python -m bench.autoscaler $(BENCH)

bench-exporter: setup ## The exporter at 10,000 jobs and 5,000 nodes: every promise of docs/observe.md (half an hour)
	$(BIN)/slinky lab prepare
	$(BIN)/python -m bench.exporter

bench-forecast: setup ## Speed of a forecast of 10,000 jobs, and its accuracy on generated days (table and plot; a minute); BENCH="--swf FILE"
	@status=0; $(BIN)/python -m bench.forecast || status=1; $(BIN)/python -m bench.forecast_days $(BENCH) || status=1; exit $$status

.PHONY: bench-forecast-slurmctld
bench-forecast-slurmctld: setup ## The same accuracy on days that a real slurmctld schedules, with a faked clock (at most eight minutes)
	$(BIN)/slinky lab prepare
	$(BIN)/python -m bench.forecast_slurmctld $(BENCH)

.PHONY: web-test
web-test: setup ## The page in a real headless browser: both themes, keyboard, narrow screens, axe-core
	$(BIN)/slinky lab prepare
	$(BIN)/pytest $(DURATIONS) tests/web

.PHONY: bench-people
bench-people: setup ## Page and command at 10,000 pending jobs and 5,000 nodes: first bytes, 200 open pages, explain, start-up (two minutes)
	$(BIN)/python -m bench.people

.PHONY: bench-presets
bench-presets: setup ## What the parameters of the presets buy, on a real slurmctld; writes the table of docs/operator/presets.md (ten minutes)
	$(BIN)/slinky lab prepare
	$(BIN)/python -m bench.presets

bench-lab: setup ## How long a warm lab takes to come up
	$(BIN)/python -m bench.lab

clean: ## Remove the Python environment and caches of tools
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache .coverage .coverage.*
