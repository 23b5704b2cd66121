# SPDX-License-Identifier: Apache-2.0
# The environment every tool runs in: shared caches, one set of Go flags (a shared build cache needs equal flags).
export GOCACHE := $(SPATE_CACHE)/go-build
export GOMODCACHE := $(SPATE_CACHE)/go-mod
export GOFLAGS := -trimpath -modcacherw
export GOTOOLCHAIN := local
export CGO_ENABLED := 0
# A compiler's life is short: up to this size it collects no garbage, and takes 11 % less CPU time (`go build k8s.io/client-go/kubernetes`
# with an empty cache, user and system: 229 s, 202 s). Not for what is run by `go test` and `go run`.
go_build := GOGC=off GOMEMLIMIT=3GiB go build
go_test_build := GOGC=off GOMEMLIMIT=3GiB go test -c
# CI's checkout (.ci/run) builds in a folder of its own.
export CARGO_TARGET_DIR := $(SPATE_CACHE)/cargo-target$(if $(filter $(SPATE_CACHE)/ci,$(CURDIR)),-ci)
export CARGO_HOME := $(or $(CARGO_HOME),$(HOME)/.cargo)

# side_by_side TARGETS: makes them concurrently, and prints each one's output when it has ended.
side_by_side = MAKEFLAGS= $(MAKE) --no-print-directory --output-sync=target --jobs $(words $(1)) $(1)
# side_by_side_lines TARGETS: the same, and prints each line as it comes.
side_by_side_lines = MAKEFLAGS= $(MAKE) --no-print-directory --output-sync=line --jobs $(words $(1)) $(1)

# Cargo compares times, not contents: it would use what another checkout has built since for this one. So if another checkout
# was the last to build, the project's own crates are built again; dependencies are kept.
ifneq ($(file <$(CARGO_TARGET_DIR)/checkout),$(CURDIR))
$(shell mkdir -p $(CARGO_TARGET_DIR) && find $(CARGO_TARGET_DIR) -maxdepth 5 -path '*/.fingerprint/spate-*' -prune -exec rm -rf {} + && \
  echo $(CURDIR) > $(CARGO_TARGET_DIR)/checkout)
endif
