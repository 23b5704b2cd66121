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
	"spate.dev/operator/internal/export"
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

func TestTheVersionIsThatOfTheReleaseThatTheImageIsOf(t *testing.T) {
	for released, want := range map[string]string{"9.8.7-rc.1": "9.8.7-rc.1", "": "dev"} {
		t.Setenv("SPATE_VERSION", released)
		if got := version(); got != want {
			t.Errorf("%q: %q", released, got)
		}
	}
}

func TestAnArchiveIsADirectoryOrABucket(t *testing.T) {
	o, err := parse([]string{"--archive-directory=/archive", "--archive-keep-for=720h", "--archive-keep-runs=5"})
	if err != nil || o.archive != "/archive" || o.keep != (archive.Retention{For: 720 * time.Hour, Runs: 5}) {
		t.Errorf("%+v, %v", o, err)
	}
	if store, err := o.archiveStore(t.Context()); err != nil || store != archive.Directory("/archive") {
		t.Errorf("%v, %v", store, err)
	}
	o, err = parse([]string{"--archive-bucket=s3://results/spate", "--archive-endpoint=https://s3.example:9000", "--archive-region=r", "--archive-keep-runs=5"})
	if want := (archive.BucketConfig{Location: "s3://results/spate", Endpoint: "https://s3.example:9000", Region: "r"}); err != nil || o.bucket != want {
		t.Errorf("%+v, %v", o, err)
	}
	if store, err := o.archiveStore(t.Context()); err != nil || reflect.TypeOf(store) != reflect.TypeFor[*archive.Bucket]() {
		t.Errorf("%v, %v", store, err)
	}
	for flag, virtualHost := range map[string]bool{"--archive-force-path-style": false, "--archive-force-path-style=false": true} {
		if o, err = parse([]string{"--archive-bucket=s3://results", "--archive-endpoint=https://s3.example", flag}); err != nil || o.bucket.VirtualHost != virtualHost {
			t.Errorf("%s: %+v, %v", flag, o, err)
		}
	}
	if o, err = parse(nil); err != nil {
		t.Fatal(err)
	}
	if store, err := o.archiveStore(t.Context()); err != nil || store != nil {
		t.Errorf("%v, %v", store, err)
	}
	for flags, want := range map[string]string{
		"--archive-keep-for=1h":                                                        "set --archive-directory or --archive-bucket too",
		"--archive-keep-runs=1":                                                        "set --archive-directory or --archive-bucket too",
		"--archive-keep-runs=-1":                                                       "must not be less than 0",
		"--archive-directory=/a --archive-bucket=s3://results":                         "--archive-directory and --archive-bucket: set one of them",
		"--archive-bucket=results":                                                     `"results" is no location in a bucket: must be s3://BUCKET or s3://BUCKET/PREFIX`,
		"--archive-bucket=s3://results/../other":                                       "is no location in a bucket",
		"--archive-bucket=s3://R":                                                      "is no location in a bucket",
		"--archive-endpoint=https://s3.example":                                        "set --archive-bucket too",
		"--archive-region=r --archive-directory=/a":                                    "set --archive-bucket too",
		"--archive-ca-file=/ca.crt":                                                    "set --archive-bucket too",
		"--archive-force-path-style=false":                                             "set --archive-bucket too",
		"--archive-bucket=s3://results --archive-endpoint=host":                        "the endpoint must be a URL such as https://",
		"--archive-bucket=s3://results --archive-endpoint=https://key:word@s3.example": "the endpoint must have no credentials",

		"--archive-bucket=s3://results --archive-endpoint=https://192.0.2.1 --archive-force-path-style=false":      "without path style the endpoint must have a host name",
		"--archive-bucket=s3://lab.results --archive-endpoint=https://s3.example --archive-force-path-style=false": "the name of bucket lab.results has a dot: it needs path style",
	} {
		if _, err := parse(strings.Fields(flags)); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "word") {
			t.Errorf("%s: %v", flags, err)
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
		if got := o.scrapeInterval.String(); got != want || o.nativeHistograms {
			t.Errorf("%q: %s, want %s", flag, got, want)
		}
	}
	if o, err := parse([]string{"--pod-monitor-native-histograms"}); err != nil || !o.nativeHistograms {
		t.Errorf("--pod-monitor-native-histograms: %v", err)
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

func TestSamplesAreSentWhereURLsAre(t *testing.T) {
	o, err := parse([]string{"--samples-remote-write-url=https://m.example/api/v1/write", "--samples-remote-write-http-config=/rw/http.yaml", "--samples-otlp-url=http://c.example:4318/v1/metrics", "--samples-labels=cluster=lab"})
	if err != nil {
		t.Fatal(err)
	}
	labels := map[string]string{"cluster": "lab"}
	want := []export.Target{
		{Protocol: export.RemoteWrite, URL: "https://m.example/api/v1/write", HTTPConfig: "/rw/http.yaml", Labels: labels}, {Protocol: export.OTLP, URL: "http://c.example:4318/v1/metrics", Labels: labels},
	}
	if got, err := o.exports(); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	if none, err := (&options{}).exports(); err != nil || len(none) != 0 {
		t.Errorf("%+v, %v", none, err)
	}
	for flag, want := range map[string]string{
		"--samples-remote-write-url=m.example":       "--samples-remote-write-url: it must be a complete http or https URL",
		"--samples-otlp-url=http://u:s3cret@c/":      "--samples-otlp-url: a user and a password do not belong into it",
		"--samples-otlp-http-config=/otlp/http.yaml": "set --samples-otlp-url too",
		"--samples-labels=cluster":                   "--samples-labels",
		"--samples-labels=cluster=lab":               "has no effect",
	} {
		if _, err := parse([]string{flag}); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v", flag, err)
		}
	}
}

func TestEnginePodsRequireTheArchitectureThatIsSet(t *testing.T) {
	for want, args := range map[string][]string{"amd64": nil, "arm64": {"--engine-architecture=arm64"}, "": {"--engine-architecture="}} {
		if o, err := parse(args); err != nil || o.architecture != want {
			t.Errorf("%v: %v %v", args, o, err)
		}
	}
	if _, err := parse([]string{"--engine-architecture=linux/arm64"}); err == nil || !strings.Contains(err.Error(), `--engine-architecture "linux/arm64": must be the value of a label, such as arm64`) {
		t.Error(err)
	}
}
