// SPDX-License-Identifier: Apache-2.0

// What of these tests runs on any cluster, and what only on the project's own node (e2e/cluster)?

package suites

import (
	"os"
	"testing"
)

// external says that the cluster is not the project's own: nothing of its nodes is at hand, only its API.
var external = os.Getenv("SPATE_EXTERNAL") != ""

// What tests take of the project's own node.
const (
	theRouter     = "the router between links of the node"
	thePrometheus = "the Prometheus beside the pods"
	thePodNetwork = "the network of the pods"
	theMultus     = "the Multus of the node, with the bridge plugin"
	theNodesFiles = "a folder of the node as a volume"
	// Drills.
	theNodesProcesses = "the processes of the node"
	theOneNode        = "a node that no one else's pods need"
	theInstallation   = "Spate in every namespace"
)

// needsRig skips a test on any other cluster than the project's own.
func needsRig(t *testing.T, part string) {
	t.Helper()
	if external {
		t.Skipf("EXTERNAL: it takes %s, which only the project's own cluster has (make e2e without EXTERNAL)", part)
	}
}
