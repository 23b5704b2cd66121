// SPDX-License-Identifier: Apache-2.0

// Package mustgather answers: what do maintainers need to look into a problem of a cluster that they cannot reach?
package mustgather

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/discovery"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"spate.dev/operator/internal/plugin/cluster"
	"spate.dev/operator/internal/plugin/exit"
	pluginversion "spate.dev/operator/internal/plugin/version"
)

// leastLogBytes is enough for a few lines.
const leastLogBytes = 4096

// options of a command line.
type options struct {
	write, operatorNamespace string
	everywhere               bool
	logBytes                 int64
}

// NewCommand returns `must-gather`, with the version that the linker set.
func NewCommand(linked string) *cobra.Command {
	var where cluster.Flags
	var o options
	c := &cobra.Command{
		Use:   "must-gather",
		Short: "Gather what is needed to look into a problem, in one archive",
		Long: `Writes one archive (tar.gz) with Spate's objects of a namespace, or of all, their events, the pods of generators and their logs, facts of the nodes that they are
on, the output of kubectl spate doctor, the operator's pods, Deployment, events and logs, and versions. Look at it before you pass it on: README.md in it says what
each file is, what was redacted, and by which rules. Secrets are not read.

What may not be read, or cannot be, is omitted, and errors.txt has each with the reason; the exit code is 0 then, and 1 if none of Spate's objects could be read. All of it
takes the ClusterRole spate-viewer, and view for events, pods and their logs, in the namespaces and in the operator's; and the right to get nodes in the cluster.`,
		Example: `  kubectl spate must-gather
  kubectl spate must-gather -A -w problem.tar.gz
  kubectl spate must-gather -n tests --log-bytes 10485760 --operator-namespace traffic`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if o.logBytes < leastLogBytes {
				return fmt.Errorf("--log-bytes %d: must be at least %d", o.logBytes, leastLogBytes)
			}
			connection, err := where.Connect()
			if err != nil {
				return err
			}
			return o.run(c.Context(), connection, pluginversion.Text(linked), c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	where.Add(c)
	c.Flags().BoolVarP(&o.everywhere, "all-namespaces", "A", false, "of all namespaces")
	c.Flags().StringVarP(&o.write, "write", "w", "", "file to write, or - for standard output (spate-must-gather-TIME.tar.gz when absent)")
	c.Flags().Int64Var(&o.logBytes, "log-bytes", 1<<20, "bytes of each log to keep at most: a quarter from its beginning, the rest from its end")
	c.Flags().StringVar(&o.operatorNamespace, "operator-namespace", cluster.OperatorNamespace, "namespace of the operator")
	return c
}

// run writes the archive. Without an answer of the API server there is none.
func (o *options) run(ctx context.Context, connection *cluster.Connection, plugin string, stdout, stderr io.Writer) (err error) {
	fast := rest.CopyConfig(connection.Config)
	fast.QPS, fast.Burst = 50, 100
	pods, err := typedcorev1.NewForConfig(fast)
	if err != nil {
		return err
	}
	asked, err := discovery.NewDiscoveryClientForConfig(fast)
	if err != nil {
		return err
	}
	server, err := asked.ServerVersion()
	if err != nil {
		return fmt.Errorf("the API server does not report its version, and nothing was gathered: %w", err)
	}
	at := time.Now().UTC().Truncate(time.Second)
	root := "spate-must-gather-" + at.Format("20060102T150405Z")
	to := stdout
	if o.write == "" {
		o.write = root + ".tar.gz"
	}
	if o.write != "-" {
		file, err := os.OpenFile(o.write, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
		if err != nil {
			return fmt.Errorf("--write: %w", err)
		}
		defer func() { err = errors.Join(err, file.Close()) }()
		to = file
	}
	g := &gathering{
		archive: newArchive(to, root, at), client: connection.Client, pods: pods, namespace: connection.Namespace, operatorNamespace: o.operatorNamespace, logBytes: o.logBytes,
		versions: []string{"plugin: " + plugin, "API server: " + server.String()},
	}
	if o.everywhere {
		g.namespace = ""
	}
	g.all(ctx)
	if err := g.close(); err != nil {
		return err
	}
	name := o.write
	if name == "-" {
		name = root
	}
	fmt.Fprintf(stderr, "%s: files: %d; could not be read: %d (errors.txt); redacted: %d (README.md)\n", name, g.count, len(g.missing), len(g.done))
	switch {
	case ctx.Err() != nil:
		return exit.With(exit.Interrupted, errors.New("interrupted: the archive has what was read until then"))
	case g.readable == 0:
		return fmt.Errorf("none of Spate's objects could be read, such as %s", g.missing[0])
	}
	return nil
}
