// SPDX-License-Identifier: Apache-2.0

package main

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"spate.dev/operator/internal/archive"
	"spate.dev/operator/internal/podspec"
)

func TestTheNamespacesThatReadMetricsAreAList(t *testing.T) {
	for flag, want := range map[string][]string{"": nil, "monitoring": {"monitoring"}, "a,b": {"a", "b"}} {
		o, err := parse([]string{"--namespace=system", "--metrics-namespaces=" + flag})
		if err != nil {
			t.Errorf("%q: %v", flag, err)
			continue
		}
		if got, err := o.access(); err != nil || !reflect.DeepEqual(got, podspec.Access{OperatorNamespace: "system", MetricsNamespaces: want}) {
			t.Errorf("%q: %+v %v", flag, got, err)
		}
	}
	for _, flag := range []string{",", "a,", "Monitoring", "a b", "team=a"} {
		if _, err := parse([]string{"--metrics-namespaces=" + flag}); err == nil || !strings.Contains(err.Error(), "--metrics-namespaces") {
			t.Errorf("%q: %v", flag, err)
		}
	}
}

func TestAnArchiveHasADirectory(t *testing.T) {
	o, err := parse([]string{"--archive-directory=/archive", "--archive-keep-for=720h", "--archive-keep-runs=5"})
	if err != nil || o.archive != "/archive" || o.keep != (archive.Retention{For: 720 * time.Hour, Runs: 5}) {
		t.Errorf("%+v, %v", o, err)
	}
	for flag, want := range map[string]string{"--archive-keep-for=1h": "set --archive-directory too", "--archive-keep-runs=1": "set --archive-directory too", "--archive-keep-runs=-1": "must not be less than 0"} {
		if _, err := parse([]string{flag}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", flag, err)
		}
	}
}

func TestTheWatchedNamespacesAreAList(t *testing.T) {
	for flag, want := range map[string][]string{"": nil, "lab": {"lab"}, "a,b": {"a", "b"}} {
		o, err := parse([]string{"--watch-namespaces=" + flag})
		if err != nil {
			t.Errorf("%q: %v", flag, err)
			continue
		}
		if got, err := o.watchedNamespaces(); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %q %v", flag, got, err)
		}
	}
	for _, flag := range []string{",", "a,", "Lab"} {
		if _, err := parse([]string{"--watch-namespaces=" + flag}); err == nil || !strings.Contains(err.Error(), "--watch-namespaces") {
			t.Errorf("%q: %v", flag, err)
		}
	}
}

func TestPodMonitorsHaveTheIntervalOfTheFlag(t *testing.T) {
	for flag, want := range map[string]string{"": "5s", "--pod-monitor-interval=1m": "1m"} {
		o, err := parse(slices.DeleteFunc([]string{flag}, func(f string) bool { return f == "" }))
		if err != nil {
			t.Errorf("%q: %v", flag, err)
			continue
		}
		if got := o.scrapeInterval.String(); got != want {
			t.Errorf("%q: %s, want %s", flag, got, want)
		}
	}
	for _, value := range []string{"0s", "1.5s", "-1s", "fast"} {
		if _, err := parse([]string{"--pod-monitor-interval=" + value}); err == nil || !strings.Contains(err.Error(), "-pod-monitor-interval") {
			t.Errorf("%q: %v", value, err)
		}
	}
}

func TestTheLabelsOfPodMonitorsAreAList(t *testing.T) {
	for flag, want := range map[string]map[string]string{"": {}, "release=stack": {"release": "stack"}, "a/b=c,d=": {"a/b": "c", "d": ""}} {
		o, err := parse([]string{"--pod-monitor-labels=" + flag})
		if err != nil {
			t.Errorf("%q: %v", flag, err)
			continue
		}
		if got, err := o.podMonitorLabels(); err != nil || !maps.Equal(got, want) {
			t.Errorf("%q: %q %v", flag, got, err)
		}
	}
	for _, flag := range []string{"release", "a=b,", "a b=c", "a=b c"} {
		if _, err := parse([]string{"--pod-monitor-labels=" + flag}); err == nil || !strings.Contains(err.Error(), "--pod-monitor-labels") {
			t.Errorf("%q: %v", flag, err)
		}
	}
}
