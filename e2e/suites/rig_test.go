// SPDX-License-Identifier: Apache-2.0

// Which of these tests run on any cluster, and which only on the project's own node (e2e/cluster)?

package suites

import (
	"os"
	"testing"
)

// external is true on a cluster other than the project's own: tests have access to its API only, not to its nodes.
var external = os.Getenv("SPATE_EXTERNAL") != ""

// What tests use of the project's own node.
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

// needsRig skips a test on any cluster other than the project's own.
func needsRig(t *testing.T, part string) {
	t.Helper()
	if external {
		t.Skipf("EXTERNAL: it takes %s, which only the project's own cluster has (make e2e without EXTERNAL)", part)
	}
}
