// SPDX-License-Identifier: Apache-2.0

// Package importing answers: how are other generators' profiles, and captures, converted to Spate's resources?
package importing

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"spate.dev/operator/internal/importer/trex"
	"spate.dev/operator/internal/plugin/files"
	"spate.dev/operator/internal/plugin/resources"
)

// NewCommand returns `import`.
func NewCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "import",
		Short: "Convert profiles of other generators, and captures, to resources",
		Example: `  kubectl spate import trex imix.json --generator lab --port east | kubectl apply -f -
  kubectl spate import pcap web.pcap --rate 100cps | kubectl apply -f -`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() }, // without it cobra accepts any word
	}
	command.AddCommand(newTRexCommand(), newPcapCommand())
	return command
}

// importTRex are the options of the command.
type importTRex struct {
	file                    files.One
	name, namespace, output string
	sourceMAC, target       string
	python, tags            string
	direction               int
	tunables                map[string]string
	options                 trex.Options
}

func newTRexCommand() *cobra.Command {
	var o importTRex
	command := &cobra.Command{
		Use:   "trex FILE.json|FILE.py|URL|-",
		Short: "Convert profiles of TRex to StatelessStreams or ASTFTemplates, and a TrafficProfile",
		Long: `Makes a StatelessStream of each of TRex's stateless streams, or an ASTFTemplate of each template of a stateful (ASTF) profile,
and a TrafficProfile that runs them.

FILE.json, a URL, or - for standard input, each also by -f, is a list of streams, or a stateful profile, as TRex's client sends and saves it. FILE.py is
a profile in Python, stateless or stateful: TRex's own client loads it, for which python3 must have the package lbr-trex-client.

Packets, rates, gaps, chains and field engine programs keep their meaning; so do commands, addresses, rates and settings of
templates. What cannot is refused, with the stream's, program's or template's number and the JSON path. What differs is printed on standard error.`,
		Example: `  # Print what a profile is converted to
  kubectl spate import trex imix.json

  # Run it on the generator lab, from its port east, with what is measured expected at west
  kubectl spate import trex imix.json --generator lab --port east --receive-port west | kubectl apply -f -

  # A stateful profile: clients at east, servers at west
  kubectl spate import trex http.json --generator lab --port east --receive-port west | kubectl apply -f -

  # A profile in Python with tunables, into a file for each resource
  kubectl spate import trex stl/bench.py -t size=128,vm=var1 --output bench/

  # A stateful profile in Python
  kubectl spate import trex astf/http_simple.py --generator lab --port east --receive-port west --output http/

  # Tagged packet groups, by the tags that TRex's tpg_enable is given
  kubectl spate import trex stl/tpg_1tag_stream.py --tags stl/tpg_tags_conf.py

  # Addresses that TRex takes from its configuration file
  kubectl spate import trex imix.json --destination-mac 02:00:00:00:00:01

  # From standard input
  cat imix.json | kubectl spate import trex -f - --name imix`,
		Args: o.file.Args,
		RunE: func(command *cobra.Command, args []string) error { return o.run(command, o.file.Name(args)) },
	}
	o.file.Add(command)
	flags := command.Flags()
	flags.StringVar(&o.name, "name", "", "name of the profile, and beginning of the streams' or templates' (the file's when absent)")
	flags.StringVarP(&o.namespace, "namespace", "n", "", "namespace of the resources; when absent, they get the one of kubectl apply")
	flags.StringVar(&o.options.Port, "port", trex.DefaultPort, "port of the generator that sends, or has the clients")
	flags.StringVar(&o.options.ReceivePort, "receive-port", "", "port where measured streams are expected (the same when absent), or where the servers are ("+trex.DefaultServerPort+" when absent)")
	flags.StringVar(&o.options.Generator, "generator", trex.DefaultGenerator, "TrafficGenerator to run on")
	flags.StringVar(&o.sourceMAC, "source-mac", "", "source MAC of packets for which TRex uses that of its port; when absent, that of the port")
	flags.StringVar(&o.target, "destination-mac", "", "destination MAC of packets for which TRex uses its configuration; when absent, that of the port's next hop")
	flags.StringVarP(&o.output, "output", "o", "yaml", "yaml for standard output, or a folder for a file for each resource")
	flags.StringToStringVarP(&o.tunables, "tunables", "t", nil, "tunables of a profile in Python, such as size=64,vm=var1")
	flags.IntVar(&o.direction, "direction", 0, "direction that a stateless profile in Python makes the streams of, 0 or 1")
	flags.StringVar(&o.tags, "tags", "", "file with the tags of tagged packet groups (tpg), in JSON or Python as TRex's tpg_enable takes it (VLANs 1 to 4094 when absent)")
	flags.StringVar(&o.python, "python", "python3", "interpreter for profiles in Python")
	return command
}

func (o *importTRex) run(command *cobra.Command, file string) error {
	if err := o.addresses(); err != nil {
		return err
	}
	data, err := o.read(command, file)
	if err != nil {
		return err
	}
	if err := o.readTags(command); err != nil {
		return err
	}
	name := o.name
	if name == "" {
		if file == "-" {
			return errors.New("--name is needed with standard input")
		}
		name = nameOf(file)
	}
	imported, err := trex.Import(name, data, o.options)
	if err != nil {
		return fmt.Errorf("import %s:\n%w", file, err)
	}
	for _, note := range imported.Notes {
		fmt.Fprintln(command.ErrOrStderr(), "note:", note)
	}
	var all []resources.Resource
	for _, stream := range imported.Streams {
		all = append(all, resources.Resource{Kind: "statelessstream", Object: stream})
	}
	for _, configMap := range imported.ConfigMaps {
		all = append(all, resources.Resource{Kind: "configmap", Object: configMap})
	}
	for _, template := range imported.Templates {
		all = append(all, resources.Resource{Kind: "astftemplate", Object: template})
	}
	all = append(all, resources.Resource{Kind: "trafficprofile", Object: imported.Profile})
	return resources.Put(command, o.output, o.namespace, all)
}

func (o *importTRex) addresses() error {
	for _, a := range []struct {
		flag, text string
		to         *net.HardwareAddr
	}{{"source-mac", o.sourceMAC, &o.options.SourceMAC}, {"destination-mac", o.target, &o.options.DestinationMAC}} {
		if a.text == "" {
			continue
		}
		address, err := net.ParseMAC(a.text)
		if err != nil || len(address) != 6 {
			return fmt.Errorf("--%s %q: must be a MAC address such as 02:00:00:00:00:01", a.flag, a.text)
		}
		*a.to = address
	}
	return nil
}

// read returns the streams as JSON.
func (o *importTRex) read(command *cobra.Command, file string) ([]byte, error) {
	python := filepath.Ext(file) == ".py"
	switch {
	case o.direction != 0 && o.direction != 1:
		return nil, fmt.Errorf("--direction %d: must be 0 or 1", o.direction)
	case !python && (len(o.tunables) > 0 || o.direction != 0):
		return nil, errors.New("--tunables and --direction go with profiles in Python")
	case python:
		return trexProfile{File: file, Direction: o.direction, Tunables: o.tunables}.load(command.Context(), o.python)
	}
	return files.ReadFile(command, file)
}

// readTags reads the tags of tagged packet groups, if a file is named.
func (o *importTRex) readTags(command *cobra.Command) (err error) {
	var data []byte
	switch {
	case o.tags == "":
		return nil
	case filepath.Ext(o.tags) == ".py":
		data, err = trexProfile{File: o.tags, Tags: true}.load(command.Context(), o.python)
	default:
		data, err = os.ReadFile(o.tags)
	}
	if err != nil {
		return err
	}
	if o.options.Tags, err = trex.ParseTags(data); err != nil {
		return fmt.Errorf("--tags %s: %w", o.tags, err)
	}
	return nil
}

var noName = regexp.MustCompile(`[^a-z0-9]+`)

// nameOf converts a file's name to a resource name.
func nameOf(file string) string {
	name := strings.TrimSuffix(filepath.Base(file), filepath.Ext(file))
	return strings.Trim(noName.ReplaceAllString(strings.ToLower(name), "-"), "-")
}
