# SPDX-License-Identifier: Apache-2.0
# How is a real one-node Kubernetes started here, without Docker? See e2e/cluster/README.md.

KUBE_VERSION := v1.36.3
kube_dir := e2e/cluster/kube
kube_version_package := k8s.io/component-base/version
kube_ldflags := -s -w -X $(kube_version_package).gitVersion=$(KUBE_VERSION) \
  -X $(kube_version_package).gitMajor=1 -X $(kube_version_package).gitMinor=$(word 2,$(subst ., ,$(KUBE_VERSION)))
kube_hash := $(shell { cat $(kube_dir)/*.go $(kube_dir)/go.mod $(kube_dir)/go.sum; echo '$(kube_ldflags)'; } | sha256sum | cut -c1-12)
# etcd, the control plane, the kubelet and kubectl in one program: the name by which it is called selects one.
KUBE := $(SPATE_CACHE)/tools/kube-$(kube_hash)/kube
# For envtest: a folder with the programs by their own names.
export KUBEBUILDER_ASSETS := $(dir $(KUBE))envtest

$(KUBE):
	@echo "kube: building Kubernetes $(KUBE_VERSION) into one binary (first time: about 14 CPU minutes; with a warm cache 20 s)"
	@mkdir -p $(@D)
	@nice -n 5 env $(go_build) -C $(kube_dir) -ldflags='$(kube_ldflags)' -o $@.new . && mv $@.new $@

$(KUBEBUILDER_ASSETS)/.done: $(KUBE)
	@mkdir -p $(@D)
	@for program in etcd kube-apiserver kubectl; do ln -sf $(KUBE) $(@D)/$$program; done
	@touch $@

# The image of pod sandboxes and of test pods: busybox, which waits.
NODE_IMAGE := $(SPATE_CACHE)/images/node-$(shell sha256sum e2e/cluster/node-image | cut -c1-12).tar
$(NODE_IMAGE):
	@e2e/cluster/node-image $@

# The image of real servers and clients in the suites: nginx and curl.
PEER_IMAGE := $(SPATE_CACHE)/images/peer-$(shell sha256sum e2e/cluster/peer-image | cut -c1-12).tar
$(PEER_IMAGE):
	@e2e/cluster/peer-image $@

# The image of the Prometheus operator and of what it runs.
PROMETHEUS_IMAGE := $(SPATE_CACHE)/images/prometheus-$(shell cat e2e/prometheus/image tools/prometheus-operator/go.* | sha256sum | cut -c1-12).tar
$(PROMETHEUS_IMAGE): $(PROMETHEUS_OPERATOR)
	@e2e/prometheus/image $@ $(PROMETHEUS_OPERATOR)

# The image of the device plugin of the emulated machine.
SRIOV_IMAGE := $(SPATE_CACHE)/images/sriov-device-plugin-$(shell cat e2e/sriov/plugin-image tools/sriov-device-plugin/go.* | sha256sum | cut -c1-12).tar
$(SRIOV_IMAGE): $(SRIOV_DEVICE_PLUGIN)
	@e2e/sriov/plugin-image $@ $(SRIOV_DEVICE_PLUGIN)

# What the one-node cluster of the suites takes besides the Kubernetes binary.
cluster-programs: $(MULTUS) $(NODE_IMAGE) $(PEER_IMAGE) $(PROMETHEUS_IMAGE)

##@ Cluster
.PHONY: kube envtest-assets cluster-programs cluster-up cluster-down cluster-status cluster-shell test-cluster-clean
kube: $(KUBE) ## Build the Kubernetes binary (etcd to kubectl in one)
envtest-assets: $(KUBEBUILDER_ASSETS)/.done ## Make the folder envtest takes its binaries from (KUBEBUILDER_ASSETS)

cluster_env := KUBE=$(KUBE) MULTUS=$(MULTUS) NODE_IMAGE=$(NODE_IMAGE) HELM=$(HELM)
# CLUSTER_IMAGES: archives that are loaded meanwhile.
cluster-up: $(KUBE) $(MULTUS) $(HELM) $(NODE_IMAGE) ## Bring up a one-node Kubernetes in namespaces of its own (20 s)
	@$(cluster_env) e2e/cluster/up $(CLUSTER_IMAGES)
cluster-down: ## End it and leave the machine as it was
	@e2e/cluster/down
cluster-status: ## Say whether it is up, show its nodes and pods
	@e2e/cluster/status
cluster-shell: ## Open a shell in the node (kubectl, helm, ctr)
	@e2e/cluster/in bash
test-cluster-clean: $(KUBE) $(MULTUS) $(HELM) $(NODE_IMAGE) ## Test that the cluster leaves no trace, also after a crash
	@$(cluster_env) e2e/cluster/leave-no-trace

##@ Images
.PHONY: images engine-image
engine-image:
	@env -u MAKEFLAGS -u MFLAGS build/images engine
images: ## Build the images of operator and engine, if their sources changed (into SPATE_CACHE/images)
	@env -u MAKEFLAGS -u MFLAGS build/images engine operator
