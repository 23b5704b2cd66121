// SPDX-License-Identifier: Apache-2.0

// How is a TRex stateful (ASTF) profile converted, as its client sends it?

package trex

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/importer/content"
	"spate.dev/operator/internal/plan/application"
)

// DefaultServerPort is the port of stateful profiles' servers where no other is named.
const DefaultServerPort = "port1"

// TRex computes the port of client n's first connection from n with these constants, and uses only ports between the
// bounds.
const (
	firstSourcePort   = 41668
	sourcePortStep    = 17405
	lowestSourcePort  = 1024
	highestSourcePort = 63999
)

// drawSeed is the seed with which TRex draws the next template.
const drawSeed = 555

// isASTF reports whether the data is a stateful profile, not a list of streams.
func isASTF(data []byte) bool {
	var found struct {
		Programs  json.RawMessage `json:"program_list"`
		Templates json.RawMessage `json:"templates"`
	}
	return json.Unmarshal(data, &found) == nil && (found.Programs != nil || found.Templates != nil)
}

// astf is the state of a stateful profile's import.
type astf struct {
	*importer
	buffers  []buffer
	contents content.Writer
	pools    []addresses
	programs []*astfProgram
	servers  []listener
	groups   []string
	// sketches and named are, by template, what must be known of others; grouped are the templates of a group, by its number.
	sketches []sketch
	named    []string
	grouped  map[uint64][]int
	// client and server settings of all templates.
	client, server globalInfo
	made           Imported
	profile        *spatev1.TrafficProfile
}

// addresses of a TRex generator of addresses.
type addresses struct {
	path        string
	servers     bool
	first, last netip.Addr
	order       spatev1.PoolOrder
	offset      spatev1.IPAddress
}

// importASTF converts a stateful profile.
func (in *importer) importASTF(data []byte) (*Imported, error) {
	a := &astf{importer: in, contents: content.Writer{Name: in.name}}
	o := in.problems.object(data, "$")
	a.readBuffers(o)
	for i, raw := range o.list("ip_gen_dist_list") {
		a.pools = append(a.pools, a.addresses(in.problems.object(raw, fmt.Sprintf("$.ip_gen_dist_list[%d]", i))))
	}
	for i, raw := range o.list("program_list") {
		a.programs = append(a.programs, a.program(in.problems.object(raw, fmt.Sprintf("$.program_list[%d]", i))))
	}
	if raw, found := o.take("tg_names"); found && json.Unmarshal(raw, &a.groups) != nil {
		o.wrong("tg_names", "must be a list of names, not %s", short(raw))
	}
	a.client, a.server = a.settings(o, "c_glob_info"), a.settings(o, "s_glob_info")
	templates := o.list("templates")
	if len(templates) == 0 || len(templates) > mostStreams {
		o.wrong("templates", "there are %d; a profile has 1 to %d, which take turns in their addresses and in being drawn", len(templates), mostStreams)
	}
	o.done()
	a.servers = a.listeners(templates)
	a.openings(templates)
	a.profile = &spatev1.TrafficProfile{
		TypeMeta:   metav1.TypeMeta{APIVersion: spatev1.GroupVersion.String(), Kind: "TrafficProfile"},
		ObjectMeta: metav1.ObjectMeta{Name: in.name},
		Spec: spatev1.TrafficProfileSpec{TrafficDefinition: spatev1.TrafficDefinition{
			GeneratorRef: &spatev1.GeneratorReference{Name: spatev1.ObjectName(in.options.Generator)},
			RampUp:       a.client.rampUp, RampUpStep: a.client.rampUpStep, RandomOrderSeed: ptr.To[int64](drawSeed),
		}},
	}
	if len(in.problems.errs) == 0 {
		for i, raw := range templates {
			a.template(i, raw)
		}
	}
	if len(in.problems.errs) > 0 {
		return nil, errors.Join(in.problems.errs...)
	}
	a.made.Profile = a.profile
	a.made.ConfigMaps = a.contents.ConfigMaps
	a.made.Notes = in.notes.all
	return &a.made, nil
}

// addresses reads a generator of addresses.
func (a *astf) addresses(o *object) addresses {
	made := addresses{path: o.path, servers: o.choice("dir", "c", "s") == "s", order: spatev1.PoolForward}
	made.first, made.last = address(o, "ip_start"), address(o, "ip_end")
	if made.last.IsValid() && made.last.Less(made.first) {
		o.wrong("ip_end", "%s is less than ip_start, which is %s", made.last, made.first)
	}
	switch o.choice("distribution", "seq", "rand", "normal") {
	case "rand":
		made.order = spatev1.PoolRandom
		a.notes.add("%s: random addresses are drawn evenly, by a generator other than TRex's: within the same bounds, and not the same", o.path)
	case "normal":
		o.wrong("distribution", "normal is not supported; use seq or rand")
	}
	if o.has("ip_offset") {
		made.offset = spatev1.IPAddress(address(o, "ip_offset").String())
	}
	if o.has("per_core_distribution") && o.choice("per_core_distribution", "default", "seq") == "seq" {
		a.notes.add("%s.per_core_distribution: TRex gives each core a run of addresses; here the workers take turns in all of them", o.path)
	}
	o.take("per_core_distribution")
	o.take("ip_offset")
	o.done()
	return made
}

func address(o *object, key string) netip.Addr {
	text := o.text(key)
	value, err := netip.ParseAddr(text)
	if (err != nil || !value.Is4()) && !o.broken {
		o.wrong(key, "%q is no IPv4 address", text)
		return netip.AddrFrom4([4]byte{})
	}
	return value
}

// template converts a template.
func (a *astf) template(index int, raw json.RawMessage) {
	called := fmt.Sprintf("template %d", index+1)
	a.problems.stream, a.notes.stream = called, called
	before := len(a.problems.errs)
	o := a.problems.object(raw, fmt.Sprintf("$.templates[%d]", index))
	group := a.group(o)
	client, server := o.object("client_template"), o.object("server_template")
	o.done()
	t := &spatev1.ASTFTemplate{TypeMeta: metav1.TypeMeta{APIVersion: spatev1.GroupVersion.String(), Kind: "ASTFTemplate"}}
	entry := "template-" + strconv.Itoa(index+1)
	if group != "" {
		entry, t.Spec.StatisticsGroup = group, spatev1.EntryName(group)
	}
	t.Name = a.named[index]
	a.sides(t, index, client, server)
	if len(a.problems.errs) > before {
		return
	}
	for _, problem := range application.Check(&t.Spec) {
		a.problems.add(o.path, "as ASTFTemplate %s it cannot be run: %s", t.Name, problem.Error())
	}
	a.made.Templates = append(a.made.Templates, t)
	a.profile.Spec.Traffic = append(a.profile.Spec.Traffic, spatev1.TrafficEntry{
		Name: spatev1.EntryName(a.entries.unique(entry, index+1)), Application: &spatev1.ApplicationEntry{TemplateRef: &spatev1.LocalReference{Name: spatev1.ObjectName(t.Name)}},
		TransmitPort: spatev1.PortName(a.options.Port), ReceivePort: spatev1.PortName(a.options.ReceivePort),
	})
}

// group returns the name of a statistics group by its number; empty for none.
func (a *astf) group(o *object) string {
	number := o.wholeOr("tg_id", 0, math.MaxUint16, 0)
	if number == 0 {
		return ""
	}
	if int(number) > len(a.groups) {
		o.wrong("tg_id", "%d names none of the %d tg_names", number, len(a.groups))
		return ""
	}
	return a.groupName(number)
}

// groupName returns the name of a group that there is.
func (a *astf) groupName(number uint64) string {
	return label(a.groups[number-1], "group-"+strconv.FormatUint(number, 10))
}

// sides converts the programs of client and server.
func (a *astf) sides(t *spatev1.ASTFTemplate, index int, client, server *object) {
	clients := a.chosen(client, "program_index")
	generators := client.object("ip_gen")
	from, to := a.generator(generators, "dist_client", false), a.generator(generators, "dist_server", true)
	generators.done()
	client.take("cluster") // not used by TRex yet
	port := client.whole("port", 1, math.MaxUint16)
	t.Spec.DestinationPort = ptr.To(int32(port))
	if a.isOpened(index) && !client.has("cps") {
		a.openedOnly(index, client)
	} else {
		t.Spec.ConnectionRate = connectionRate(client)
		limit(client, &t.Spec)
	}
	server = a.reached(index, server, port, to, clients)
	servers := a.chosen(server, "program_index")
	own := [2]globalInfo{a.settings(client, "glob_info"), a.settings(server, "glob_info")}
	a.association(t, server, port, to, clients)
	if clients == nil || servers == nil || from == nil || to == nil {
		return
	}
	if clients.udp != servers.udp {
		server.wrong("program_index", "the servers' program is of another transport than the clients'")
		return
	}
	a.contents.Next()
	programs := &spatev1.Programs{Transport: spatev1.TransportTCP, Client: clients.sideCommands(false), Server: servers.sideCommands(true)}
	if clients.udp {
		programs.Transport = spatev1.TransportUDP
	}
	t.Spec.Latency = clients.latency
	t.Spec.Source.Programs = programs
	v6 := a.client.ipv6.or(own[0].ipv6)
	t.Spec.Tunables = spatev1.Tunables{
		Client: a.client.with(own[0]).tunables(programs.Transport, v6.enabled), Server: a.server.with(own[1]).tunables(programs.Transport, v6.enabled),
	}
	a.addressPools(t, from, to, v6, client)
	client.done()
	server.done()
}

func (a *astf) chosen(o *object, key string) *astfProgram {
	index := o.whole(key, 0, math.MaxUint16)
	if o.broken {
		return nil
	}
	if int(index) >= len(a.programs) {
		o.wrong(key, "%d is none of the %d programs", index, len(a.programs))
		return nil
	}
	return a.programs[index]
}

func (a *astf) generator(o *object, key string, servers bool) *addresses {
	of := o.object(key)
	index := of.whole("index", 0, math.MaxUint16)
	of.done()
	if of.broken {
		return nil
	}
	if int(index) >= len(a.pools) || a.pools[index].servers != servers {
		of.wrong("index", "%d is no generator of this side among the %d", index, len(a.pools))
		return nil
	}
	return &a.pools[index]
}

// ratePlaces is the number of decimal places of a connection rate.
const ratePlaces = 12

func connectionRate(o *object) spatev1.ConnectionRate {
	if !o.has("cps") {
		o.wrong("cps", "is missing, and no program opens connections of this template by set_template and exec_template: give it a rate")
		return ""
	}
	value := o.decimal("cps")
	text := strings.TrimRight(strings.TrimRight(value.FloatString(ratePlaces), "0"), ".")
	if value.Cmp(new(big.Rat)) <= 0 || text == "0" || len(text) > 28 {
		o.wrong("cps", "%s is not a rate that connections can be opened at", value.FloatString(ratePlaces))
	}
	return spatev1.ConnectionRate(text + "cps")
}

// limit sets the limit of connections: in total, or concurrently where TRex goes on (`cont`).
func limit(o *object, to *spatev1.ASTFTemplateSpec) {
	number := int64(o.wholeOr("limit", 0, math.MaxUint32, 0))
	goesOn := o.truthOr("cont", false)
	o.take("core_base") // which core takes the remainder
	switch {
	case number == 0:
	case goesOn:
		to.MaxConcurrentFlows = &number
	default:
		to.MaxFlows = &number
	}
}

// association sets how a template's servers are identified.
func (a *astf) association(t *spatev1.ASTFTemplate, server *object, port uint64, pool *addresses, clients *astfProgram) {
	rules := server.list("assoc")
	if len(rules) != 1 {
		server.wrong("assoc", "there are %d; TRex looks at the first, and exactly one is supported", len(rules))
		return
	}
	o := a.problems.object(rules[0], server.at("assoc")+"[0]")
	if listens := o.whole("port", 1, math.MaxUint16); listens != port && !o.broken {
		o.wrong("port", "servers listen on %d and the template's clients connect to %d, where no servers of this transport listen that are alike for all of them", listens, port)
	}
	if o.has("ip_start") || o.has("ip_end") {
		first, last := address(o, "ip_start"), address(o, "ip_end")
		if pool != nil && (pool.first.Less(first) || last.Less(pool.last)) {
			o.wrong("ip_start", "servers have the addresses %s to %s, and clients connect to %s to %s: that some of them are another template's is not supported", first, last, pool.first, pool.last)
		}
	}
	o.take("ip_start")
	o.take("ip_end")
	if o.has("assoc_id") {
		o.wrong("assoc_id", "is not supported; match by l7_map")
		o.take("assoc_id")
	}
	if o.has("l7_map") {
		t.Spec.Match = a.firstBytes(o.object("l7_map"), clients)
	}
	o.take("l7_map")
	o.done()
}

// firstBytes returns the bytes that a template's servers compare: those given, or those that its clients send first.
func (a *astf) firstBytes(o *object, clients *astfProgram) (all []spatev1.PayloadMatch) {
	offsets, masks := a.smallNumbers(o, "offset", 1023), a.smallNumbers(o, "mask", 255)
	values := a.smallNumbers(o, "value", 255)
	for i, mask := range masks {
		if mask != 255 {
			o.wrong("mask", "%d at %d: only whole bytes can be matched", mask, i)
		}
	}
	o.done()
	if o.broken || clients == nil {
		return nil
	}
	if values == nil {
		values = clients.firstBytes(o, offsets)
	}
	if len(values) != len(offsets) {
		o.wrong("value", "there are %d values for %d offsets", len(values), len(offsets))
		return nil
	}
	for i, value := range values {
		digits := fmt.Sprintf("%02x", value)
		if i > 0 && offsets[i] == offsets[i-1]+1 && len(all[len(all)-1].Hex) < 128 {
			all[len(all)-1].Hex += digits
			continue
		}
		all = append(all, spatev1.PayloadMatch{Offset: int32(offsets[i]), Hex: digits})
	}
	return all
}

// smallNumbers reads a list; nil when absent.
func (a *astf) smallNumbers(o *object, key string, most int) []int {
	raw, found := o.take(key)
	if !found {
		return nil
	}
	var all []int
	if json.Unmarshal(raw, &all) != nil || slices.ContainsFunc(all, func(n int) bool { return n < 0 || n > most }) {
		o.wrong(key, "must be a list of numbers from 0 to %d, not %s", most, short(raw))
		return nil
	}
	return all
}

// addressPools sets those of a template. Names and bounds are independent of the position of TRex's generator in the
// JSON, so that templates share pools.
func (a *astf) addressPools(t *spatev1.ASTFTemplate, from, to *addresses, v6 ipv6Info, client *object) {
	clients := spatev1.AddressPool{Name: "clients", Order: from.order, PortPairOffset: from.offset, SourcePorts: &spatev1.SourcePorts{
		Start: firstSourcePort, Step: sourcePortStep, Min: ptr.To[int32](lowestSourcePort), Max: ptr.To[int32](highestSourcePort),
	}}
	servers := spatev1.AddressPool{Name: "servers", Order: to.order, PortPairOffset: to.offset}
	put := func(pool *spatev1.AddressPool, of *addresses, upper []byte) {
		first, last := of.first, of.last
		if v6.enabled {
			first, last = wide(upper, first), wide(upper, last)
			pool.AllowMulticast = first.IsMulticast()
			if pool.PortPairOffset != "" {
				pool.PortPairOffset = spatev1.IPAddress(wide(nil, netip.MustParseAddr(string(pool.PortPairOffset))).String())
			}
		}
		pool.Start, pool.End = spatev1.IPAddress(first.String()), spatev1.IPAddress(last.String())
	}
	if v6.enabled && (v6.source == nil || v6.destination == nil) {
		client.wrong("glob_info", "ipv6.enable needs src_msb and dst_msb")
		return
	}
	put(&clients, from, v6.source)
	put(&servers, to, v6.destination)
	if clients.AllowMulticast || servers.AllowMulticast {
		a.notes.add("%s: addresses are multicast (%s to %s), as TRex's own prefix ff02:: makes them: frames to a group go to its MAC address, 33:33:..., and not to that of TRex's configuration; "+
			"devices under test drop packets whose source is a group", client.at("glob_info"), clients.Start, servers.Start)
	}
	t.Spec.Pools = spatev1.AddressPools{Clients: []spatev1.AddressPool{clients}, Servers: []spatev1.AddressPool{servers}}
}

// wide returns an IPv6 address whose last 4 bytes are those of an IPv4 address.
func wide(upper []byte, lower netip.Addr) netip.Addr {
	var all [16]byte
	copy(all[:12], upper)
	four := lower.As4()
	copy(all[12:], four[:])
	return netip.AddrFrom16(all)
}
