# Every target does its own set-up. `make` alone lists them.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMPS := $(VENV)/.stamps
KUBECTL ?= kubectl
# More than there are cores: many tests wait for a moment.
WORKERS := $(shell echo $$(( $$(nproc) * 3 / 2 )))
IMG ?= bursar:dev
PARTS ?= rbac controller policies
SKEW_TESTS := $(addprefix tests/integration/test_,$(addsuffix .py,aaq_arq_rows aaq_arq_scope_rows aaq_acrq_rows \
  aaq_mirror_rows kubernetes_versions webhook quota_resize peerpods peerpod_quota))
PIP := $(BIN)/python -m pip --disable-pip-version-check -q

# With this variable every process of the tests would compile all that it imports: a fifth of `make check`.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup run test test-skew test-aaq check fmt lint types imports pure bench explore fuzz histories cluster image load protocol field-types docs pages chart lock clean
.PHONY: deploy undeploy docker-build docker-push kind-cluster

help: ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  \1\t\2/' | expand -t 16

setup: $(STAMPS)/runtime ## Make .venv with the `bursar` command in .venv/bin

run: $(STAMPS)/runtime ## Show a living cluster in this terminal: the embedded one (q quits)
	$(BIN)/bursar up

test: $(STAMPS)/dev ## Everything CI runs: checks, coverage of core and wire, and the comparison with upstream Go
	$(MAKE) --no-print-directory lint
	$(BIN)/coverage erase
	$(BIN)/python tools/test_all.py
	$(BIN)/coverage report

test-skew: $(STAMPS)/dev ## Quotas, peer pods and resizes on older API servers (SKEW="1.32 1.34" builds them; default: emulated ones)
	@failed=; for version in $(or $(SKEW),emulated-1.34); do echo "Kubernetes $$version:"; \
	  BURSAR_KUBERNETES=$$version $(BIN)/python -m pytest -q -m integration $(SKEW_TESTS) || failed=1; \
	done; [ -z "$$failed" ]

test-aaq: $(STAMPS)/dev ## AAQ's own end-to-end tests on an installation by the operator (FOCUS=regex SKIP=regex GATE=policies); takes root
	$(BIN)/python tools/aaq_e2e.py $(if $(GATE),--gate $(GATE)) $(if $(FOCUS),--focus "$(FOCUS)") $(if $(SKIP),--skip "$(SKIP)")

check: $(STAMPS)/dev ## The quick subset: lint, types, imports, pure tests (no Go, no network)
	$(MAKE) --no-print-directory -j2 lint types imports pure

fmt: $(STAMPS)/dev ## Format and fix what can be fixed
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

lint: $(STAMPS)/dev ## ruff: format and rules
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(STAMPS)/dev ## mypy, strict
	$(BIN)/mypy

imports: $(STAMPS)/dev ## import-linter: the direction of dependencies
	PYTHONPATH=tools $(BIN)/lint-imports

pure: $(STAMPS)/dev ## Tests that need neither Go nor a cluster, nor long
	$(BIN)/python -m pytest -q -n $(WORKERS) --dist worksteal --hypothesis-profile=quick \
	  -m "not oracle and not integration and not slow"

bench: $(STAMPS)/dev ## Ratios measured in one run
	$(BIN)/python benchmarks/run.py

explore: $(STAMPS)/dev ## All tests that draw cases, with a new seed (SEED=number repeats one): `make test` has always the same cases
	seed=$(or $(SEED),$$RANDOM$$RANDOM); echo "SEED=$$seed"; BURSAR_SEED=$$seed \
	  $(BIN)/python -m pytest -q -m "hypothesis or seeded" --hypothesis-profile=explore --hypothesis-seed=$$seed

fuzz: $(STAMPS)/dev ## Five minutes of hostile annotations and frames at a real agent (FOR=5m SEED=1)
	$(BIN)/python tools/fuzz_agent.py --for $(or $(FOR),5m) --seed $(or $(SEED),1)

histories: $(STAMPS)/dev ## Random histories of a cluster with quotas and hostile tenants (COUNT=1000 SEED=1 STEPS=15 OF=controller)
	$(BIN)/python tools/quota_histories.py --count $(or $(COUNT),1000) --seed $(or $(SEED),1) $(if $(STEPS),--steps $(STEPS)) $(if $(OF),--of $(OF))

cluster: $(STAMPS)/dev ## Start a real control plane on this machine (Ctrl-C stops it); NODE=real: with real containers; NODE=vm: with those and cgroup v2
	$(BIN)/python tools/cluster.py $(if $(NODE),--node $(NODE))

image: $(STAMPS)/runtime ## An OCI image and its SBOM in dist/, without Docker or root (IMG=name:tag ARCH=arm64 OUT=folder)
	$(BIN)/python tools/image.py $(if $(IMG),--name $(IMG)) $(if $(ARCH),--arch $(ARCH)) $(if $(OUT),--out $(OUT))

load: image ## Build the image, and give it to the node of `make cluster NODE=real` (KUBECONFIG as printed there)
	$(BIN)/python tools/load.py $(if $(OUT),--out $(OUT))

protocol: $(STAMPS)/dev ## Compile the protocols of api/ afresh into src/bursar/wire
	$(BIN)/python tools/generate_protocol.py

field-types: $(STAMPS)/dev ## Write src/bursar/wire/validation/field_types.py afresh from upstream's OpenAPI
	$(BIN)/python tools/generate_field_types.py

docs: $(STAMPS)/dev ## Write the tables of docs/reference/metrics.md afresh from the list of metrics
	$(BIN)/python tools/generate_metrics_page.py

pages: $(STAMPS)/dev ## Write the stored help pages, completion data and the manual page afresh from the commands
	$(BIN)/python tools/generate_pages.py

recording: $(STAMPS)/dev ## Record the terminal that the README shows (takes a minute)
	$(BIN)/python tools/recording.py docs/images/first-minute.svg

chart: $(STAMPS)/dev ## Write the Helm chart and the kustomize base afresh from what `bursar manifests` prints
	$(BIN)/python tools/generate_chart.py

lock: $(STAMPS)/dev ## Resolve requirements/*.in afresh into hashed requirements/*.txt
	$(PIP) install uv
	cd requirements && for name in runtime build otel dev bench; do \
	  ../$(BIN)/uv pip compile -q --universal --python-version 3.11 --generate-hashes \
	    --no-emit-index-url --upgrade --custom-compile-command "make lock" $$name.in -o $$name.txt; done

deploy: $(STAMPS)/runtime ## Install on the cluster of your kubeconfig (IMG=registry/bursar:tag, PARTS="rbac ...")
	$(BIN)/bursar manifests crds $(PARTS) --image=$(IMG) | $(KUBECTL) apply --server-side --force-conflicts -f -
	@for each in $$($(KUBECTL) get deployments,daemonsets -n aaq -o name); do \
	  $(KUBECTL) rollout status -n aaq $$each --timeout=5m; done

undeploy: $(STAMPS)/runtime ## Release all waiting pods, then remove what deploy installed, except quotas
	$(BIN)/bursar release --all --yes --stop-gating
	$(BIN)/bursar manifests $(PARTS) | $(KUBECTL) delete --ignore-not-found -f -

docker-build: ## Build the image with Docker (IMG=registry/bursar:tag)
	docker build -t $(IMG) .

docker-push: ## Push the image with Docker (IMG=registry/bursar:tag)
	docker push $(IMG)

kind-cluster: ## Create a kind cluster with the name bursar
	kind create cluster --name bursar

clean: ## Remove what the targets above made in this folder
	rm -rf $(VENV) .coverage .mypy_cache .ruff_cache .hypothesis .import_linter_cache dist build

$(STAMPS)/venv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "bursar needs Python 3.11 or newer; set PYTHON=/path/to/python3" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) || \
	  { echo "'$(PYTHON) -m venv' failed; on Debian and Ubuntu: apt-get install python3-venv" >&2; exit 1; }
	@mkdir -p $(STAMPS) && touch $@

$(STAMPS)/runtime: $(STAMPS)/venv requirements/runtime.txt requirements/build.txt pyproject.toml
	@echo "setting up $(VENV) ..." >&2
	@$(PIP) install --require-hashes -r requirements/build.txt -r requirements/runtime.txt
	@$(PIP) install --no-deps --no-build-isolation -e .
	@touch $@

$(STAMPS)/dev: $(STAMPS)/runtime requirements/dev.txt
	@echo "adding the development tools ..." >&2
	@$(PIP) install --no-compile --require-hashes -r requirements/dev.txt
	@touch $@
