// SPDX-License-Identifier: Apache-2.0

// Is the first thing that a user does what the documentation says, up to Prometheus? The chart is installed (e2e/install), a preset is run, and a
// Prometheus that the Prometheus operator runs has the run's numbers, and the chart's alerts.

package suites

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// firstTest has these commands with their output; only measures and lines of progress may differ.
const firstTest = "docs/first-test.md"

const (
	firstRun   = "kubectl spate new --preset imix | kubectl spate run - --wait --junit out.xml"
	firstQuery = `curl -s http://127.0.0.1:9090/api/v1/query --data-urlencode 'query=sum by (stream) (spate_stream_tx_packets_total{profile="imix",phase="measured"})' | jq -c '.data.result[]'`
)

// terminal executes commands as they are typed, and keeps them with their output.
type terminal struct {
	folder  string
	env     []string
	printed strings.Builder
}

// types executes a command and returns what it printed, and its exit code.
func (s *terminal) types(t *testing.T, command string) (said string, code int) {
	t.Helper()
	shell := exec.CommandContext(t.Context(), "bash", "-o", "pipefail", "-c", command)
	shell.Dir, shell.Env = s.folder, append(os.Environ(), s.env...)
	out, err := shell.CombinedOutput()
	if exited := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exited) {
		t.Fatalf("%s: %v", command, err)
	}
	fmt.Fprintf(&s.printed, "$ %s\n%s", command, out)
	return string(out), shell.ProcessState.ExitCode()
}

// The run measures whether packets are late, so no test runs beside it.
func TestAPresetRunsAndPrometheusHasItsNumbers(t *testing.T) {
	ns := namespace(t)
	editor := userOf(t, ns, "spate-editor")
	// The preset has a generator of its own.
	if err := kube.Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "spate-generator-editor"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: ns, Name: "spate-editor"}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "spate-generator-editor"},
	}); err != nil {
		t.Fatal(err)
	}
	user := &terminal{folder: t.TempDir(), env: []string{"KUBECONFIG=" + editor, "PATH=" + filepath.Join(root, "build/out") + ":" + os.Getenv("PATH")}}
	defer func() { t.Logf("the terminal:\n%s", user.printed.String()) }()

	said, code := user.types(t, firstRun)
	fmt.Fprintf(&user.printed, "$ echo $?\n%d\n", code)
	if code != 0 {
		t.Fatalf("it exits with %d", code)
	}
	for _, words := range []string{"trafficprofile/imix applied", "Passed: 120000 packets sent, 120000 received, 0 lost; 2 thresholds hold"} {
		if !strings.Contains(said, words) {
			t.Errorf("it does not print %q", words)
		}
	}
	report, err := os.ReadFile(filepath.Join(user.folder, "out.xml"))
	if err != nil {
		t.Fatal(err)
	}
	passes(t, string(report), "valid", "threshold no-loss", "threshold in-order")
	page := unmeasured(documented(t))
	if said := unmeasured(user.printed.String()); !strings.HasPrefix(page, said) {
		t.Errorf("%s has\n%s\nand the terminal, likewise without numbers,\n%s", firstTest, page, said)
	}

	run := complete(t, 10*time.Second, profileNamed(ns, "imix"))
	agree(t, run)
	t.Run("by what the Prometheus operator made of our PodMonitor", func(t *testing.T) {
		needsRig(t, thePrometheus)
		scrapedBy(t, ns, "podMonitor/"+ns+"/"+kubectl(t, "get", "podmonitors", "-n", ns, "-o", "jsonpath={.items[*].metadata.name}")+"/0")
		numbers, code := user.types(t, firstQuery)
		if want := strconv.FormatInt(run.Status.Result.Tx, 10); code != 0 || !strings.Contains(numbers, `"`+want+`"`) {
			t.Errorf("the query exits with %d and does not have %s", code, want)
		}
		if said := unmeasured(user.printed.String()); said != page {
			t.Errorf("%s has\n%s\nand the terminal, likewise without numbers,\n%s", firstTest, page, said)
		}
	})
}

// documented returns the commands and their output as the page has them.
func documented(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(root, firstTest))
	if err != nil {
		t.Fatal(err)
	}
	_, block, found := strings.Cut(string(page), "```console\n$ "+firstRun)
	block, _, closed := strings.Cut(block, "```\n")
	if !found || !closed {
		t.Fatalf("%s has no output of %s", firstTest, firstRun)
	}
	return "$ " + firstRun + block
}

var (
	// progress is a line that depends on when it is printed.
	progress = regexp.MustCompile(`(?m)^(?:profile|run) \S+  .*\n`)
	ended    = regexp.MustCompile(`(?m)^run (\S+)  (Complete: .*)$`)
	// measures are what differs from run to run: its name, instants, numbers with their units, and spaces that follow from their lengths.
	measures = []struct {
		what *regexp.Regexp
		mask string
	}{
		{regexp.MustCompile(`\bimix-[0-9a-f]{5}-\d+`), "RUN"},
		{regexp.MustCompile(`\d{4}-\d\d-\d\dT[\d:.]+Z`), "INSTANT"},
		{regexp.MustCompile(`\d[\d.]*(?:ns|µs|ms|s)?`), "N"},
		{regexp.MustCompile(` +`), " "},
	}
)

// unmeasured returns what a terminal has without what differs from run to run.
func unmeasured(printed string) string {
	printed = progress.ReplaceAllString(ended.ReplaceAllString(printed, "$1: $2"), "")
	for _, of := range measures {
		printed = of.what.ReplaceAllString(printed, of.mask)
	}
	return printed
}

// passes fails unless a JUnit file has these cases in one suite, each passed.
func passes(t *testing.T, report string, names ...string) {
	t.Helper()
	var file struct {
		Suites []struct {
			Tests    int `xml:"tests,attr"`
			Failures int `xml:"failures,attr"`
			Errors   int `xml:"errors,attr"`
			Cases    []struct {
				Name string `xml:"name,attr"`
			} `xml:"testcase"`
		} `xml:"testsuite"`
	}
	if err := xml.Unmarshal([]byte(report), &file); err != nil || len(file.Suites) != 1 {
		t.Fatalf("%d suites: %v", len(file.Suites), err)
	}
	suite := file.Suites[0]
	cases := make([]string, 0, len(suite.Cases))
	for _, c := range suite.Cases {
		cases = append(cases, c.Name)
	}
	if !slices.Equal(cases, names) || suite.Tests != len(names) || suite.Failures != 0 || suite.Errors != 0 {
		t.Errorf("cases %q, %d tests with %d failures and %d errors; want %q, all passed", cases, suite.Tests, suite.Failures, suite.Errors, names)
	}
}

// scrapedBy fails unless Prometheus scrapes one target of a namespace, found by Kubernetes discovery, by a scrape configuration.
func scrapedBy(t *testing.T, ns, job string) {
	t.Helper()
	var targets struct {
		ActiveTargets []struct {
			ScrapePool, Health, LastError string
			DiscoveredLabels              map[string]string
		}
	}
	if err := ask(t.Context(), "targets?state=active", &targets); err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, target := range targets.ActiveTargets {
		if target.DiscoveredLabels["__meta_kubernetes_namespace"] != ns {
			continue
		}
		if n++; target.ScrapePool != job || target.Health != "up" {
			t.Errorf("a target of %s, %s %s; want one of %s", target.ScrapePool, target.Health, target.LastError, job)
		}
	}
	if n != 1 {
		t.Errorf("%d targets, want 1", n)
	}
}

// The operator of Prometheus hands the chart's PrometheusRule to Prometheus, which evaluates every rule of it.
func TestPrometheusEvaluatesTheAlertsOfTheChart(t *testing.T) {
	t.Parallel()
	needsRig(t, thePrometheus)
	const all = "{.items[*].spec.groups[*].rules[*].alert} {.items[*].spec.groups[*].rules[*].record}"
	want := len(strings.Fields(kubectl(t, "get", "prometheusrules", "-n", operatorNamespace, "-o", "jsonpath="+all)))
	if want < 5 {
		t.Fatalf("the chart has only %d rules", want)
	}
	until(t, 2*time.Minute, "all rules are evaluated", func(ctx context.Context) (bool, string) {
		var rules struct {
			Groups []struct {
				Rules []struct{ Name, Health, LastError string }
			}
		}
		if err := ask(ctx, "rules", &rules); err != nil {
			return false, err.Error()
		}
		n := 0
		var seen []string
		for _, group := range rules.Groups {
			for _, rule := range group.Rules {
				if rule.Health == "ok" {
					n++
				} else {
					seen = append(seen, fmt.Sprintf("%s: %s %s", rule.Name, rule.Health, rule.LastError))
				}
			}
		}
		return n == want, fmt.Sprintf("%d of %d; %q", n, want, seen)
	})
}
