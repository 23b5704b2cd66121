// SPDX-License-Identifier: Apache-2.0

// Package doctor answers: what limits the machines of a generator's pods, and what is to be done about it?
package doctor

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/plugin/cluster"
	"spate.dev/operator/internal/plugin/output"
	"spate.dev/operator/internal/preflight"
)

// NewCommand returns `doctor`.
func NewCommand() *cobra.Command {
	var where cluster.Flags
	var form output.Flag
	c := &cobra.Command{
		Use:   "doctor GENERATOR",
		Short: "Check the machines of a generator's pods",
		Long: `Shows the preflight of a TrafficGenerator: for each pod, the checks of the machine that its engine runs on, what was observed, and the
remedy of each finding. Findings come first, then what is unknown because it could not be read, then checks without a finding.

The operator judges what engines report, and keeps it in status.pods[].preflight; this command reads only that. The exit code is 1 if a
check has the state Error, or if a pod has not reported its machine; 0 also with warnings. To wait for a generator without
warnings, wait for its condition MachineReady.`,
		Example: `  kubectl spate doctor lab
  kubectl spate doctor lab -n tests -o json | jq '.pods[].checks[] | select(.state != "Ok")'
  kubectl spate doctor lab -o csv > checks.csv
  kubectl wait tg/lab --for=condition=MachineReady --timeout=2m`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: where.Complete(1, cluster.Generators),
		RunE: func(c *cobra.Command, args []string) error {
			if err := form.Check(); err != nil {
				return err
			}
			connection, err := where.Connect()
			if err != nil {
				return err
			}
			g := &spatev1.TrafficGenerator{}
			if err := connection.Client.Get(c.Context(), kube.ObjectKey{Namespace: connection.Namespace, Name: args[0]}, g); err != nil {
				return err
			}
			return errors.Join(form.Write(c.OutOrStdout(), shown(g)), problem(g))
		},
	}
	where.Add(c)
	form.Add(c)
	return c
}

// Write prints the checks of a generator as tables, and returns what makes the exit code of `doctor` 1.
func Write(w io.Writer, g *spatev1.TrafficGenerator) error {
	return errors.Join(writeTables(w, g, false), problem(g))
}

// shown are the checks of a generator in every form.
func shown(g *spatev1.TrafficGenerator) output.Shown {
	document := reportOf(g)
	return output.Shown{
		Document: document, Lists: []output.List{{Name: "check", Objects: document.rows()}},
		Tables: func(w io.Writer, wide bool) error { return writeTables(w, g, wide) },
	}
}

// problem returns why an engine cannot work on its machine, or why that is not known.
func problem(g *spatev1.TrafficGenerator) error {
	failed := 0
	var silent []string
	for _, pod := range g.Status.Pods {
		if len(pod.Preflight) == 0 {
			silent = append(silent, pod.Name)
		}
		for _, c := range pod.Preflight {
			if c.State == spatev1.PreflightError {
				failed++
			}
		}
	}
	switch {
	case len(g.Status.Pods) == 0:
		return fmt.Errorf("generator %s has no pods", g.Name)
	case failed > 0:
		return fmt.Errorf("checks with errors: %d", failed)
	case len(silent) > 0:
		return fmt.Errorf("pods that have not reported their machines: %s", strings.Join(silent, ", "))
	}
	return nil
}

// report is a generator's preflight for programs.
type report struct {
	Name      string            `json:"name"`
	Namespace string            `json:"namespace"`
	Condition *metav1.Condition `json:"condition,omitempty"`
	Pods      []podReport       `json:"pods"`
}

// podReport is a pod's part of it.
type podReport struct {
	Name    string                   `json:"name"`
	Node    string                   `json:"node,omitempty"`
	Message string                   `json:"message,omitempty"`
	Checks  []spatev1.PreflightCheck `json:"checks"`
}

// row is a check, for CSV.
type row struct {
	Generator string `json:"generator"`
	Pod       string `json:"pod"`
	Node      string `json:"node"`
	Check     string `json:"check"`
	Subject   string `json:"subject"`
	State     string `json:"state"`
	Observed  string `json:"observed"`
	Remedy    string `json:"remedy"`
}

// rows are the checks of all pods. A pod that has not reported its machine has one without a check, whose state is that of what could not be read.
func (r *report) rows() []row {
	all := []row{}
	for _, pod := range r.Pods {
		if len(pod.Checks) == 0 {
			all = append(all, row{Generator: r.Name, Pod: pod.Name, Node: pod.Node, State: string(spatev1.PreflightUnknown), Observed: cmp.Or(pod.Message, notAnswered)})
		}
		for _, c := range pod.Checks {
			all = append(all, row{r.Name, pod.Name, pod.Node, c.Check, c.Subject, string(c.State), c.Observed, c.Remedy})
		}
	}
	return all
}

func reportOf(g *spatev1.TrafficGenerator) *report {
	r := &report{Name: g.Name, Namespace: g.Namespace, Condition: meta.FindStatusCondition(g.Status.Conditions, spatev1.ConditionMachineReady), Pods: []podReport{}}
	for _, pod := range g.Status.Pods {
		checks := append([]spatev1.PreflightCheck{}, pod.Preflight...)
		r.Pods = append(r.Pods, podReport{pod.Name, pod.Node, pod.Message, checks})
	}
	return r
}

// notAnswered is why a pod has no checks, if the operator gives no reason.
const notAnswered = "its engine has not answered"

// writeTables writes a table for each pod; wide with the names of pod and node in each row.
func writeTables(w io.Writer, g *spatev1.TrafficGenerator, wide bool) error {
	out := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	if c := meta.FindStatusCondition(g.Status.Conditions, spatev1.ConditionMachineReady); c != nil {
		fmt.Fprintf(out, "Generator %s: %s=%s (%s)\n", g.Name, c.Type, c.Status, c.Reason)
	} else {
		fmt.Fprintf(out, "Generator %s: the operator has not judged its machines\n", g.Name)
	}
	if ready := meta.FindStatusCondition(g.Status.Conditions, spatev1.ConditionReady); ready != nil && len(g.Status.Pods) == 0 {
		fmt.Fprintf(out, "%s: %s\n", ready.Reason, ready.Message)
	}
	for _, pod := range g.Status.Pods {
		fmt.Fprintf(out, "\nPod %s", pod.Name)
		if pod.Node != "" {
			fmt.Fprintf(out, " on node %s", pod.Node)
		}
		if len(pod.Preflight) == 0 {
			fmt.Fprintf(out, " has not reported its machine: %s\n", cmp.Or(pod.Message, notAnswered))
			continue
		}
		found := 0
		for i := range pod.Preflight {
			if preflight.IsFinding(&pod.Preflight[i]) {
				found++
			}
		}
		fmt.Fprintf(out, ": checks %d, findings %d\n", len(pod.Preflight), found)
		headings := []string{"CHECK", "SUBJECT", "STATE", "OBSERVED", "REMEDY"}
		if wide {
			headings = append(headings, "POD", "NODE")
		}
		fmt.Fprintln(out, strings.Join(headings, "\t"))
		for _, c := range pod.Preflight {
			cells := []string{c.Check, c.Subject, string(c.State), c.Observed, cmp.Or(c.Remedy, "-")}
			if wide {
				cells = append(cells, pod.Name, cmp.Or(pod.Node, "-"))
			}
			fmt.Fprintln(out, strings.Join(cells, "\t"))
		}
		out.Flush() // an error is reported by the last call
	}
	return out.Flush()
}
