// SPDX-License-Identifier: Apache-2.0

// Which sequences do TRex's variables take?

package trex

import (
	"encoding/json"
	"math"
	"math/big"
	"net/netip"
	"strconv"

	"k8s.io/utils/ptr"

	spatev1 "spate.dev/api/v1alpha1"
)

// mostListed values of a field.
const mostListed = 65535

// variable is a TRex variable that is being converted to a field.
type variable struct {
	// name in the program (`tuple.ip` and `tuple.port` for those of a tuple), and that of the next variable.
	name, next string
	// path of the instruction.
	path string
	// bytes is its size in memory, and in the packet where it is written whole.
	bytes int
	field spatev1.PacketField
	// least and most are the bounds of its value.
	least, most uint64
	// counter of a variable that counts; nil for others.
	counter *counter
	// listed values, in order.
	listed []uint64
	// split variables are divided among cores; the others are the same on each core.
	split bool
	// random variables are drawn; limited ones repeat the same draws.
	random, limited bool
	// wrapsEvenly is false for a list that wraps within its own cycle.
	wrapsEvenly bool
	// tuple variables can only be written, not used by other instructions.
	tuple bool
	// writes counts the writes into the packet; addresses counts those to addresses of IPv4 headers.
	writes, addresses int
}

// mostOf returns the maximum value of this number of bytes.
func mostOf(bytes int) uint64 { return ^uint64(0) >> (64 - 8*bytes) }

// variables reads an instruction that declares variables.
func (g *program) variables(kind string, o *object) {
	switch kind {
	case "flow_var":
		g.flowVariable(o)
	case "flow_var_rand_limit":
		g.repeatingRandom(o)
	case "tuple_flow_var":
		g.tuple(o)
	}
}

// declare adds a variable.
func (g *program) declare(v *variable) {
	switch {
	case v.name == "": // a missing one is reported already
		g.problems.add(v.path, "the variable has no name")
		return
	case g.named(v.name) != nil:
		g.problems.add(v.path, "there is another variable %q", v.name)
		return
	}
	g.all = append(g.all, v)
}

func (g *program) named(name string) *variable {
	for _, v := range g.all {
		if v.name == name {
			return v
		}
	}
	return nil
}

func (o *object) bytes(key string) int {
	switch size := o.whole(key, 1, 8); size {
	case 1, 2, 4, 8:
		return int(size)
	default:
		o.wrong(key, "%d is not one of 1, 2, 4, 8", size)
		return 8
	}
}

func (g *program) flowVariable(o *object) {
	v := &variable{path: o.path, name: o.text("name"), next: o.label("next_var"), wrapsEvenly: true}
	v.bytes = o.bytes("size")
	op := o.choice("op", "inc", "dec", "random")
	step := o.whole("step", 1, mostOf(v.bytes))
	v.split = o.truthOr("split_to_cores", true)
	v.random = op == "random"
	if v.random && v.next != "" {
		o.wrong("next_var", "random variables never wrap")
	}
	if o.has("value_list") {
		for _, key := range []string{"init_value", "min_value", "max_value"} {
			if raw, found := o.take(key); found {
				o.wrong(key, "%s: does not go with value_list", short(raw))
			}
		}
		g.list(v, o, op, step)
	} else {
		delete(o.fields, "value_list")
		g.ranged(v, o, op, step)
	}
	g.declare(v)
}

// list reads a list of values. `dec` starts with the last, and steps of more than one are modulo the list's length.
func (g *program) list(v *variable, o *object, op string, step uint64) {
	raw := o.list("value_list")
	if len(raw) == 0 || len(raw) > mostListed {
		o.wrong("value_list", "%d values; there must be 1 to %d", len(raw), mostListed)
		return
	}
	if step > uint64(len(raw)) {
		o.wrong("step", "%d is more than the %d values of the list", step, len(raw))
		return
	}
	values := make([]uint64, len(raw))
	for i, one := range raw {
		inner := &object{problems: g.problems, path: o.at("value_list"), fields: map[string]json.RawMessage{strconv.Itoa(i): one}}
		values[i] = inner.whole(strconv.Itoa(i), 0, mostOf(v.bytes))
	}
	switch {
	case op == "random":
		v.take(values)
		v.field.Values, v.field.Order, v.field.Seed = spell(values), spatev1.OrderRandom, &g.seed
	case step == 1 && op == "dec":
		v.take(reversed(values))
		v.field.Values, v.field.Order = spell(values), spatev1.OrderReverse
	default:
		v.take(stepped(values, op == "dec", int(step)))
		v.field.Values = spell(v.listed)
		v.wrapsEvenly = len(values)%int(step) == 0
	}
}

// take sets the values of a list.
func (v *variable) take(values []uint64) {
	v.listed, v.least, v.most = values, values[0], values[0]
	for _, value := range values {
		v.least, v.most = min(v.least, value), max(v.most, value)
	}
}

func reversed(values []uint64) []uint64 {
	all := make([]uint64, len(values))
	for i, value := range values {
		all[len(values)-1-i] = value
	}
	return all
}

// stepped returns a list's cycle with steps of more than one.
func stepped(values []uint64, down bool, step int) []uint64 {
	count, first := len(values), 0
	if down {
		first, step = count-1, count-step
	}
	var cycle []uint64
	for i := first; ; {
		cycle = append(cycle, values[i])
		if i = (i + step) % count; i == first {
			return cycle
		}
	}
}

// counter is a range that is stepped through.
type counter struct {
	// least and most are the values that occur; step is the difference from one to the next; first is the start value.
	least, most, step, first uint64
	down                     bool
	// low and high bound the range, whose length is a multiple of the step.
	low, high uint64
}

// ranged reads a range of values. TRex extends it to a multiple of the step, and wraps from its end to its start.
func (g *program) ranged(v *variable, o *object, op string, step uint64) {
	most := mostOf(v.bytes)
	first, low, high := o.whole("init_value", 0, most), o.whole("min_value", 0, most), o.whole("max_value", 0, most)
	switch {
	case low > high:
		o.wrong("min_value", "%d is greater than max_value, which is %d", low, high)
		return
	case first < low || first > high:
		o.wrong("init_value", "%d is not from min_value to max_value, which are %d and %d", first, low, high)
		return
	}
	v.least, v.most = low, high
	if op == "random" {
		v.field.Range, v.field.Order, v.field.Seed = spread(low, high), spatev1.OrderRandom, &g.seed
		return
	}
	if step > math.MaxInt64 || high-low == math.MaxUint64 {
		o.wrong("step", "counting through all 64 bits, or by more than 63, is not supported")
		return
	}
	lacks := (step - (high-low+1)%step) % step
	switch {
	case op == "inc" && lacks > most-high, op == "dec" && lacks > low:
		o.wrong("step", "values from %d to %d are no whole number of steps of %d, and there is no room for the rest of one", low, high, step)
		return
	case op == "inc":
		high += lacks
	default:
		low -= lacks
	}
	v.count(newCounter(low, high, step, first, op == "dec"))
}

// newCounter returns the counter within a range whose length is a multiple of the step: only values a multiple of the
// step away from the first occur.
func newCounter(low, high, step, first uint64, down bool) *counter {
	turns := (high-low)/step + 1
	c := &counter{step: step, first: first, down: down, low: low, high: high}
	if down {
		c.most = high - (high-first)%step
		c.least = c.most - (turns-1)*step
	} else {
		c.least = low + (first-low)%step
		c.most = c.least + (turns-1)*step
	}
	return c
}

// count sets the field from a counter.
func (v *variable) count(c *counter) {
	v.counter, v.least, v.most = c, c.least, c.most
	v.field.Range, v.field.Order = spread(c.least, c.most), ""
	if c.step != 1 {
		v.field.Range.Step = ptr.To(int64(c.step))
	}
	if c.first != c.start() {
		v.field.Range.First = ptr.To(digits(c.first))
	}
	if c.down {
		v.field.Order = spatev1.OrderReverse
	}
}

// start returns the value after a wrap.
func (c *counter) start() uint64 {
	if c.down {
		return c.most
	}
	return c.least
}

// before returns the value before the first.
func (c *counter) before() uint64 {
	switch {
	case c.first == c.start() && c.down:
		return c.least
	case c.first == c.start():
		return c.most
	case c.down:
		return c.first + c.step
	}
	return c.first - c.step
}

func (g *program) repeatingRandom(o *object) {
	v := &variable{path: o.path, name: o.text("name"), next: o.label("next_var"), random: true, limited: true, wrapsEvenly: true}
	v.bytes = o.bytes("size")
	most := mostOf(v.bytes)
	limit := int64(o.whole("limit", 1, math.MaxInt64))
	seed := int64(o.whole("seed", 0, math.MaxInt64))
	v.least, v.most = o.whole("min_value", 0, most), o.whole("max_value", 0, most)
	v.split = o.truthOr("split_to_cores", true)
	if v.least > v.most {
		o.wrong("min_value", "%d is greater than max_value, which is %d", v.least, v.most)
	}
	v.field.Range, v.field.Order, v.field.Seed = spread(v.least, v.most), spatev1.OrderRandom, &seed
	v.field.RepeatAfter = &limit
	g.declare(v)
}

// Tuples with unlimitedFlows continue with ports after the last of their range, up to 65535.
const (
	unlimitedFlows = 1
	unlimitedFirst = 1025
)

// tuple reads a generator of clients: addresses in turn, and the next port with each round. After the limit it starts
// again.
func (g *program) tuple(o *object) {
	name := o.text("name")
	address := &variable{path: o.path, name: name + ".ip", bytes: 4, split: true, wrapsEvenly: true, tuple: true, next: name + ".port"}
	port := &variable{path: o.path, name: name + ".port", bytes: 2, split: true, wrapsEvenly: true, tuple: true}
	lowest, highest := o.whole("ip_min", 0, mostOf(4)), o.whole("ip_max", 0, mostOf(4))
	first, last := o.whole("port_min", 0, mostOf(2)), o.whole("port_max", 0, mostOf(2))
	limit := int64(o.whole("limit_flows", 0, mostOf(4)))
	flags := o.whole("flags", 0, unlimitedFlows)
	switch {
	case lowest > highest:
		o.wrong("ip_min", "%d is greater than ip_max, which is %d", lowest, highest)
		return
	case first > last:
		o.wrong("port_min", "%d is greater than port_max, which is %d", first, last)
		return
	}
	ports := &counter{least: first, most: last, step: 1, first: first}
	if flags == unlimitedFlows {
		limit = 0
		ports = &counter{least: unlimitedFirst, most: mostOf(2), step: 1, first: max(last+1, unlimitedFirst)}
		if last == mostOf(2) {
			ports.first = unlimitedFirst
		}
		if last+1 < unlimitedFirst {
			o.wrong("port_max", "%d: an unlimited tuple goes on with the port behind it, and ports below %d are not supported there", last, unlimitedFirst)
			return
		}
	}
	address.count(&counter{least: lowest, most: highest, step: 1, first: lowest})
	port.count(ports)
	if limit > 0 {
		address.field.RepeatAfter = &limit
	}
	g.declare(address)
	g.declare(port)
}

// chain resolves which variable advances with which, and which are the same on each core.
func (g *program) chain() {
	before := map[string]*variable{}
	for _, v := range g.all {
		if v.next == "" {
			continue
		}
		next := g.named(v.next)
		switch {
		case next == nil || next == v || before[v.next] != nil:
			g.problems.add(v.path+".next_var", "%q must name another variable, and one that is no other's next_var", v.next)
			return
		case next.tuple && !v.tuple:
			g.problems.add(v.path+".next_var", "%q belongs to a tuple", v.next)
			return
		case !v.wrapsEvenly:
			g.problems.add(v.path+".next_var", "with this step the list wraps within its cycle; use a step that the number of its values is a multiple of")
			return
		case !v.tuple && next.split && (next.limited || !next.random):
			g.problems.add(g.named(v.next).path+".split_to_cores", "must be false for the next_var of another variable")
			return
		}
		before[v.next] = v
	}
	followed := 0
	for _, v := range g.all {
		if before[v.name] == nil {
			followed += g.follow(v)
		}
	}
	if followed < len(g.all) {
		g.problems.add(g.path+".instructions", "the variables' next_var lead around in a circle")
	}
}

// follow walks a chain from its head. A variable takes its first step with the packet at which the one before wraps;
// until then TRex sends the value before its first.
func (g *program) follow(head *variable) (count int) {
	steps := true
	for v := head; v != nil; v = g.named(v.next) {
		count++
		v.field.Scope = ""
		if !head.split && (head.limited || !head.random) {
			v.field.Scope = spatev1.ScopeWorker
		}
		switch {
		case steps:
			steps = v.counter == nil || v.counter.first == v.counter.start()
		case v.counter != nil:
			started := *v.counter
			started.first = started.before()
			v.count(&started)
		default:
			g.problems.add(v.path, "the variable before it in the chain does not begin where it wraps, and then only counters can follow; let that one begin at its end")
			return count
		}
	}
	return count
}

// spell formats values as numbers.
func spell(values []uint64) []spatev1.FieldValue {
	all := make([]spatev1.FieldValue, len(values))
	for i, value := range values {
		all[i] = digits(value)
	}
	return all
}

// spread returns a range with a step of 1.
func spread(least, most uint64) *spatev1.FieldRange {
	return &spatev1.FieldRange{Start: digits(least), End: ptr.To(digits(most))}
}

func digits(value uint64) spatev1.FieldValue {
	return spatev1.FieldValue(strconv.FormatUint(value, 10))
}

// asAddresses formats the values as IPv4 addresses if the variable is written to nothing else.
func (v *variable) asAddresses() {
	if v.bytes != 4 || v.writes == 0 || v.writes != v.addresses {
		return
	}
	address := func(value *spatev1.FieldValue) {
		number, _ := strconv.ParseUint(string(*value), 10, 32)
		*value = spatev1.FieldValue(netip.AddrFrom4([4]byte{byte(number >> 24), byte(number >> 16), byte(number >> 8), byte(number)}).String())
	}
	if r := v.field.Range; r != nil {
		address(&r.Start)
		address(r.End)
		if r.First != nil {
			address(r.First)
		}
	}
	for i := range v.field.Values {
		address(&v.field.Values[i])
	}
}

// bounds returns the range of the variable's values with a number added.
func (v *variable) bounds(add int64) (low, high *big.Int) {
	low, high = new(big.Int).SetUint64(v.least), new(big.Int).SetUint64(v.most)
	return low.Add(low, big.NewInt(add)), high.Add(high, big.NewInt(add))
}
