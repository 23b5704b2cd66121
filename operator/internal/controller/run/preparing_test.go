// SPDX-License-Identifier: Apache-2.0

package run

import (
	"testing"

	"spate.dev/operator/internal/engine/enginev1"
	"spate.dev/operator/internal/plan"
)

func TestMessagesNameStreams(t *testing.T) {
	bytes, _, err := plan.Encode(&enginev1.Plan{Streams: []*enginev1.Stream{{Name: "a"}, {Name: "b"}}})
	if err != nil {
		t.Fatal(err)
	}
	for message, want := range map[string]string{
		"streams[1].rx_port: nothing is counted there":  "stream b.rx_port: nothing is counted there",
		"streams[0].replay: like streams[1]":            "stream a.replay: like stream b",
		"streams[2].packet, streams[99999999999999999]": "streams[2].packet, streams[99999999999999999]",
		"port east has to carry 1 bit/s":                "port east has to carry 1 bit/s",
	} {
		if got := named(message, bytes); got != want {
			t.Errorf("%q becomes %q, want %q", message, got, want)
		}
	}
	if got := named("streams[0]", []byte{0xff}); got != "streams[0]" {
		t.Errorf("with a plan that cannot be read: %q", got)
	}
}
