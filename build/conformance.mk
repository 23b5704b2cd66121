# SPDX-License-Identifier: Apache-2.0
# Do imported profiles send the same packets as in TRex, and are searches those of MLRsearch? The data are not part of the repository.

# Folder with trex-stateless/NAME.json and the captures of TRex's simulator beside them, and mlrsearch/NAME.json.
CONFORMANCE ?= ../shared/conformance
conformance_there = $(if $(wildcard $(CONFORMANCE)/trex-stateless),$(abspath $(CONFORMANCE)))

.PHONY: conformance conformance-if-there
conformance: ## Compare imported TRex profiles with TRex, packet for packet, and searches with MLRsearch (CONFORMANCE=FOLDER)
	@[ ! -d $(CONFORMANCE) ] || $(MAKE) --no-print-directory engine-debug
	@$(MAKE) --no-print-directory mlrsearch-reference || \
	  echo "conformance: SKIPPED the random searches: MLRsearch cannot be installed here (the reason is above)"
	@cd operator && go run ./hack/conformance -data $(abspath $(CONFORMANCE)) -python $(MLRSEARCH_PYTHON)

conformance-if-there:
	@if [ -n "$(conformance_there)" ]; then $(MAKE) --no-print-directory conformance; \
	else echo "conformance: SKIPPED: $(CONFORMANCE) has no data of TRex (CONFORMANCE=FOLDER; docs/simulate.md says what is in it)"; fi
