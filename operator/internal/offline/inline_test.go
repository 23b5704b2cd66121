// SPDX-License-Identifier: Apache-2.0

package offline

import (
	"strings"
	"testing"
)

// conversing is a profile that describes a template with programs.
const conversing = `apiVersion: spate.dev/v1alpha1
kind: TrafficProfile
metadata: {name: chat}
spec:
  generatorRef: {name: lab}
  traffic:
    - name: mail
      transmitPort: east
      receivePort: west
      application:
        inline:
          destinationPort: 25
          connectionRate: 1cps
          pools: {clients: [{name: c, start: 198.18.0.1, count: 9}], servers: [{name: s, start: 198.19.0.1, count: 9}]}
          source:
            programs:
              transport: TCP
              client: [{send: {content: {text: hello}}}, {delay: {min: 1ms, max: 2ms}}, {close: {}}]
              server: [{receive: {bytes: 5}}, {waitForPeerClose: {}}]
`

func TestRulesOfInlineProgramsAreChecked(t *testing.T) {
	const rule = "source.programs.client[1].delay: Invalid value: min must not be greater than max"
	_, described, _ := strings.Cut(conversing, "spec:\n")
	run := "apiVersion: spate.dev/v1alpha1\nkind: TrafficRun\nmetadata: {name: chat-1}\nspec:\n  profile:\n  " + strings.ReplaceAll(strings.TrimSuffix(described, "\n"), "\n", "\n  ") + "\n"
	for name, c := range map[string]struct{ text, want string }{
		"a profile": {conversing, "a, document 1: TrafficProfile chat: spec.traffic[0].application.inline." + rule},
		"a run":     {run, "a, document 1: TrafficRun chat-1: spec.profile.traffic[0].application.inline." + rule},
	} {
		if problems := files(t, c.text).Check(); len(problems) > 0 {
			t.Errorf("%s: the good one: %v", name, problems)
		}
		problems := files(t, strings.Replace(c.text, "min: 1ms", "min: 3ms", 1)).Check()
		if len(problems) != 1 || problems[0].Error() != c.want {
			t.Errorf("%s: got %v\nwant %s", name, problems, c.want)
		}
	}
}

// What an API server gives a command that leaves it out: it waits until all is acknowledged.
func TestInlineProgramsHaveTheirDefaults(t *testing.T) {
	f := files(t, conversing)
	send := f.Profiles[0].Value.Spec.Traffic[0].Application.Inline.Source.Programs.Client[0].Send
	if send.WaitForAck == nil || !*send.WaitForAck {
		t.Errorf("got %+v", send)
	}
}
