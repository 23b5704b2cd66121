# SPDX-License-Identifier: Apache-2.0
# The environment every tool runs in: shared caches, one set of Go flags (a shared build cache needs equal flags).
export GOCACHE := $(SPATE_CACHE)/go-build
export GOMODCACHE := $(SPATE_CACHE)/go-mod
export GOFLAGS := -trimpath -modcacherw
export GOTOOLCHAIN := local
export CGO_ENABLED := 0
export CARGO_TARGET_DIR := $(SPATE_CACHE)/cargo-target
export CARGO_HOME := $(or $(CARGO_HOME),$(HOME)/.cargo)

# side_by_side TARGETS: makes them all at the same time, and shows what each has printed when it has ended.
side_by_side = MAKEFLAGS= $(MAKE) --no-print-directory --output-sync=target --jobs $(words $(1)) $(1)
