# SPDX-License-Identifier: Apache-2.0
# How is the engine built, linted and tested outside of images?

# Tests run the engine as `cargo test` builds it: one set of artefacts for the engine's own tests and the operator's.
export SPATE_ENGINE := $(CARGO_TARGET_DIR)/debug/spate-engine

##@ Engine
.PHONY: engine engine-debug engine-test engine-lint
engine: ## Build the engine for use (release, 2-5 min)
	@cd engine && cargo build $$(pgo/arguments) --locked --release --package spate-engine
	@echo "engine: $(CARGO_TARGET_DIR)/release/spate-engine"

# All tests with it: built alone, it would be built with fewer features of what it needs, and all of that twice.
engine-debug:
	@echo "engine: building it and its tests (first time: 3-6 min; after a change: up to 2 min)"
	@cd engine && cargo test --locked --quiet --workspace --no-run

# One cargo call: a selection of crates would be built with other features of what they need, and all of that twice.
engine-test: export CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER = $(CURDIR)/build/run-test
engine-test: engine-debug ## Test the engine: unit and property tests, exact counts on null, loopback and veth (as root)
	@cd engine && cargo test --locked --workspace --quiet

engine-lint: $(CARGO_DENY) ## Lint the engine (rustfmt, clippy, cargo-deny)
	@echo "lint: rustfmt, clippy, cargo-deny"
	@cd engine && cargo fmt --check
	@cd engine && cargo clippy --locked --quiet --workspace --all-targets -- --deny warnings
	@cd engine && $(CARGO_DENY) --log-level error check bans licenses sources # advisories: make advisories
