# SPDX-License-Identifier: Apache-2.0
# What is tested, in tiers, and the demo. `make test` is what CI runs.

operator_image := $(SPATE_CACHE)/images/operator.tar
engine_image := $(SPATE_CACHE)/images/engine.tar
in_cluster := e2e/cluster/in
suites := $(SPATE_CACHE)/e2e/suites.test
suites_log := $(SPATE_CACHE)/e2e/suites.log

# Seconds that `make test` fuzzes each target for; what is found in longer runs is kept as a seed.
FUZZ_IN_TEST := 5

##@ Start here
.PHONY: demo test
demo: deps images cluster-up $(PEER_IMAGE) ## Run IMIX, a web site, a real nginx and a real curl through a router in a real cluster and judge them (KEEP=1 leaves it running)
	@e2e/install $(operator_image) $(engine_image)
	@e2e/cluster/load $(PEER_IMAGE) >/dev/null
	@$(in_cluster) e2e/demo/run || { status=$$?; [ -n "$${KEEP:-}" ] || e2e/cluster/down; exit $$status; }
	@if [ -n "$${KEEP:-}" ]; then e2e/demo/look; else e2e/cluster/down; fi

test: deps ## Run all that CI runs: lint, unit tests, envtest, short fuzzing, instructions per packet, a NIC's driver, the suites in the real cluster
	@$(MAKE) --no-print-directory lint
	@$(MAKE) --no-print-directory unit
	@# What keeps one core busy for minutes, two at a time: fuzzing, and linking for speed.
	@$(MAKE) --no-print-directory --jobs 2 --output-sync=line fuzz bench-program images FUZZ=$(FUZZ_IN_TEST)
	@$(MAKE) --no-print-directory bench-instructions
	@$(MAKE) --no-print-directory nic
	@$(MAKE) --no-print-directory e2e

##@ Tests
PEERS_CONNECTIONS ?= 10000
PEERS_ROUNDS ?= 5
PEERS_SEED ?= 1

.PHONY: lint lint-shell lint-yaml lint-chart lint-alerts lint-e2e unit nic e2e peers
lint: engine-lint operator-lint verify-generated lint-shell lint-yaml lint-chart lint-alerts lint-e2e ## Check style and that generated files are current

shell_scripts = $(shell git ls-files --cached --others --exclude-standard -- e2e build .ci | xargs -r grep -lE -m1 '^\#!.*(ba)?sh$$')
lint-shell:
	@echo "lint: shellcheck"
	@shellcheck -x $(shell_scripts)

lint-yaml:
	@echo "lint: yamllint"
	@yamllint --strict -c build/yamllint.yaml config dashboards e2e charts/spate/values.yaml charts/spate/Chart.yaml

lint-chart: $(HELM)
	@echo "lint: helm"
	@$(HELM) lint --quiet --strict charts/spate 2> >(grep -v 'found symbolic link' >&2)
	@$(HELM) template spate charts/spate --namespace spate-system --api-versions monitoring.coreos.com/v1 \
	  2> >(grep -v 'found symbolic link' >&2) >/dev/null

lint-alerts:
	@echo "lint: alerts"
	@cd dashboards && promtool check rules alerts.yaml >/dev/null && promtool test rules alerts_test.yaml >/dev/null

lint-e2e:
	@echo "lint: e2e suites"
	@go vet -C e2e ./...

unit: engine-test operator-test ## Run unit, property and envtest tests

nic: deps images kubectl-spate ## Run the engine's image on a NIC's driver, its offloads, queues and virtual functions, in an emulated machine (2 min)
	@ENGINE_ARCHIVE=$(engine_image) KUBECTL_SPATE=$(CURDIR)/build/out/kubectl-spate NIC_FOLDER=$(SPATE_CACHE)/e2e/nic \
	  go test -C e2e -count=1 -v ./nic

e2e: images kubectl-spate cluster-up $(PEER_IMAGE) ## Run the suites in the real cluster (RUN=regexp chooses tests, KEEP=1 leaves it running)
	@go test -C e2e -c -o $(suites) ./suites
	@e2e/install $(operator_image) $(engine_image)
	@e2e/cluster/load $(PEER_IMAGE) >/dev/null
	@status=0; $(in_cluster) env SPATE_ROOT=$(CURDIR) $(suites) -test.v -test.timeout 14m -test.run '$(RUN)' 2>&1 | tee $(suites_log) || status=$$?; \
	  [ -n "$${KEEP:-}" ] || e2e/cluster/down; [ $$status = 0 ] || e2e/failures $(suites_log); exit $$status

peers: deps ## Run our TCP against the kernel's, nginx and wrk through a seeded bad network, 8 min (PEERS_CONNECTIONS, PEERS_ROUNDS, PEERS_SEED)
	@cd engine && cargo build --locked --quiet --package spate-peers
	@$(CARGO_TARGET_DIR)/debug/spate-peers --connections $(PEERS_CONNECTIONS) --rounds $(PEERS_ROUNDS) --seed $(PEERS_SEED) --json build/peers/peers.json
