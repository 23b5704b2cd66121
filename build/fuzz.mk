# SPDX-License-Identifier: Apache-2.0
# How is all code fuzzed that parses untrusted bytes? Every target of engine/fuzz and every Fuzz function of the Go
# modules runs for FUZZ seconds. The corpus is kept in SPATE_CACHE and reused by the next run.

FUZZ ?= 30
fuzz_targets = $(basename $(notdir $(wildcard engine/fuzz/fuzz_targets/*.rs)))
fuzz_host = $(shell rustc -vV | sed -n 's/^host: //p')
# Coverage as libFuzzer needs it, without the sanitizers, which only nightly compilers have.
fuzz_rustflags := -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
  -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
  -Cllvm-args=-sanitizer-coverage-trace-compares --cfg fuzzing
fuzz_built := $(CARGO_TARGET_DIR)/fuzz

##@ Tests
.PHONY: fuzz fuzz-engine fuzz-operator
fuzz: fuzz-engine fuzz-operator ## Fuzz all that reads bytes of others (FUZZ=30 seconds each)

fuzz-engine:
	@echo "fuzz: building the engine's targets (first time: 3-6 min; after a change: up to 1 min)"
	@cd engine && RUSTFLAGS='$(fuzz_rustflags)' cargo build --locked --profile fuzz --quiet --package spate-fuzz \
	  --target $(fuzz_host) --target-dir $(fuzz_built)
	@for target in $(fuzz_targets); do \
	  corpus=$(SPATE_CACHE)/fuzz/$$target; seeds=engine/fuzz/seeds/$$target; mkdir -p $$corpus $$seeds build/fuzz; \
	  echo "fuzz: $$target for $(FUZZ) s"; \
	  $(fuzz_built)/$(fuzz_host)/fuzz/$$target $$corpus $$seeds -max_total_time=$(FUZZ) -timeout=10 -rss_limit_mb=2048 \
	    -artifact_prefix=build/fuzz/$$target- -print_final_stats=1 > build/fuzz/$$target.log 2>&1 || { \
	    tail -n 40 build/fuzz/$$target.log; \
	    echo "fuzz: $$target found something: build/fuzz/$$target-*; run the program with that file to see it again" >&2; exit 1; }; \
	  sed -n 's/^stat::number_of_executed_units: */fuzz:   inputs tried: /p' build/fuzz/$$target.log; \
	done

fuzz-operator:
	@cd operator && for package in $$(grep -rl --include='*_test.go' '^func Fuzz' . | xargs -r -n1 dirname | sort -u); do \
	  for target in $$(sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p' $$package/*_test.go); do \
	    echo "fuzz: $$package $$target for $(FUZZ) s"; \
	    said=$$(go test $$package -run='^$$' -fuzz="^$$target\$$" -fuzztime=$(FUZZ)s -test.fuzzcachedir=$(SPATE_CACHE)/fuzz/go 2>&1) && { tail -n 1 <<< "$$said"; continue; }; \
	    echo "$$said"; \
	    if grep -q 'context deadline exceeded' <<< "$$said" && ! grep -qE 'Failing input|panic' <<< "$$said"; \
	    then echo "fuzz:   nothing found: Go reports the end of the time as a failure on a busy machine (golang/go#48591)"; else exit 1; fi; \
	  done; \
	done
