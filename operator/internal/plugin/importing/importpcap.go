// SPDX-License-Identifier: Apache-2.0

// How is a capture of one session converted to a template?

package importing

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"spate.dev/operator/internal/engine"
	"spate.dev/operator/internal/importer/pcap"
	"spate.dev/operator/internal/plugin/enginebinary"
	"spate.dev/operator/internal/plugin/files"
	"spate.dev/operator/internal/plugin/resources"
)

// importPcap are the options of the command.
type importPcap struct {
	file                    files.One
	name, namespace, output string
	engine                  string
	options                 pcap.Options
}

func newPcapCommand() *cobra.Command {
	var o importPcap
	command := &cobra.Command{
		Use:   "pcap FILE|URL|-",
		Short: "Convert a captured session to an ASTFTemplate",
		Long: `Makes an ASTFTemplate of a capture (pcap or pcapng) of one session over TCP or UDP: what each side sent, it sends; what it
received, it waits for.

A TCP session starts with its handshake and has no gaps. Repeated bytes are omitted, and what a side sent in one go is sent in one
go. Over UDP, delays between messages are kept from 50 us to 700 ms. What cannot be kept is refused, with the packet's number.

The engine's program spate-engine reads the capture: it must be in PATH, or named.`,
		Example: `  kubectl spate import pcap -f web.pcap | kubectl apply -f -

  # At 100 connections a second, to servers on another port and in another range
  kubectl spate import pcap web.pcap --name web --rate 100cps --port 8080 --servers 10.0.0.1-10.0.0.9

  # Into a file for each resource
  kubectl spate import pcap web.pcap --output web/`,
		Args: o.file.Args,
		RunE: func(command *cobra.Command, args []string) error { return o.run(command, o.file.Name(args)) },
	}
	o.file.Add(command)
	flags := command.Flags()
	flags.StringVar(&o.name, "name", "", "name of the template (the file's when absent)")
	flags.StringVarP(&o.namespace, "namespace", "n", "", "namespace of the resources; when absent, they get the one of kubectl apply")
	flags.StringVar(&o.options.Rate, "rate", pcap.DefaultRate, "rate of new connections")
	flags.StringVar(&o.options.Clients, "clients", pcap.DefaultClients, "addresses of the clients; of the family of --servers")
	flags.StringVar(&o.options.Servers, "servers", pcap.DefaultServers, "addresses of the servers; of the family of --clients")
	flags.Uint16Var(&o.options.Port, "port", 0, "port that the servers listen on (the captured one when absent)")
	flags.StringVarP(&o.output, "output", "o", "yaml", "yaml for standard output, or a folder for a file for each resource")
	enginebinary.AddFlag(command, &o.engine)
	return command
}

func (o *importPcap) run(command *cobra.Command, file string) error {
	name := o.name
	if name == "" {
		if file == "-" {
			return errors.New("--name is needed with standard input")
		}
		name = nameOf(file)
	}
	path, err := enginebinary.Find(o.engine)
	if err != nil {
		return err
	}
	data, err := files.ReadFile(command, file)
	if err != nil {
		return err
	}
	imported, err := pcap.Import(command.Context(), engine.Compiler{Binary: path}, name, data, o.options)
	if err != nil {
		return fmt.Errorf("import %s:\n%w", file, err)
	}
	if imported.Note != "" {
		fmt.Fprintf(command.ErrOrStderr(), "%s: %s\n", file, imported.Note)
	}
	var all []resources.Resource
	for _, configMap := range imported.ConfigMaps {
		all = append(all, resources.Resource{Kind: "configmap", Object: configMap})
	}
	all = append(all, resources.Resource{Kind: "astftemplate", Object: imported.Template})
	return resources.Put(command, o.output, o.namespace, all)
}
