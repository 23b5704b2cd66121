// SPDX-License-Identifier: Apache-2.0

// Package routes answers: which sessions of routing protocols do the ports of a generator have, and how many routes came by them?
package routes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/plugin/cluster"
	"spate.dev/operator/internal/plugin/output"
	"spate.dev/operator/internal/runs"
)

// NewCommand returns `routes`.
func NewCommand() *cobra.Command {
	var where cluster.Flags
	var form output.Flag
	c := &cobra.Command{
		Use:   "routes [GENERATOR | RUN | PROFILE]",
		Short: "Show the sessions of routing protocols of a generator's ports",
		Long: `Shows the sessions of BGP, OSPF, RIP and BFD that the ports of a TrafficGenerator have, for each pod: their states in the protocols' own
words, since when, how often they fell, and why a session is down; the routes that runs have them advertise (CONFIGURED), those that neighbors were
sent, and those that neighbors have sent. A run or a profile stands for the generator that it runs on.

The operator queries engines every 10 s, and every 2 s while a session is down; this command reads only the generator's status. The exit code
is 1 if a session is down, or if an engine does not have its sessions. To wait for all of them, wait for the condition RoutingReady.`,
		Example: `  kubectl spate routes lab
  kubectl spate routes convergence -o json | jq '.pods[].sessions[] | select(.up | not)'
  kubectl wait tg/lab --for=condition=RoutingReady --timeout=1m`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: where.Complete(1, cluster.Generators, cluster.Runs, cluster.Profiles),
		RunE: func(c *cobra.Command, args []string) error {
			if err := form.Check(); err != nil {
				return err
			}
			connection, err := where.Connect()
			if err != nil {
				return err
			}
			g, err := find(c.Context(), connection.Client, connection.Namespace, args[0])
			if err != nil {
				return err
			}
			return errors.Join(form.Write(c.OutOrStdout(), shown(g, time.Now())), problem(g))
		},
	}
	where.Add(c)
	form.Add(c)
	return c
}

// find returns the generator of a name, or that of the run or the profile of the name.
func find(ctx context.Context, reader kube.Reader, namespace, argument string) (*spatev1.TrafficGenerator, error) {
	g := &spatev1.TrafficGenerator{}
	if !strings.Contains(argument, "/") {
		err := reader.Get(ctx, kube.ObjectKey{Namespace: namespace, Name: argument}, g)
		if err == nil || kube.IgnoreNotFound(err) != nil {
			return g, err
		}
	}
	subject, err := cluster.Find(ctx, reader, namespace, argument)
	if err != nil {
		return nil, err
	}
	if subject.Generator != nil {
		return subject.Generator, nil
	}
	if subject.Run == nil {
		return nil, fmt.Errorf("%s %s has no run, so no generator is known to be its own; name the generator", subject.Kind, subject.Name)
	}
	key, known := runs.GeneratorKey(subject.Run)
	if !known {
		return nil, fmt.Errorf("run %s is on no generator yet; name the generator", subject.Run.Name)
	}
	return g, reader.Get(ctx, key, g)
}

// problem returns why not all sessions are known to be up.
func problem(g *spatev1.TrafficGenerator) error {
	switch c := condition(g); {
	case c == nil:
		return fmt.Errorf("no port of generator %s has routing, or the operator has not seen it", g.Name)
	case c.Status != metav1.ConditionTrue:
		return fmt.Errorf("%s: %s", c.Reason, c.Message)
	}
	return nil
}

func condition(g *spatev1.TrafficGenerator) *metav1.Condition {
	return meta.FindStatusCondition(g.Status.Conditions, spatev1.ConditionRoutingReady)
}

// report is the sessions of a generator, for programs.
type report struct {
	Name      string            `json:"name"`
	Namespace string            `json:"namespace"`
	Condition *metav1.Condition `json:"condition,omitempty"`
	Pods      []podReport       `json:"pods"`
}

// podReport is those of a pod.
type podReport struct {
	Name     string          `json:"name"`
	Node     string          `json:"node,omitempty"`
	Sessions []sessionReport `json:"sessions"`
}

// sessionReport is a session with its port.
type sessionReport struct {
	Port                         string `json:"port"`
	spatev1.RoutingSessionStatus `json:",inline"`
}

// row is a session, for CSV.
type row struct {
	Generator string `json:"generator"`
	Pod       string `json:"pod"`
	Port      string `json:"port"`
	Session   string `json:"session"`
	Protocol  string `json:"protocol"`
	Up        bool   `json:"up"`
	State     string `json:"state"`
	Since     string `json:"since"`
	Flaps     int64  `json:"flaps"`
	Received  int64  `json:"routesReceived"`
	// Configured and Sent are the routes that runs have the session advertise, and those that neighbors have.
	Configured int64  `json:"routesConfigured"`
	Sent       int64  `json:"routesSent"`
	LastError  string `json:"lastError"`
}

func reportOf(g *spatev1.TrafficGenerator) *report {
	r := &report{Name: g.Name, Namespace: g.Namespace, Condition: condition(g), Pods: []podReport{}}
	for _, pod := range g.Status.Pods {
		sessions := []sessionReport{}
		for _, port := range pod.Ports {
			for _, s := range port.Sessions {
				sessions = append(sessions, sessionReport{port.Name, s})
			}
		}
		r.Pods = append(r.Pods, podReport{pod.Name, pod.Node, sessions})
	}
	return r
}

// rows are the sessions of all pods.
func (r *report) rows() []row {
	all := []row{}
	for _, pod := range r.Pods {
		for _, s := range pod.Sessions {
			since := ""
			if s.Since != nil {
				since = s.Since.UTC().Format(time.RFC3339)
			}
			all = append(all, row{r.Name, pod.Name, s.Port, s.Name, string(s.Protocol), s.Up, s.State, since, s.Flaps, s.RoutesReceived, s.RoutesConfigured, s.RoutesSent, s.LastError})
		}
	}
	return all
}

// shown are the sessions of a generator in every form.
func shown(g *spatev1.TrafficGenerator, now time.Time) output.Shown {
	document := reportOf(g)
	return output.Shown{
		Document: document, Lists: []output.List{{Name: "session", Objects: document.rows()}},
		Tables: func(w io.Writer, wide bool) error { return writeTable(w, document, now, wide) },
	}
}

// writeTable writes the sessions of all pods; wide with the node of each.
func writeTable(w io.Writer, r *report, now time.Time, wide bool) error {
	out := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	headings := []string{"POD", "PORT", "SESSION", "PROTOCOL", "STATE", "FOR", "FLAPS", "CONFIGURED", "SENT", "RECEIVED", "LAST ERROR"}
	if wide {
		headings = append(headings, "NODE")
	}
	fmt.Fprintln(out, strings.Join(headings, "\t"))
	for _, pod := range r.Pods {
		for _, s := range pod.Sessions {
			since := "-"
			if s.Since != nil {
				since = duration.HumanDuration(now.Sub(s.Since.Time))
			}
			cells := []string{
				pod.Name, s.Port, s.Name, string(s.Protocol), s.State, since, number(s.Flaps), number(s.RoutesConfigured), number(s.RoutesSent), number(s.RoutesReceived), cmp.Or(s.LastError, "-"),
			}
			if wide {
				cells = append(cells, cmp.Or(pod.Node, "-"))
			}
			fmt.Fprintln(out, strings.Join(cells, "\t"))
		}
	}
	return out.Flush()
}

func number(n int64) string { return strconv.FormatInt(n, 10) }
