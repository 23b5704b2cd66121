// SPDX-License-Identifier: Apache-2.0

// Manifests the tests share, as a user would write them.

package suites

import (
	"fmt"
	"strings"
)

// loopbackGenerator runs on any node: a loopback port and a discard port, shared CPUs, standard pages.
const loopbackGenerator = `
apiVersion: spate.dev/v1alpha1
kind: TrafficGenerator
metadata: {name: loop}
spec:
  cpuPolicy: Shared
  packetMemory: {backing: Standard, size: 64Mi}
  ports:
  - {name: loop, lineRate: 10Gbps, attachment: {loopback: {}}}
  - {name: void, attachment: {discard: {}}}
`

// loopbackStream sends small UDP packets and measures them.
const loopbackStream = `
apiVersion: spate.dev/v1alpha1
kind: StatelessStream
metadata: {name: small}
spec:
  packet:
    headers:
    - ethernet: {}
    - ipv4: {source: 198.18.0.1, destination: 198.19.0.1}
    - udp: {sourcePort: 1000, destinationPort: 2000}
    size: 128
  transmit: {continuous: {rate: 1kpps}}
  measure: {flow: true}
`

// loopbackProfile sends `small` on port loop; spec has further fields, one per line, indented by two. The tests share
// the CPUs with a whole cluster, so late packets, and some that are not sent, are tolerated unless spec says otherwise.
func loopbackProfile(name, spec string) string {
	if !strings.Contains(spec, "generatorTolerance:") {
		spec += "\n  generatorTolerance: {late: 100%, txDropped: 25%}"
	}
	return fmt.Sprintf(`
apiVersion: spate.dev/v1alpha1
kind: TrafficProfile
metadata: {name: %s}
spec:
  generatorRef: {name: loop}
  traffic:
  - {name: small, transmitPort: loop, receivePort: loop, stream: {ref: {name: small}}}
%s
`, name, spec)
}
