# SPDX-License-Identifier: Apache-2.0
# How is the operator's code generated, checked and tested? Generated files are checked in; `verify-generated` reports
# whether they are current.

dashboards := $(foreach d,fleet run latency applications ports operator,dashboards/$(d).json)
# The files `generate` writes, and nothing else.
GENERATED := crds config/rbac/role.yaml docs/api.md docs/reference/counters.md docs/reference/metrics.md docs/reference/conditions.md docs/reference/unsupported.md docs/reference/mistakes.md charts/spate/values.schema.json charts/spate/README.md config/components/alerts/prometheusrule.yaml $(dashboards) api/v1alpha1 api/applyconfiguration api/clientset operator/internal/engine/enginev1 operator/internal/live/livev1

##@ Operator
.PHONY: generate generate-proto generate-api generate-docs generate-dashboards
generate: generate-proto generate-api generate-docs generate-dashboards ## Generate stubs, deep copies, CRDs, the references and the dashboards

generate-proto: $(BUF) $(PROTOC_GEN_GO) $(PROTOC_GEN_GO_GRPC)
	@PATH="$(TOOLS_PATH):$$PATH" $(BUF) generate

# The rules of a template's programs alone, for up to 512 entries, would cost 270 times an API server's budget for the rules of a kind: they
# are removed from the kinds that have templates inline, and the operator checks them (operator/internal/definition).
# Descriptions of headers, of servers and of pods, and in runs of all traffic, would make the kinds longer than an annotation: StatelessStream,
# ASTFTemplate, TrafficGenerator and TrafficProfile have them.
# Servers have no tunnels, so what a tunnel must be need not be checked there.
generate-api: $(CONTROLLER_GEN) $(CLIENT_GEN) $(APPLYCONFIGURATION_GEN)
	@cd api && $(CONTROLLER_GEN) object:headerFile=header.go.txt paths=./v1alpha1
	@cd api && $(CONTROLLER_GEN) crd paths=./v1alpha1 output:crd:dir=../crds
	@cd operator && go run ./hack/trim rules ../crds/spate.dev_trafficprofiles.yaml spec.traffic.application.inline.source.programs
	@cd operator && go run ./hack/trim rules ../crds/spate.dev_trafficprofiles.yaml spec.traffic.application.inline.pools.servers.vxlan
	@cd operator && go run ./hack/trim rules ../crds/spate.dev_trafficprofiles.yaml spec.traffic.application.inline.pools.servers.gtpu
	@cd operator && go run ./hack/trim rules ../crds/spate.dev_trafficprofiles.yaml spec.traffic.application.inline.pools.servers.gre
	@cd operator && go run ./hack/trim rules ../crds/spate.dev_trafficprofiles.yaml spec.traffic.application.inline.pools.servers.mpls
	@cd operator && go run ./hack/trim rules ../crds/spate.dev_trafficruns.yaml spec.profile.traffic.application.inline.source.programs
	@cd operator && go run ./hack/trim rules ../crds/spate.dev_trafficruns.yaml spec.profile.traffic.application.inline.pools.servers.vxlan
	@cd operator && go run ./hack/trim rules ../crds/spate.dev_trafficruns.yaml spec.profile.traffic.application.inline.pools.servers.gtpu
	@cd operator && go run ./hack/trim rules ../crds/spate.dev_trafficruns.yaml spec.profile.traffic.application.inline.pools.servers.gre
	@cd operator && go run ./hack/trim rules ../crds/spate.dev_trafficruns.yaml spec.profile.traffic.application.inline.pools.servers.mpls
	@cd operator && go run ./hack/trim descriptions ../crds/spate.dev_trafficprofiles.yaml spec.traffic.stream.inline.packet.headers statelessstream.spec.packet.headers
	@cd operator && go run ./hack/trim descriptions ../crds/spate.dev_trafficprofiles.yaml spec.traffic.application.inline.pools.servers astftemplate.spec.pools.servers
	@cd operator && go run ./hack/trim descriptions ../crds/spate.dev_trafficprofiles.yaml spec.generator.podTemplate trafficgenerator.spec.podTemplate
	@cd operator && go run ./hack/trim descriptions ../crds/spate.dev_trafficruns.yaml spec.profile.traffic.stream trafficprofile.spec.traffic.stream
	@cd operator && go run ./hack/trim descriptions ../crds/spate.dev_trafficruns.yaml spec.profile.traffic.application trafficprofile.spec.traffic.application
	@cd operator && go run ./hack/trim descriptions ../crds/spate.dev_trafficruns.yaml spec.profile.routing trafficprofile.spec.routing
	@cd operator && go run ./hack/trim descriptions ../crds/spate.dev_trafficruns.yaml spec.profile.clients trafficprofile.spec.clients
	@cd operator && go run ./hack/trim descriptions ../crds/spate.dev_trafficruns.yaml spec.profile.stages trafficprofile.spec.stages
	@cd operator && go run ./hack/trim descriptions ../crds/spate.dev_trafficruns.yaml spec.profile.tunables trafficprofile.spec.tunables
	@cd operator && go run ./hack/trim size ../crds/*.yaml
	@rm -rf api/applyconfiguration api/clientset
	@cd api && $(APPLYCONFIGURATION_GEN) --go-header-file header.go.txt --output-dir applyconfiguration \
	  --output-pkg spate.dev/api/applyconfiguration spate.dev/api/v1alpha1
	@cd api && $(CLIENT_GEN) --go-header-file header.go.txt --input-base "" --input spate.dev/api/v1alpha1 --output-dir . \
	  --output-pkg spate.dev/api --clientset-name clientset --apply-configuration-package spate.dev/api/applyconfiguration
	@cd operator && $(CONTROLLER_GEN) rbac:roleName=spate-operator paths=./internal/... paths=./cmd/... output:rbac:dir=../config/rbac

generate-docs: $(CRD_REF_DOCS)
	@$(CRD_REF_DOCS) --source-path=api/v1alpha1 --config=operator/hack/api-docs.yaml --renderer=markdown \
	  --output-path=docs/api.md --max-depth=30 --log-level=ERROR
	@cd engine && cargo run --locked --quiet -p spate-stateful --example counters >../docs/reference/counters.md.new
	@mv docs/reference/counters.md.new docs/reference/counters.md
	@cd operator && go run ./hack/metrics .. >../docs/reference/metrics.md.new
	@mv docs/reference/metrics.md.new docs/reference/metrics.md
	@cd operator && go run ./hack/refusals .. >../docs/reference/unsupported.md.new
	@mv docs/reference/unsupported.md.new docs/reference/unsupported.md
	@cd operator && go run ./hack/mistakes >../docs/reference/mistakes.md.new
	@mv docs/reference/mistakes.md.new docs/reference/mistakes.md
	@cd operator && go run ./hack/conditions ../api/v1alpha1/conditions.go >../docs/reference/conditions.md.new
	@mv docs/reference/conditions.md.new docs/reference/conditions.md
	@cd operator && go run ./hack/chart ../charts/spate
	@{ printf '%s\n' '# SPDX-License-Identifier: Apache-2.0' '# Generated from dashboards/rules.yaml (make generate).' '# yamllint disable rule:line-length' 'apiVersion: monitoring.coreos.com/v1' \
	  'kind: PrometheusRule' 'metadata:' '  name: spate-alerts' '  namespace: spate-system' 'spec:'; \
	  sed -n '/^groups:/,$$ s/^\(.\)/  \1/p' dashboards/rules.yaml; } >config/components/alerts/prometheusrule.yaml

# What it links, a large SDK, is in no other program: it has a module of its own.
generate-dashboards:
	@cd dashboards/source && go run . ..

.PHONY: kubectl-spate
kubectl-spate: ## Build kubectl's plugin, `kubectl spate` (build/out/kubectl-spate)
	@mkdir -p build/out
	@cd operator && $(go_build) -ldflags="-s -w -X main.version=$$(git describe --tags --always --dirty 2>/dev/null)" -o ../build/out/kubectl-spate ./cmd/kubectl-spate
	@cp operator/cmd/kubectl-spate/kubectl_complete-spate build/out/
	@echo "kubectl-spate: build/out/kubectl-spate, and kubectl_complete-spate for kubectl's completion (put both into a folder of PATH)"

.PHONY: kubectl-spate-platforms
kubectl-spate-platforms: ## Compile the plugin for each platform of a release (build/platforms)
	@for platform in $$(grep -v '^#' build/platforms); do \
	  echo "kubectl-spate: $$platform"; \
	  GOOS=$${platform%/*} GOARCH=$${platform#*/} $(go_build) -C operator -o /dev/null ./cmd/kubectl-spate || exit; done

.PHONY: verify-generated
verify-generated: ## Fail if a generated file is not current
	@before=$$(cat $$(find $(GENERATED) -type f | sort) | sha256sum); \
	$(MAKE) --no-print-directory generate; \
	after=$$(cat $$(find $(GENERATED) -type f | sort) | sha256sum); \
	if [ "$$before" != "$$after" ]; then \
	  echo "generated files were not current: run 'make generate' and commit what it changed" >&2; \
	  git status --short -- $(GENERATED) >&2; exit 1; fi; \
	dirty=$$(git status --porcelain -- $(GENERATED)); \
	if [ -n "$$dirty" ]; then echo "generated files are not committed:" >&2; echo "$$dirty" >&2; exit 1; fi

.PHONY: operator-test operator-check operator-lint proto-lint
operator-check:
	@bad=$$(gofmt -l api operator e2e dashboards); [ -z "$$bad" ] || { echo "gofmt -w $$bad" >&2; exit 1; }
	@for module in api operator; do go vet -C $$module ./... || exit; done

# Tests also read TRex's own profiles, if they exist (build/conformance.mk).
operator-test: envtest-assets engine-debug $(HELM) $(KREW) $(PROMETHEUS_OPERATOR) $(VERSITYGW) ## Test the operator: unit tests, a real API server, a real Prometheus and a real S3 server
	@$(MAKE) --no-print-directory trex-client || \
	  echo "operator: SKIPPED the tests that load TRex profiles in Python: TRex's client cannot be installed here (the reason is above)"
	@mkdir -p build/out && cd operator && $(go_test_build) -o ../build/out/operator.test ./test
	@echo "operator: testing (5 min)"
	@$(call side_by_side,operator-test-packages $(operator_test_parts))

# -count=1, because Go does not notice a changed engine and would use cached results. Building them is behind the tests beside, which wait for answers.
# First those with an API server of their own: they go on for minutes, while others are built.
operator-test-packages:
	@cd operator && HELM=$(HELM) KREW=$(KREW) S3_SERVER=$(VERSITYGW) SPATE_PROMETHEUS=$(PROMETHEUS_OPERATOR)/prometheus TREX_PYTHON=$(TREX_PYTHON) CONFORMANCE=$(conformance_there) KUBEBUILDER_CONTROLPLANE_START_TIMEOUT=60s nice -n 5 ../build/again go test -count=1 -timeout 20m $$(go list ./test/... ./... | grep -v /test$$ | awk '!seen[$$0]++')
	@go test -C e2e -count=1 ./policies
	@go test -C dashboards/source -count=1 ./...

# Tests against the real API server wait more than they compute: two processes share them.
operator_test_parts := operator-test-part-1 operator-test-part-2
.PHONY: operator-test-packages $(operator_test_parts)
$(operator_test_parts): operator-test-part-%:
	@cd operator/test && S3_SERVER=$(VERSITYGW) SPATE_PROMETHEUS=$(PROMETHEUS_OPERATOR)/prometheus SPATE_TEST_PART=$*/$(words $(operator_test_parts)) ../../build/again timeout --kill-after 10 32m \
	  ../../build/out/operator.test -test.paniconexit0 -test.timeout 30m

# Reports in a browser, and dashboards as they are drawn, by a module of its own: nothing else needs its dependencies.
.PHONY: test-report test-report-if-there report-pictures dashboard-pictures browser
browser:
	@build/deps --also browser
export SPATE_UPLOT := $(UPLOT)

test-report: browser $(UPLOT) ## Open reports in Chromium, which this installs (357 MB): layout, contrast, sorting, searching, printing; and dashboards as they are drawn
	@echo "report: testing in a browser (25 s)"
	@go test -C operator/test/browser -count=1 .

test-report-if-there:
	@if command -v chromium >/dev/null; then $(MAKE) --no-print-directory test-report; \
	  else echo "report: SKIPPED the test in a browser: no chromium here (make test-report installs it)"; fi

report-pictures: browser ## Renew the reports in docs/reports, and their pictures in docs/images
	@SPATE_GOLDEN=renew go test -C operator -count=1 -run '^TestReportsAreThoseOfTheFiles$$' ./internal/plugin/report
	@SPATE_PICTURES=$(CURDIR)/docs/images go test -C operator/test/browser -count=1 -run '^TestPictures$$' .

# What Prometheus answered in these tests of the suites is drawn. With ANSWERS, the folder of an earlier recording, none is made.
answers := $(SPATE_CACHE)/e2e/answers
answering := TestAPresetRunsAndPrometheusHasItsNumbers|TestIMIXThroughARouter/forwarding|TestAWebSiteThroughARouter/every|TestASearchFindsTheRateOfAPolicer|TestSamples
dashboard-pictures: browser $(UPLOT) ## Draw the dashboards in docs/images with what Prometheus answers in the real cluster, 8 min (ANSWERS=FOLDER: with what it answered before)
	@$(if $(ANSWERS),,rm -rf $(answers) && mkdir -p $(answers) && SPATE_ANSWERS=$(answers) $(by_itself) e2e RUN='$(answering)')
	@SPATE_ANSWERS=$(abspath $(or $(ANSWERS),$(answers))) SPATE_PICTURES=$(CURDIR)/docs/images go test -C operator/test/browser -count=1 -v -run '^TestPicturesOfDashboards$$' .

.PHONY: bench-operator
bench-operator: envtest-assets engine-debug ## Print what 200 generators and 1,000 profiles cost the operator, on simulated engines, 5 min (SCALE=generators)
	@DRILLS=all go test -C operator -count=1 -timeout 60m -v -run '^TestDrillTwoHundredGenerators' ./test

# golangci-lint's cache has files by absolute path, and opens them: each checkout needs its own, or one reports
# problems in the files of another that may be deleted.
operator-lint: export GOLANGCI_LINT_CACHE = $(SPATE_CACHE)/golangci/$(firstword $(shell echo $(CURDIR) | sha256sum))
operator-lint: $(GOLANGCI_LINT) ## Lint the API (with the rules of Kubernetes' API conventions), the operator and the e2e suites
	@find $(SPATE_CACHE)/golangci -mindepth 1 -maxdepth 1 -mtime +7 -exec rm -rf {} + 2>/dev/null || true
	@mkdir -p $(GOLANGCI_LINT_CACHE) && touch $(GOLANGCI_LINT_CACHE)
	@cd operator && $(GOLANGCI_LINT) run --allow-serial-runners ./...
	@cd api && $(GOLANGCI_LINT) run --allow-serial-runners --config ../operator/.golangci.yml ./...
	@cd api && $(GOLANGCI_LINT) run --allow-serial-runners --config .golangci.yml ./v1alpha1/...
	@cd e2e && $(GOLANGCI_LINT) run --allow-serial-runners --config ../operator/.golangci.yml ./...
	@cd dashboards/source && $(GOLANGCI_LINT) run --allow-serial-runners --config ../../operator/.golangci.yml ./...
	@cd operator/test/browser && $(GOLANGCI_LINT) run --allow-serial-runners --config ../../.golangci.yml ./...

proto-lint: $(BUF) ## Lint the contract
	@$(BUF) lint
