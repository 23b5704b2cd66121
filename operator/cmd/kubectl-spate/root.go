// SPDX-License-Identifier: Apache-2.0

// Which commands are there?

package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"spate.dev/operator/internal/plugin/capture"
	"spate.dev/operator/internal/plugin/change"
	"spate.dev/operator/internal/plugin/clients"
	"spate.dev/operator/internal/plugin/cluster"
	"spate.dev/operator/internal/plugin/compare"
	"spate.dev/operator/internal/plugin/doctor"
	"spate.dev/operator/internal/plugin/events"
	"spate.dev/operator/internal/plugin/export"
	"spate.dev/operator/internal/plugin/importing"
	"spate.dev/operator/internal/plugin/logs"
	"spate.dev/operator/internal/plugin/mustgather"
	"spate.dev/operator/internal/plugin/newprofile"
	"spate.dev/operator/internal/plugin/ping"
	"spate.dev/operator/internal/plugin/plan"
	"spate.dev/operator/internal/plugin/receive"
	"spate.dev/operator/internal/plugin/records"
	"spate.dev/operator/internal/plugin/report"
	"spate.dev/operator/internal/plugin/result"
	"spate.dev/operator/internal/plugin/routes"
	"spate.dev/operator/internal/plugin/run"
	"spate.dev/operator/internal/plugin/search"
	"spate.dev/operator/internal/plugin/simulate"
	"spate.dev/operator/internal/plugin/status"
	"spate.dev/operator/internal/plugin/top"
	"spate.dev/operator/internal/plugin/validate"
	pluginversion "spate.dev/operator/internal/plugin/version"
)

func newRootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "kubectl-spate",
		Short: "Traffic profiles from the command line",
		Long: `Traffic profiles from the command line.

What is done with files needs no cluster: check manifests, see the plan that engines would get, write the packets that
they would send to a capture, bring profiles over from TRex. Runs are started, watched and followed to their verdicts; their results are shown as tables; records of their
connections are printed, foreign traffic is shown by port, and packets of ports are captured, while they run. Ports ping other stations, and have sessions
of routing protocols with them. The machines that generators run on are checked. Events and logs are shown, and collected in an archive.`,
		Example: `  kubectl spate new --preset imix | kubectl spate run - --wait
  kubectl spate validate smoke.yaml udp-64.yaml
  kubectl spate simulate smoke.yaml udp-64.yaml --pcap smoke.pcap --limit 1000
  kubectl spate doctor lab
  kubectl spate run -f smoke.yaml --wait
  kubectl spate status
  kubectl spate top smoke
  kubectl spate receive tap --by worker
  kubectl spate result smoke
  kubectl spate report smoke --output-file smoke.html
  kubectl spate export smoke --remote-write http://prometheus.example:9090/api/v1/write
  kubectl spate rate smoke +10%
  kubectl spate search report router
  kubectl spate records web
  kubectl spate capture lab --port east -w - | wireshark -k -i -
  kubectl spate ping lab 198.18.0.254 --port east --count 3
  kubectl spate routes lab
  kubectl spate clients subscribers-1 --state Failed
  kubectl spate events smoke --watch
  kubectl spate logs smoke --follow
  kubectl spate must-gather`,
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl spate"},
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(validate.NewCommand(), plan.NewCommand(), simulate.NewCommand(), importing.NewCommand(), run.NewCommand(), status.NewCommand(), top.NewCommand(), receive.NewCommand(), result.NewCommand(), report.NewCommand(), export.NewCommand(), compare.NewCommand(), change.NewRateCommand(), change.NewPauseCommand(), change.NewResumeCommand(), change.NewStopCommand(),
		search.NewCommand(), records.NewCommand(), capture.NewCommand(), ping.NewCommand(), doctor.NewCommand(), pluginversion.NewCommand(version))
	root.AddCommand(newprofile.NewCommand(), events.NewCommand(), logs.NewCommand(), mustgather.NewCommand(version))
	root.AddCommand(routes.NewCommand(), clients.NewCommand())
	root.SetUsageFunc(usageOf(root.UsageFunc()))
	showUsage(root)
	return root
}

// showUsage adds to errors about the number of arguments which arguments the commands take.
func showUsage(c *cobra.Command) {
	for _, sub := range c.Commands() {
		showUsage(sub)
	}
	counted := c.Args
	if counted == nil || !c.Runnable() {
		return
	}
	c.Args = func(c *cobra.Command, args []string) error {
		if err := counted(c, args); err != nil {
			return fmt.Errorf("%w: %s", err, c.UseLine())
		}
		return nil
	}
}

// usageOf writes the usual usage of a command, but for kubectl's flags of the connection, of which it has the names: their descriptions would be
// longer than all else.
func usageOf(usual func(*cobra.Command) error) func(*cobra.Command) error {
	return func(c *cobra.Command) error {
		flags := cluster.ConnectionFlags(c)
		var names []string
		for _, flag := range flags {
			flag.Hidden = true
			names = append(names, "--"+flag.Name)
		}
		err := usual(c)
		for _, flag := range flags {
			flag.Hidden = false
		}
		if len(names) > 0 {
			fmt.Fprintln(c.OutOrStderr(), "\nFlags of the connection, as kubectl has them (kubectl options):")
			for some := range slices.Chunk(names, 7) {
				fmt.Fprintln(c.OutOrStderr(), "  "+strings.Join(some, ", "))
			}
		}
		return err
	}
}
