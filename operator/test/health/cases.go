// SPDX-License-Identifier: Apache-2.0

package health

// This file answers: which states of objects are distinguished?

// What Argo CD shows, and what kstatus says.
const (
	Healthy     = "Healthy"
	Progressing = "Progressing"
	Degraded    = "Degraded"
	Suspended   = "Suspended"

	Current    = "Current"
	InProgress = "InProgress"
	Failed     = "Failed"
)

// Case is a state of an object of a kind. An object in that state, as an API server returned it, is in
// config/argocd/resource_customizations/spate.dev/KIND/testdata/NAME.yaml.
type Case struct {
	Kind, Name string
	// Argo is the health by the script of config/argocd.
	Argo string
	// Flux is the status by kstatus, which knows no verdicts and nothing that is suspended.
	Flux string
	// Checked is the status by the expressions of docs/gitops.md; empty for kinds that have none.
	Checked string
}

// Cases are all states that the tests show.
var Cases = []Case{
	{"StatelessStream", "new", Progressing, InProgress, ""},
	{"StatelessStream", "changed", Progressing, InProgress, ""},
	{"StatelessStream", "ready", Healthy, Current, ""},
	{"StatelessStream", "stalled", Degraded, Failed, ""},

	{"ASTFTemplate", "new", Progressing, InProgress, ""},
	{"ASTFTemplate", "ready", Healthy, Current, ""},
	{"ASTFTemplate", "stalled", Degraded, Failed, ""},

	{"TrafficGenerator", "new", Progressing, InProgress, InProgress},
	{"TrafficGenerator", "changed", Progressing, InProgress, InProgress},
	{"TrafficGenerator", "pending", Progressing, InProgress, InProgress},
	{"TrafficGenerator", "replicas-pending", Progressing, InProgress, InProgress},
	{"TrafficGenerator", "ready", Healthy, Current, Current},
	{"TrafficGenerator", "stalled", Degraded, Failed, Failed},
	{"TrafficGenerator", "suspended", Suspended, InProgress, Current},

	{"TrafficProfile", "new", Progressing, InProgress, InProgress},
	{"TrafficProfile", "changed", Progressing, InProgress, InProgress},
	{"TrafficProfile", "waiting", Progressing, InProgress, InProgress},
	{"TrafficProfile", "queued", Progressing, InProgress, InProgress},
	{"TrafficProfile", "running", Progressing, InProgress, InProgress},
	{"TrafficProfile", "endless", Healthy, Current, Current},
	{"TrafficProfile", "manual", Healthy, Current, Current},
	{"TrafficProfile", "passed", Healthy, Current, Current},
	{"TrafficProfile", "failed", Degraded, Current, Failed},
	{"TrafficProfile", "not-valid", Degraded, Current, Failed},
	{"TrafficProfile", "stalled", Degraded, Failed, Failed},
	{"TrafficProfile", "suspended", Suspended, InProgress, Current},
	{"TrafficProfile", "paused", Suspended, Current, Current},

	{"TrafficRun", "new", Progressing, InProgress, InProgress},
	{"TrafficRun", "waiting", Progressing, InProgress, InProgress},
	{"TrafficRun", "queued", Progressing, InProgress, InProgress},
	{"TrafficRun", "running", Progressing, InProgress, InProgress},
	{"TrafficRun", "endless", Healthy, Current, Current},
	{"TrafficRun", "paused", Suspended, Current, Current},
	{"TrafficRun", "passed", Healthy, Current, Current},
	{"TrafficRun", "failed", Degraded, Current, Failed},
	{"TrafficRun", "not-valid", Degraded, Current, Failed},

	{"TrafficCapture", "ready", Healthy, Current, ""},
	{"TrafficCapture", "waiting", Progressing, InProgress, ""},
	{"TrafficCapture", "stalled", Degraded, Failed, ""},
}

// Find returns the case of a kind and name; nil if there is none.
func Find(kind, name string) *Case {
	for i := range Cases {
		if Cases[i].Kind == kind && Cases[i].Name == name {
			return &Cases[i]
		}
	}
	return nil
}
