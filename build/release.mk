# SPDX-License-Identifier: Apache-2.0
# What is published? docs/release.md says what each file is, and how to verify it.

RELEASE ?= build/out/release

##@ Release
.PHONY: release release-twice release-sign release-verify
release: deps $(HELM) $(KREW) ## Build the files of a release from a commit, with SBOMs, provenance and checksums (RELEASE=FOLDER, VERSION=1.2.3, IMAGES=REPOSITORY, DOWNLOAD_URL, SIGN_KEY=FILE, PLATFORMS of the plugin)
	@HELM=$(HELM) KREW=$(KREW) VERSION=$(VERSION) build/release $(RELEASE)

release-twice: deps ## Build them two times, from clones in different folders, the second time with empty caches, and fail where a file differs (variables: as release)
	@VERSION=$(VERSION) build/release-twice $(RELEASE)

release-sign: ## Sign provenance and checksums of a release (RELEASE=FOLDER, SIGN_KEY=FILE)
	@go run -C operator ./hack/release --key $(abspath $(or $(SIGN_KEY),$(error SIGN_KEY=FILE, a private key in PEM, is needed))) sign $(abspath $(RELEASE))

release-verify: ## Verify that the files are what provenance and checksums name, fit to each other, have complete SBOMs, and are signed (RELEASE=FOLDER, KEY=FILE, the public key)
	@go run -C operator ./hack/release $(if $(KEY),--key $(abspath $(KEY))) verify $(abspath $(RELEASE))
