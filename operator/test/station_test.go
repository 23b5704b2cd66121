// SPDX-License-Identifier: Apache-2.0

package test

// Frames for another station than the port's: counted and not delivered, unless the port accepts any MAC.

import (
	"strings"
	"testing"

	spatev1 "spate.dev/api/v1alpha1"
)

// strayRequests open connections to the template's server, by frames for a MAC that no station has.
const strayRequests = `
apiVersion: spate.dev/v1alpha1
kind: StatelessStream
metadata: {name: stray}
spec:
  packet:
    headers:
    - ethernet: {destination: "02:09:09:09:09:09"}
    - ipv4: {source: 198.18.128.1, destination: 198.19.0.1}
    - tcp: {sourcePort: 1000, destinationPort: 80, flags: [SYN]}
    size: 64
  copies: {count: 50, vary: [{field: tcp.sourcePort}]}
  transmit: {burst: {packets: 1, rate: 100pps}}
`

func TestFramesForAnotherStationAreCountedAndDeliveredOnlyIfThePortAcceptsThem(t *testing.T) {
	for port, accepts := range map[string]bool{"": false, ", acceptAnyMAC: true": true} {
		t.Run("acceptAnyMAC"+port, func(t *testing.T) {
			needsEngine(t)
			ns := namespace(t)
			mustApply(t, ns, strings.Replace(loopbackGenerator, "attachment: {loopback: {}}", "attachment: {loopback: {}}"+port, 1)+"---"+loopbackTemplate+"---"+strayRequests)
			profile := strings.Replace(greetingProfile("mixed", "  duration: 2s\n"), "  traffic:", "  traffic:\n  - {name: stray, stream: {ref: {name: stray}}, transmitPort: loop}", 1)
			mustApply(t, ns, profile)
			r := complete(t, readyLimit+runLimit, profileNamed(ns, "mixed"))
			must(t, ended(r))
			res := r.Status.Result
			var server *spatev1.TemplateSide
			var started int64
			for _, template := range res.Templates {
				server, started = template.Server, template.Client.Attempted
			}
			t.Logf("%d frames, otherMAC %d, foreign %d; clients started %d connections, servers saw %d", res.Tx, res.OtherMAC, res.Foreign, started, server.Attempted)
			switch {
			case accepts && (res.OtherMAC != 0 || server.Attempted != started+50):
				t.Errorf("they were to be delivered")
			case !accepts && (res.OtherMAC != 50 || server.Attempted != started):
				t.Errorf("they were to be counted and not delivered")
			}
		})
	}
}
