# SPDX-License-Identifier: Apache-2.0
# How fast, how exact and how steady is the engine? docs/performance.md describes the method.

bench_program := $(SPATE_CACHE)/images/spate-bench
bench_baseline := engine/bench-baseline.json
SOAK ?= 10m
SEED ?= 1
ROUTES ?= 1000000
# Effect of a figure below its floor (docs/performance.md, Floors): `fail`, or `warn` on a busy machine.
BENCH_FLOORS ?= fail

##@ Measure
.PHONY: bench bench-stateful bench-beside bench-scaling bench-clients bench-instructions bench-baseline profile bench-pacing bench-routes soak soak-stateful bench-program
# As the engine's image, and so with the dependencies that were built for that.
bench-program:
	@env -u MAKEFLAGS -u MFLAGS build/images bench

bench: deps bench-program ## Measure stateless traffic beside dpdk-testpmd, in time and instructions; below a floor fails (8 min, BENCH_FLOORS=warn)
	@$(bench_program) stateless --floors $(BENCH_FLOORS) --json build/bench/stateless.json

bench-stateful: deps bench-program ## Measure connections, data and memory of flows beside nginx and wrk; below a floor fails (6 min, BENCH_FLOORS=warn)
	@$(bench_program) stateful --floors $(BENCH_FLOORS) --json build/bench/stateful.json

bench-scaling: bench-program ## Count what a packet costs with 1 to 16 workers, time all CPUs, and control with 64 workers; beyond a bound fails (2 min, BENCH_FLOORS=warn)
	@$(bench_program) scaling --floors $(BENCH_FLOORS) --json build/bench/scaling.json

bench-clients: bench-program ## Measure emulated clients: exchanges of DHCP per CPU-second, memory, even starts; beyond a bound fails (30 s)
	@$(bench_program) clients --floors $(BENCH_FLOORS) --json build/bench/clients.json

bench-beside: deps bench-program ## Measure streams and connections with the engine of a commit and with this one, in turn (BEFORE=COMMIT, 9 min)
	@before=$$(build/bench-of $(or $(BEFORE),$(error BEFORE=COMMIT is missing: the commit to compare with))) && \
	  $(bench_program) beside --before "$$before" --json build/bench/beside.json

bench-instructions: bench-program ## Compare instructions per packet and connection with those recorded; more by 3 % fails (3 min)
	@$(bench_program) instructions --baseline $(bench_baseline)

bench-baseline: bench-program ## Record instructions per packet and connection for this compiler, DPDK and libc
	@$(bench_program) instructions --baseline $(bench_baseline) --record

profile: deps ## Record what code runs most, by which the engine is built (engine/pgo; 15 min)
	@engine/pgo/record $(CARGO_TARGET_DIR)/profile

bench-pacing: bench-program ## Measure when packets leave, at 10 kpps to 10 Mpps (1 min)
	@$(bench_program) pacing

# The same selection of crates as for all tests (engine.mk).
bench-routes: deps ## Send 1,000,000 routes by BGP through a port, and by BIRD alone; slower than 1.5 times that fails (2 min, ROUTES=1000000, as root)
	@cd engine && SPATE_ROUTES=$(ROUTES) MAKEFLAGS= cargo test --locked --quiet --workspace --test routing -- \
	  --ignored --nocapture --exact a_million_routes_are_sent_about_as_fast_as_by_bird_alone

soak-stateful: bench-program ## Run connections at full rate with losses; all must end, memory stay (SOAK=30m, SEED=1)
	@$(bench_program) flow-soak --length $(if $(filter file,$(origin SOAK)),30m,$(SOAK)) --seed $(SEED)

soak: engine-debug ## Start, change and end streams at random; counters must balance (SOAK=10m, SEED=1)
	@cd engine && cargo build --locked --quiet --package spate-bench
	@$(CARGO_TARGET_DIR)/debug/spate-bench soak --length $(SOAK) --seed $(SEED)
