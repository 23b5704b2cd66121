// SPDX-License-Identifier: Apache-2.0

package plugintest

// This file answers: which manifests do several commands read in their tests?

const (
	// Smoke is a profile with one stream, which is UDP.
	Smoke = `apiVersion: spate.dev/v1alpha1
kind: TrafficProfile
metadata: {name: smoke}
spec:
  generatorRef: {name: lab}
  traffic:
    - {name: one, transmitPort: east, stream: {ref: {name: udp}}}
`
	// UDP is the stream of Smoke.
	UDP = `apiVersion: spate.dev/v1alpha1
kind: StatelessStream
metadata: {name: udp}
spec:
  packet:
    headers:
      - ethernet: {}
      - ipv4: {source: 198.18.0.1, destination: 198.19.0.1}
      - udp: {destinationPort: 7}
    size: 128
  transmit: {continuous: {rate: 1kpps}}
`
)

// Web is a template and a profile that runs it.
const Web = `apiVersion: spate.dev/v1alpha1
kind: ASTFTemplate
metadata: {name: http}
spec:
  destinationPort: 80
  connectionRate: 1cps
  pools:
    clients: [{name: c, start: 16.0.0.1, end: 16.0.0.9}]
    servers: [{name: s, start: 48.0.0.1, end: 48.0.0.9}]
  source:
    programs: {transport: TCP, client: [{send: {content: {text: GET}}}], server: [{receive: {bytes: 4}}]}
---
apiVersion: spate.dev/v1alpha1
kind: TrafficProfile
metadata: {name: test}
spec:
  generatorRef: {name: lab}
  duration: 1s
  traffic:
    - {name: web, transmitPort: east, receivePort: west, application: {templateRef: {name: http}}}
`
