// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"math/big"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"spate.dev/operator/internal/plan/load"
)

func TestTheTargetOfARunIsAtItsFactor(t *testing.T) {
	run := aRun()
	run.Status.RateFactor = "3/2"
	m := &Memory{}
	flows := load.NewFlows()
	flows.Add("web", big.NewRat(100, 1), nil)
	m.known = map[types.UID]*Facts{run.UID: {Own: load.Load{Packets: big.NewRat(1000, 3)}, Flows: flows}}
	packets, connections, err := m.Target(t.Context(), run)
	if err != nil || packets.RatString() != "500" || connections.RatString() != "150" {
		t.Errorf("%v packets, %v connections, %v", packets, connections, err)
	}
	if own := m.known[run.UID].Own.Packets; own.RatString() != "1000/3" {
		t.Errorf("the facts have changed: %v", own)
	}
	m.known[run.UID].Flows = nil
	if _, connections, err := m.Target(t.Context(), run); err != nil || connections != nil {
		t.Errorf("%v connections of a run without templates, %v", connections, err)
	}
	run.Status.RateFactor = ""
	if _, _, err := m.Target(t.Context(), run); err == nil {
		t.Error("a target without a factor")
	}
}
