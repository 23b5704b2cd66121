# SPDX-License-Identifier: Apache-2.0
# Spate: every entry point people need. `make help` lists them.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-builtin-rules

# All caches live in one place outside the checkout, keyed by content (CONTRIBUTING.md).
export SPATE_CACHE ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/spate
include build/env.mk
include build/tools.mk
include build/engine.mk
include build/operator.mk
include build/cluster.mk
include build/test.mk
include build/bench.mk
include build/fuzz.mk
include build/conformance.mk
include build/release.mk

.PHONY: help
help: ## List the targets
	@awk 'BEGIN {FS = ":.*?## "} /^##@/ {printf "\n%s\n", substr($$0, 5)} /^[a-zA-Z0-9_-]+:.*?## / {printf "  %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
