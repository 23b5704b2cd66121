// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"reflect"
	"testing"

	spatev1 "spate.dev/api/v1alpha1"
)

// change sets a value to another one.
func change(t *testing.T, v reflect.Value) {
	if !v.IsZero() {
		v.SetZero()
		return
	}
	fill(t, v)
}

// fill sets a value to one that is not its type's zero.
func fill(t *testing.T, v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString("1")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int32, reflect.Int64:
		v.SetInt(1)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(t, v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(t, v.Index(0))
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(t, key)
		fill(t, value)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.Struct:
		fill(t, v.Field(0))
	default:
		t.Fatalf("write how to fill a %s", v.Type())
	}
}

// A field that is added to the API starts new runs when it changes, unless it is listed here.
func TestEveryFieldOfAProfileStartsANewRunUnlessItIsListed(t *testing.T) {
	starts := map[string]bool{
		// Applied to the active run.
		"Rate": false, "Paused": false, "Traffic.Paused": false, "Traffic.Stream.Rate": false, "Traffic.Application.ConnectionRate": false,
		// Used to judge the latest run.
		"Thresholds": false, "GeneratorTolerance": false,
		// When it is run, and how other runs and old runs are treated.
		"RunPolicy": false, "Schedule": false, "Suspend": false, "SuspendPolicy": false, "WhenBusy": false, "WhenPodLost": false, "RunHistoryLimit": false, "TTLSecondsAfterFinished": false,
		// An object of its own.
		"Generator": false,
	}
	base := &spatev1.TrafficProfile{}
	base.Spec.Traffic = []spatev1.TrafficEntry{{Stream: &spatev1.StreamEntry{}, Application: &spatev1.ApplicationEntry{}}}
	before, seen := ProfileDigest(base), map[string]bool{}
	check := func(prefix string, of func(*spatev1.TrafficProfile) any) {
		kind := reflect.TypeOf(of(base)).Elem()
		for i := range kind.NumField() {
			if kind.Field(i).Anonymous {
				continue // its fields are checked separately
			}
			name := prefix + kind.Field(i).Name
			p := base.DeepCopy()
			change(t, reflect.ValueOf(of(p)).Elem().Field(i))
			want, listed := starts[name]
			if got := ProfileDigest(p) != before; got != (want || !listed) {
				t.Errorf("%s: a change starts a new run: %v", name, got)
			}
			seen[name] = true
		}
	}
	check("", func(p *spatev1.TrafficProfile) any { return &p.Spec })
	check("", func(p *spatev1.TrafficProfile) any { return &p.Spec.TrafficDefinition })
	check("Traffic.", func(p *spatev1.TrafficProfile) any { return &p.Spec.Traffic[0] })
	check("Traffic.Stream.", func(p *spatev1.TrafficProfile) any { return p.Spec.Traffic[0].Stream })
	check("Traffic.Application.", func(p *spatev1.TrafficProfile) any { return p.Spec.Traffic[0].Application })
	for name := range starts {
		if !seen[name] {
			t.Errorf("%s is no field of a profile", name)
		}
	}
}
