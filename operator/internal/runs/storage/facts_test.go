// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"math/big"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"spate.dev/operator/internal/plan/load"
)

func TestTheTargetOfARunIsAtItsFactorAndReadsNoPlan(t *testing.T) {
	run := aRun()
	run.Status.RateFactor = "3/2"
	m := &Memory{} // it would panic if it read a plan
	if _, _, ok := m.Target(run); ok {
		t.Error("a target of a run whose plan is not known")
	}
	flows := load.NewFlows()
	flows.Add("web", big.NewRat(100, 1), nil)
	m.known = map[types.UID]*Facts{run.UID: {Own: load.Load{Packets: big.NewRat(1000, 3)}, Flows: flows}}
	packets, connections, ok := m.Target(run)
	if !ok || packets.RatString() != "500" || connections.RatString() != "150" {
		t.Errorf("%v packets, %v connections, %t", packets, connections, ok)
	}
	if own := m.known[run.UID].Own.Packets; own.RatString() != "1000/3" {
		t.Errorf("the facts have changed: %v", own)
	}
	m.known[run.UID].Flows = nil
	if _, connections, ok := m.Target(run); !ok || connections != nil {
		t.Errorf("%v connections of a run without templates, %t", connections, ok)
	}
	run.Status.RateFactor = ""
	if _, _, ok := m.Target(run); ok {
		t.Error("a target without a factor")
	}
}
