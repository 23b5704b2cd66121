// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"k8s.io/utils/ptr"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/engine/enginev1"
	"spate.dev/operator/internal/plan/data"
)

func recordedRun(volumes ...spatev1.GeneratorVolume) Input {
	p := profile(running("web", "http", "east", "west"))
	p.Spec.Records = &spatev1.ConnectionRecords{OneIn: 100, Volume: "results", MaxRecords: ptr.To[int64](5000)}
	return Input{
		Profile: p, Templates: map[string]*spatev1.ASTFTemplate{"http": nil},
		Generator: generator(func(g *spatev1.TrafficGenerator) { g.Spec.Volumes = volumes }),
	}
}

func TestEachEngineRecordsInAFileOfItsOwnOrInNone(t *testing.T) {
	in := recordedRun(spatev1.GeneratorVolume{Name: "results", Writable: true})
	in.Templates["http"] = templateOf(t, webTemplate)
	plan := mustResolve(t, in).Plan(Identity{RunID: "r"})
	for index, want := range []string{data.VolumesDir + "/results/r-0.parquet", data.VolumesDir + "/results/r-1.parquet"} {
		own := ofEngine(t, plan, uint32(index), 2)
		isJSON(t, own.Stateful.Records, `{"oneIn": 100, "most": 5000, "path": "`+want+`"}`)
		own.Stateful.Records, own.Share = plan.Stateful.Records, nil
		if !proto.Equal(own, plan) {
			t.Errorf("engine %d has another plan: %v, want %v", index, own, plan)
		}
	}
	in.Generator.Spec.Volumes, in.Profile.Spec.Records = nil, &spatev1.ConnectionRecords{OneIn: 100}
	for index := range uint32(2) {
		isJSON(t, ofEngine(t, mustResolve(t, in).Plan(Identity{RunID: "r"}), index, 2).Stateful.Records, `{"oneIn": 100}`)
	}
	in.Profile.Spec.Records.OneIn = 0 // as in a file that no API server has defaulted
	if got := mustResolve(t, in).Plan(Identity{RunID: "r"}).Stateful.Records.OneIn; got != 1 {
		t.Errorf("one connection in %d is recorded, want all by default", got)
	}
	in.Profile.Spec.Records = nil
	if got := ofEngine(t, mustResolve(t, in).Plan(Identity{RunID: "r"}), 0, 1).Stateful.Records; got != nil {
		t.Errorf("nobody asked for %v", got)
	}
	if ofEngine(t, &enginev1.Plan{}, 0, 1).Stateful != nil {
		t.Error("a plan without templates has none")
	}
}

// ofEngine returns the plan for an engine.
func ofEngine(t *testing.T, plan *enginev1.Plan, index, count uint32) *enginev1.Plan {
	t.Helper()
	encoded, _, err := Encode(plan)
	if err != nil {
		t.Fatal(err)
	}
	share, err := ForEngine(plan.RunId, plan.GetStateful().GetRecords().GetPath(), index, count)
	if err != nil {
		t.Fatal(err)
	}
	own, err := Decode(append(encoded, share...))
	if err != nil {
		t.Fatal(err)
	}
	return own
}

func TestWhatCannotBeRecordedIsRefused(t *testing.T) {
	writable := spatev1.GeneratorVolume{Name: "results", Writable: true}
	for name, c := range map[string]struct {
		in   Input
		do   func(*spatev1.TrafficProfile)
		want string
	}{
		"no volume":        {recordedRun(), nil, `spec.records.volume: "results" is no volume of generator lab`},
		"read-only":        {recordedRun(spatev1.GeneratorVolume{Name: "results"}), nil, `spec.records.volume: "results" of generator lab is read-only`},
		"bound of no file": {recordedRun(), func(p *spatev1.TrafficProfile) { p.Spec.Records.Volume = "" }, "spec.records.maxRecords: applies to files, and none are written without a volume"},
		"no template":      {recordedRun(writable), func(p *spatev1.TrafficProfile) { p.Spec.Traffic = imix().Spec.Traffic }, "spec.records: no entry runs an application, whose flows could be recorded"},
		"one in -1":        {recordedRun(writable), func(p *spatev1.TrafficProfile) { p.Spec.Records.OneIn = -1 }, "spec.records.oneIn"},
		"no records":       {recordedRun(writable), func(p *spatev1.TrafficProfile) { p.Spec.Records.MaxRecords = ptr.To[int64](0) }, "spec.records.maxRecords"},
	} {
		t.Run(name, func(t *testing.T) {
			c.in.Templates["http"] = templateOf(t, webTemplate)
			if c.do != nil {
				c.do(c.in.Profile)
			}
			_, problems := Resolve(c.in)
			if len(problems) != 1 || !strings.Contains(fmt.Sprint(problems), c.want) {
				t.Errorf("got %v, want %s", problems, c.want)
			}
		})
	}
}

func TestRecordsStartANewRun(t *testing.T) {
	in := recordedRun()
	with := ProfileDigest(in.Profile)
	in.Profile.Spec.Records.OneIn = 2
	other := ProfileDigest(in.Profile)
	in.Profile.Spec.Records = nil
	if without := ProfileDigest(in.Profile); with == other || with == without {
		t.Error("a change of what is recorded is no change")
	}
}
