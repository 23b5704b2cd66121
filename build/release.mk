# SPDX-License-Identifier: Apache-2.0
# What is published? docs/release.md says what each file is, and how to verify it.

RELEASE ?= build/out/release

##@ Release
.PHONY: release release-verify
release: deps images $(HELM) ## Build the files of a release from a commit, with SBOMs, provenance and checksums (RELEASE=FOLDER, VERSION=1.2.3, PLATFORMS of the plugin)
	@HELM=$(HELM) VERSION=$(VERSION) build/release $(RELEASE)

release-verify: ## Verify that they are what provenance and checksums name, and that their SBOMs are complete (RELEASE=FOLDER)
	@go run -C operator ./hack/release verify $(abspath $(RELEASE))
