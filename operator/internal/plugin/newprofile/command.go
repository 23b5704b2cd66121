// SPDX-License-Identifier: Apache-2.0

// Package newprofile answers: with which objects does a user start?
package newprofile

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/manifest"
	"spate.dev/operator/internal/offline"
	"spate.dev/operator/internal/plugin/cluster"
	"spate.dev/operator/internal/plugin/files"
	"spate.dev/operator/internal/plugin/resources"
)

// options of a command line.
type options struct {
	settings
	presetName, namespace, output string
}

// NewCommand returns `new`.
func NewCommand() *cobra.Command { return newCommand(isTerminal) }

// newCommand returns `new`; interactive reports whether a user can answer questions.
func newCommand(interactive func(io.Reader) bool) *cobra.Command {
	var o options
	var where cluster.Flags
	c := &cobra.Command{
		Use:   "new [NAME] --preset " + strings.Join(presetNames(), "|"),
		Short: "Print a profile to start from",
		Long: `Prints a complete TrafficProfile to start from, and for rfc2544 the TrafficSearch that uses it. It needs no cluster. Presets:
` + described() + `
Without --preset it prompts for the values on a terminal; questions go to standard error, so the output can be piped.

Without --generator the profile describes a generator of its own, with a loopback port: it needs no network, no hugepages and no CPU of its own, and
what it sends is what it receives. It is for experiments, not for measurement. --generator names a TrafficGenerator to run on; traffic goes from its first
port to its second unless --port and --receive-port name others. Its ports have addresses, or --destination-mac is where packets are sent; and kubectl spate validate
and plan need that generator among their files. --with-generator prints a TrafficGenerator of that name with a loopback port, too.

The objects are validated as kubectl spate validate does; those that are not valid are not printed. NAME is the preset's when absent.`,
		Example: `  kubectl spate new --preset imix | kubectl spate run - --wait
  kubectl spate new web --preset http --generator lab --rate 1kcps --duration 1m > web.yaml
  kubectl spate new --preset syn-flood --generator lab --port east --receive-port west | kubectl spate run - --wait
  kubectl spate new --preset imix --generator try --with-generator | kubectl apply -f -
  kubectl spate new --preset rfc2544 --duration 1s | kubectl apply -f - && kubectl spate search watch rfc2544
  kubectl spate new > profile.yaml`,
		Args: cobra.MaximumNArgs(1),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveNoFileComp // a new name
		},
		RunE: func(c *cobra.Command, args []string) error {
			o.namespace = c.Flag("namespace").Value.String()
			given := map[string]bool{}
			for _, q := range questions() {
				given[q.flag] = c.Flags().Changed(q.flag)
			}
			if given["name"] = len(args) > 0; given["name"] {
				o.name = args[0]
			}
			if o.presetName == "" {
				if !interactive(c.InOrStdin()) {
					return fmt.Errorf("--preset is needed where there is no terminal to ask questions on: one of %s", strings.Join(presetNames(), ", "))
				}
				if err := o.ask(c.InOrStdin(), c.ErrOrStderr(), given); err != nil {
					return err
				}
			}
			problems, err := o.complete()
			if err != nil {
				return err
			}
			if len(problems) > 0 {
				files.Tell(c.ErrOrStderr(), problems)
				return fmt.Errorf("the objects would not be valid: problems found: %d", len(problems))
			}
			return resources.Put(c, o.output, o.namespace, o.objects())
		},
	}
	f := c.Flags()
	f.StringVar(&o.presetName, "preset", "", "traffic to start from: "+strings.Join(presetNames(), ", "))
	where.Add(c)
	for flag, usage := range map[string]string{
		"namespace": "namespace of the objects; when absent, they get the one of kubectl apply", "context": "context of the kubeconfig, for completion of --generator",
		"kubeconfig": "path of the kubeconfig, for completion of --generator",
	} {
		c.Flag(flag).Usage = usage
	}
	f.StringVar(&o.generator, "generator", "", "TrafficGenerator to run on (a loopback port of the profile's own when absent)")
	f.BoolVar(&o.withGenerator, "with-generator", false, "print the TrafficGenerator that --generator names, too, with a loopback port")
	f.StringVar(&o.port, "port", "", "port that sends, or has the clients (the generator's first when absent)")
	f.StringVar(&o.receivePort, "receive-port", "", "port where packets are expected, or where the servers are (the generator's second when absent)")
	f.StringVar(&o.rate, "rate", "", "packets or connections a second; of rfc2544 the greatest load (the preset's when absent)")
	f.StringVar(&o.duration, "duration", "", "length of the run; of rfc2544 that of a full-length trial (the preset's when absent)")
	f.StringVar(&o.source, "source", "", "source IPv4 address of packets, or the first address of clients (the preset's when absent)")
	f.StringVar(&o.destination, "destination", "", "destination IPv4 address of packets, or the first address of servers (the preset's when absent)")
	f.StringVar(&o.destinationMAC, "destination-mac", "", "destination MAC address of packets (the port's next hop when absent)")
	f.StringVarP(&o.output, "output", "o", "yaml", "yaml for standard output, or a folder for a file for each object")
	_ = c.RegisterFlagCompletionFunc("preset", cobra.FixedCompletions(completions(), cobra.ShellCompDirectiveNoFileComp)) // fails for a flag that does not exist only
	_ = c.RegisterFlagCompletionFunc("generator", func(c *cobra.Command, _ []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return where.Complete(1, cluster.Generators)(c, nil, prefix)
	})
	return c
}

func isTerminal(from io.Reader) bool {
	file, ok := from.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

func presetNames() (names []string) {
	for _, p := range presets {
		names = append(names, p.name)
	}
	return names
}

func completions() (all []cobra.Completion) {
	for _, p := range presets {
		all = append(all, cobra.CompletionWithDesc(p.name, p.about))
	}
	return all
}

// described has a line for each preset.
func described() string {
	var text strings.Builder
	for _, p := range presets {
		fmt.Fprintf(&text, "  %-10s %s (%s, %s)\n", p.name, p.about, p.rate, p.duration)
	}
	return text.String()
}

// complete fills in what no option says, and returns the problems of the objects.
func (o *options) complete() ([]manifest.Problem, error) {
	at := slices.IndexFunc(presets, func(p preset) bool { return p.name == o.presetName })
	if at < 0 {
		return nil, fmt.Errorf("--preset %s: must be one of %s", o.presetName, strings.Join(presetNames(), ", "))
	}
	o.preset = &presets[at]
	switch {
	case o.withGenerator && o.generator == "":
		return nil, errors.New("--with-generator prints the TrafficGenerator that --generator names: name one that does not exist yet")
	case o.isLoopback() && o.receivePort != "" && o.receivePort != cmp.Or(o.port, loopbackPort):
		return nil, fmt.Errorf("--receive-port %s: a loopback port receives what it sends itself: omit the flag, or name a TrafficGenerator that exists with --generator alone", o.receivePort)
	case o.destinationMAC != "" && !o.preset.packets:
		return nil, fmt.Errorf("--destination-mac goes with packets, and %s has connections, whose ports find their next hops", o.preset.name)
	}
	if o.isLoopback() {
		o.port = cmp.Or(o.port, loopbackPort)
		o.receivePort = o.port
	}
	o.name = cmp.Or(o.name, o.preset.name)
	o.rate, o.duration = cmp.Or(o.rate, o.preset.rate), cmp.Or(o.duration, o.preset.duration)
	o.source, o.destination = cmp.Or(o.source, o.preset.source), cmp.Or(o.destination, o.preset.destination)
	return o.problems()
}

// problems are those that `validate` would find. A TrafficGenerator that is not printed is taken to have the ports, with addresses.
func (o *options) problems() ([]manifest.Problem, error) {
	var text bytes.Buffer
	if err := resources.Show(&text, o.objects()); err != nil {
		return nil, err
	}
	reader := manifest.Reader{Namespace: o.namespace}
	reader.Read("new", text.Bytes())
	if !o.isLoopback() {
		var generator bytes.Buffer
		if err := resources.Show(&generator, []resources.Resource{{Kind: "trafficgenerator", Object: o.assumed()}}); err != nil {
			return nil, err
		}
		reader.Read("the generator", generator.Bytes())
	}
	set, problems := reader.Done()
	return append(problems, offline.Files{Set: set, LineRate: offline.DefaultLineRate}.Check()...), nil
}

// assumed is a generator with the ports that are named, or two.
func (o *options) assumed() *spatev1.TrafficGenerator {
	g := &spatev1.TrafficGenerator{TypeMeta: typeOf("TrafficGenerator"), ObjectMeta: metav1.ObjectMeta{Name: o.generator}}
	for i, name := range slices.Compact([]string{cmp.Or(o.port, "first"), cmp.Or(o.receivePort, "second")}) {
		g.Spec.Ports = append(g.Spec.Ports, spatev1.GeneratorPort{
			Name: spatev1.PortName(name), LineRate: offline.DefaultLineRate,
			Addresses: []spatev1.InterfaceAddress{spatev1.InterfaceAddress(fmt.Sprintf("192.0.2.%d/30", 4*i+1))}, Gateway: spatev1.IPv4Address(fmt.Sprintf("192.0.2.%d", 4*i+2)),
			Attachment: spatev1.PortAttachment{Kernel: &spatev1.KernelAttachment{NetworkReference: spatev1.NetworkReference{Network: spatev1.ObjectName(name)}}},
		})
	}
	return g
}
