// SPDX-License-Identifier: Apache-2.0

package run

import spatev1 "spate.dev/api/v1alpha1"

// admitted is a run of one second that has pods, and whose generator has no tolerance.
func admitted(pods ...string) *spatev1.TrafficRun {
	r := &spatev1.TrafficRun{Status: spatev1.TrafficRunStatus{Resolved: &spatev1.ResolvedRun{
		Timing: spatev1.RunTiming{Duration: "1s"}, GeneratorTolerance: spatev1.GeneratorTolerance{Late: "0", TxDropped: "0", RxMissed: "0"},
	}}}
	for _, name := range pods {
		r.Status.Resolved.Generator.Pods = append(r.Status.Resolved.Generator.Pods, spatev1.PodSnapshot{Name: name})
	}
	return r
}
