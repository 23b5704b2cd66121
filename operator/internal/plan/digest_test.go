// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"reflect"
	"slices"
	"testing"

	spatev1 "spate.dev/api/v1alpha1"
)

// fill gives a value that is not its type's zero.
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
	case reflect.Struct:
		fill(t, v.Field(0))
	default:
		t.Fatalf("write how to fill a %s", v.Type())
	}
}

// A field that comes to the API starts new runs when it changes, unless it is said here that it does not.
func TestEveryFieldOfAProfileStartsANewRunUnlessItIsLive(t *testing.T) {
	live := []string{
		"Rate", "Suspend", "SuspendPolicy", "WhenBusy", "RunHistoryLimit", "TTLSecondsAfterFinished", "Generator",
		"Traffic.Rate", "Traffic.ConnectionRate", "Traffic.Paused",
	}
	base := &spatev1.TrafficProfile{Spec: spatev1.TrafficProfileSpec{Traffic: make([]spatev1.TrafficEntry, 1)}}
	before := ProfileDigest(base)
	check := func(prefix string, of func(*spatev1.TrafficProfile) reflect.Value) {
		for i := range of(base).NumField() {
			name := prefix + of(base).Type().Field(i).Name
			p := base.DeepCopy()
			fill(t, of(p).Field(i))
			if starts := ProfileDigest(p) != before; starts == slices.Contains(live, name) {
				t.Errorf("%s: a change starts a new run: %v", name, starts)
			}
		}
	}
	check("", func(p *spatev1.TrafficProfile) reflect.Value { return reflect.ValueOf(&p.Spec).Elem() })
	check("Traffic.", func(p *spatev1.TrafficProfile) reflect.Value { return reflect.ValueOf(&p.Spec.Traffic[0]).Elem() })
}
