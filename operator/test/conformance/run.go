// SPDX-License-Identifier: Apache-2.0

// How is one profile imported, planned, simulated and compared?

package conformance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"

	"spate.dev/operator/internal/importer/trex"
	"spate.dev/operator/internal/manifest"
	"spate.dev/operator/internal/offline"
	"spate.dev/operator/internal/plan"
)

// Run is a way that TRex's simulator was run.
type Run struct {
	// Workers share the streams.
	Workers int
	// suffix of the file that holds TRex's packets.
	suffix string
}

// Runs are those that there are files of.
var Runs = []Run{{Workers: 1, suffix: ".c1.pcap"}, {Workers: 2, suffix: ".c2.pcap"}}

// mostPackets in a file. TRex's simulator shares them out equally over the cores that send.
const mostPackets = 100

// beyond is how many more packets, of each worker that has a limit, are looked at for such that swapped with the last ones.
const beyond = 16

// The addresses of the port that TRex's simulator sends from, and of where it sends to.
var (
	sourceMAC      = net.HardwareAddr{0x18, 0x18, 0x18, 0x18, 0x18, 0x18}
	destinationMAC = net.HardwareAddr{0x10, 0x10, 0x10, 0x10, 0x10, 0x10}
)

// Runner runs profiles.
type Runner struct {
	// Engine is the path of its program.
	Engine string
	// Scratch is a directory for captures.
	Scratch string
}

// Case is a profile that was imported and planned.
type Case struct {
	// Name of its file without `.json`.
	Name    string
	folder  string
	profile *Profile
	// plan of the profile that it was imported as.
	plan []byte
}

// Load imports a profile and plans what it became.
func Load(folder, name string) (*Case, error) {
	data, err := os.ReadFile(filepath.Join(folder, name+".json"))
	if err != nil {
		return nil, err
	}
	imported, err := trex.Import(objectName(name), data, trex.Options{SourceMAC: sourceMAC, DestinationMAC: destinationMAC})
	if err != nil {
		return nil, fmt.Errorf("import: %w", err)
	}
	plan, err := planned(name, imported)
	if err != nil {
		return nil, err
	}
	described, err := ReadProfile(data)
	if err != nil {
		return nil, err
	}
	return &Case{Name: name, folder: folder, profile: described, plan: plan}, nil
}

// planned plans what was imported, as text, as `kubectl spate simulate` would the manifests.
func planned(name string, imported *trex.Imported) ([]byte, error) {
	var documents [][]byte
	write := func(object any) error {
		text, err := yaml.Marshal(object)
		documents = append(documents, text)
		return err
	}
	err := write(imported.Profile)
	for _, s := range imported.Streams {
		err = errors.Join(err, write(s))
	}
	for _, t := range imported.Templates {
		err = errors.Join(err, write(t))
	}
	for _, c := range imported.ConfigMaps {
		err = errors.Join(err, write(c))
	}
	if err != nil {
		return nil, err
	}
	var reader manifest.Reader
	reader.Read("imported", bytes.Join(documents, []byte("---\n")))
	set, problems := reader.Done()
	files := offline.Files{Set: set, LineRate: offline.DefaultLineRate}
	if problems = append(problems, files.Check()...); len(problems) > 0 {
		return nil, fmt.Errorf("plan: %w", problems[0])
	}
	definition, err := files.Choose("", "")
	if err != nil {
		return nil, err
	}
	resolved, problems := files.Resolve(definition)
	if len(problems) > 0 {
		return nil, fmt.Errorf("plan: %w", problems[0])
	}
	return plan.Text(resolved.PlanWithData(plan.Identity{RunID: name, Tag: 1}))
}

// objectName makes a file's name into an object's.
func objectName(name string) string {
	return strings.Trim(strings.Join(strings.FieldsFunc(strings.ToLower(name), func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9')
	}), "-"), "-")
}

// Compare simulates a profile and returns the first difference from TRex's packets; nil if there is none.
func (r Runner) Compare(ctx context.Context, c *Case, run Run) error {
	want, err := ReadCapture(filepath.Join(c.folder, c.Name+run.suffix))
	if err != nil {
		return err
	}
	flag, sending := "--limit", cores(c.profile.described, run.Workers)
	if sending > 1 {
		flag = "--worker-limit"
	}
	got, err := r.simulate(ctx, c, run.Workers, flag, mostPackets/sending)
	if err != nil {
		return err
	}
	more, err := r.simulate(ctx, c, run.Workers, flag, mostPackets/sending+beyond)
	if err != nil {
		return err
	}
	return c.profile.Compare(want, Simulated{Packets: got, Beyond: without(more, got)})
}

// without gives the packets that are not among others.
func without(packets, others []Packet) (left []Packet) {
	type key struct {
		at    int64
		frame string
	}
	count := map[key]int{}
	for _, p := range others {
		count[key{int64(p.At), string(p.Frame)}]++
	}
	for _, p := range packets {
		if k := (key{int64(p.At), string(p.Frame)}); count[k] > 0 {
			count[k]--
		} else {
			left = append(left, p)
		}
	}
	return left
}

// simulate gives the packets of a run.
func (r Runner) simulate(ctx context.Context, c *Case, workers int, flag string, limit int) ([]Packet, error) {
	pcap := filepath.Join(r.Scratch, "simulated.pcap")
	engine := exec.CommandContext(ctx, r.Engine, "simulate", "--plan", "-", "--pcap", pcap, "--workers", strconv.Itoa(workers), flag, strconv.Itoa(limit))
	engine.Stdin = bytes.NewReader(c.plan)
	if output, err := engine.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("simulate: %w: %s", err, strings.TrimSpace(string(output)))
	}
	return ReadCapture(pcap)
}
