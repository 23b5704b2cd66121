// SPDX-License-Identifier: Apache-2.0

// How are the commands of TRex's stateful programs converted?

package trex

import (
	"fmt"
	"maps"
	"math"
	"math/big"
	"slices"
	"strconv"

	"k8s.io/utils/ptr"

	spatev1 "spate.dev/api/v1alpha1"
)

// astfProgram is a TRex program, which a side of any template may use.
type astfProgram struct {
	*astf
	path string
	// total number of its commands.
	total int
	udp   bool
	// latency is true if a command measures round trips.
	latency bool
	steps   []step
	// rewinds is true if a jump passes a wait, forward or backward: each wait then counts its own bytes.
	rewinds bool
	// nonBlocking is the state after the last `tx_mode`.
	nonBlocking bool
	signed      bool
	// names is true if a command names a template group, executes if one opens a connection of the group that was named last.
	names, executes bool
}

// step is a TRex command.
type step struct {
	// object is its JSON, for messages.
	object *object
	// commands it is converted to; the first one has the label.
	commands []spatev1.Command
	// to is the index of the step it jumps to; -1 for none.
	to int
	// buffer it sends; -1 for none.
	buffer int
	// waits is true if the step waits for the connection.
	waits bool
	// received is the total number of bytes it waits for; 0 for steps that do not wait.
	received uint64
	clear    bool
	// mode is true for a tx_mode.
	mode bool
	// group is the number of the template group that it names; 0 for none.
	group uint64
}

// program reads a program.
func (a *astf) program(o *object) *astfProgram {
	p := &astfProgram{astf: a, path: o.path, udp: !o.truthOr("stream", true)}
	if o.has("addon") {
		p.latency = o.choice("addon", "latency") == "latency"
	}
	o.take("addon")
	commands := o.list("commands")
	p.total = len(commands)
	o.done()
	for i, raw := range commands {
		p.steps = append(p.steps, p.step(i, a.problems.object(raw, fmt.Sprintf("%s.commands[%d]", o.path, i))))
	}
	if len(commands) == 0 {
		o.wrong("commands", "is empty: a program does something")
	}
	p.executing()
	p.jumps()
	p.waiting()
	p.withoutAlways()
	return p
}

// step reads a command.
func (p *astfProgram) step(index int, o *object) step {
	s := step{object: o, to: -1, buffer: -1}
	name := o.text("name")
	switch read, known := instructions[name]; {
	case o.broken:
	case !known:
		o.wrong("name", "%q is no command of TRex's that is known", name)
		return s
	case read.udp && !p.udp || read.tcp && p.udp:
		o.wrong("name", "%s is no command of this program's transport", name)
		return s
	case read.last && index != p.total-1:
		o.wrong("name", "%s must be the last command", name)
		return s
	case read.first && index != 0:
		o.wrong("name", "%s must be the first command", name)
		return s
	default:
		read.read(p, o, &s)
	}
	o.done()
	return s
}

// command converts one TRex command.
type command struct {
	read                  func(p *astfProgram, o *object, s *step)
	udp, tcp, first, last bool
}

var instructions = map[string]command{
	"connect": {tcp: true, first: true, read: func(_ *astfProgram, _ *object, s *step) { s.waits = true }},
	"tx":      {tcp: true, read: (*astfProgram).tx},
	"rx":      {tcp: true, read: func(_ *astfProgram, o *object, s *step) { s.wait(o, "min_bytes") }},
	"tx_mode": {tcp: true, read: (*astfProgram).txMode},
	"nc": {tcp: true, last: true, read: func(_ *astfProgram, _ *object, s *step) {
		s.commands = []spatev1.Command{{WaitForPeerClose: &spatev1.EmptyCommand{}}} // TRex closes after its peer
	}},
	"reset": {tcp: true, last: true, read: func(_ *astfProgram, _ *object, s *step) {
		s.commands = []spatev1.Command{{Reset: &spatev1.EmptyCommand{}}}
	}},
	"tx_msg":    {udp: true, read: (*astfProgram).tx},
	"rx_msg":    {udp: true, read: func(_ *astfProgram, o *object, s *step) { s.wait(o, "min_pkts") }},
	"keepalive": {udp: true, read: (*astfProgram).keepalive},
	"close_msg": {udp: true, last: true, read: func(_ *astfProgram, _ *object, s *step) {
		s.commands = []spatev1.Command{{Close: &spatev1.EmptyCommand{}}}
	}},
	"delay": {read: func(_ *astfProgram, o *object, s *step) {
		s.commands = []spatev1.Command{{Delay: &spatev1.DelayCommand{Min: span(o, "usec", microsecond)}}}
	}},
	"delay_rnd": {read: func(_ *astfProgram, o *object, s *step) {
		s.commands = []spatev1.Command{{Delay: &spatev1.DelayCommand{Min: span(o, "min_usec", microsecond), Max: span(o, "max_usec", microsecond)}}}
	}},
	"set_var": {read: func(_ *astfProgram, o *object, s *step) {
		s.commands = []spatev1.Command{{Set: &spatev1.VariableCommand{Variable: called(o, "id", "var"), Value: o.signed("val", 0, math.MaxInt64)}}}
	}},
	"add_var": {read: func(p *astfProgram, o *object, s *step) {
		add := &spatev1.VariableCommand{Variable: called(o, "id", "var"), Value: o.signed("val", math.MinInt64, math.MaxInt64)}
		p.signed = p.signed || add.Value < 0
		s.commands = []spatev1.Command{{Add: add}}
	}},
	"set_tick_var": {read: func(_ *astfProgram, o *object, s *step) {
		s.commands = []spatev1.Command{{SetTime: &spatev1.SetTimeCommand{Variable: called(o, "id", "tick")}}}
	}},
	"jmp_nz": {read: func(_ *astfProgram, o *object, s *step) {
		counter := called(o, "id", "var")
		s.to = int(o.signed("offset", -math.MaxInt16, math.MaxInt16)) // relative to this command; jumps resolves it
		s.commands = []spatev1.Command{{Add: &spatev1.VariableCommand{Variable: counter, Value: -1}}, {Jump: &spatev1.JumpCommand{Variable: counter, Comparison: spatev1.ComparisonNotEqual}}}
	}},
	"jmp_cmp": {read: (*astfProgram).jumpIf},
	"jmp_dp": {read: func(_ *astfProgram, o *object, s *step) {
		s.to = int(o.signed("offset", -math.MaxInt16, math.MaxInt16))
		s.commands = []spatev1.Command{{Loop: &spatev1.LoopCommand{Since: called(o, "id", "tick"), Duration: span(o, "duration", second)}}}
	}},
	"add_stats": {read: func(_ *astfProgram, o *object, s *step) {
		one := []spatev1.Command{{Count: &spatev1.CountCommand{Counter: called(o, "stats_id", "stats")}}}
		s.commands = slices.Repeat(one, int(o.whole("val", 0, mostCounted)))
	}},
	"add_tick_var": {read: func(_ *astfProgram, o *object, s *step) {
		s.commands = []spatev1.Command{{Add: &spatev1.VariableCommand{Variable: called(o, "id", "tick"), Value: nanoseconds(o, "duration", second)}}} // marks are in ns
	}},
	"add_tick_stats": {read: func(p *astfProgram, o *object, s *step) {
		p.notes.add("%s: TRex adds ticks of 10 ms, here the counter adds ns", o.at("name"))
		s.commands = []spatev1.Command{{Count: &spatev1.CountCommand{Counter: called(o, "stats_id", "stats"), Since: called(o, "var_id", "tick")}}}
	}},
	"set_template": {read: func(p *astfProgram, o *object, s *step) {
		p.names, s.group = true, o.whole("tg_id", 1, math.MaxUint16)
		s.commands = []spatev1.Command{{NextTemplate: &spatev1.NextTemplateCommand{}}}
	}},
	"exec_template": {read: func(p *astfProgram, _ *object, s *step) {
		p.executes = true
		s.commands = []spatev1.Command{{OpenConnection: &spatev1.OpenConnectionCommand{}}}
	}},
}

// mostCounted is the maximum increment of a counter: each increment by one is a command.
const mostCounted = 100

// Units of TRex's times in nanoseconds.
const (
	microsecond = 1_000
	second      = 1_000_000_000
)

// span returns a time given in a unit of nanoseconds.
func span(o *object, key string, unit int64) spatev1.Duration {
	return duration(nanoseconds(o, key, unit))
}

func nanoseconds(o *object, key string, unit int64) int64 {
	ns := o.decimal(key)
	ns.Mul(ns, new(big.Rat).SetInt64(unit))
	whole := new(big.Int).Quo(ns.Num(), ns.Denom())
	if !whole.IsInt64() {
		o.wrong(key, "is too long a time")
		return 0
	}
	return whole.Int64()
}

// called returns the name of a variable or counter by its number.
func called(o *object, key, kind string) spatev1.EntryName {
	return spatev1.EntryName(kind + "-" + strconv.FormatUint(o.whole(key, 0, math.MaxUint8), 10))
}

func (p *astfProgram) tx(o *object, s *step) {
	index := o.whole("buf_index", 0, math.MaxUint32)
	if int(index) >= len(p.buffers) {
		o.wrong("buf_index", "%d is none of the %d buffers", index, len(p.buffers))
		return
	}
	if len(p.buffers[index].bytes) == 0 {
		o.wrong("buf_index", "buffer %d is empty", index)
		return
	}
	if size := len(p.buffers[index].bytes); p.udp && size > math.MaxUint16 {
		o.wrong("buf_index", "buffer %d has %d bytes, and a message has %d at most", index, size, math.MaxUint16)
		return
	}
	s.buffer = int(index)
	if p.udp {
		s.commands = []spatev1.Command{{SendMessage: &spatev1.Content{}}}
		return
	}
	send := &spatev1.SendCommand{}
	if p.nonBlocking {
		send.WaitForAck = ptr.To(false)
	}
	s.commands = []spatev1.Command{{Send: send}}
}

// txMode sets how the following commands send.
func (p *astfProgram) txMode(o *object, s *step) {
	p.nonBlocking, s.mode = o.whole("flags", 0, 1) == 1, true
}

func (p *astfProgram) keepalive(o *object, s *step) {
	s.commands = []spatev1.Command{{Keepalive: &spatev1.KeepaliveCommand{Timeout: span(o, "msec", 1000*microsecond)}}}
	if o.truthOr("rx_mode", false) {
		o.wrong("rx_mode", "is not supported: what is sent ends the silence too")
	}
}

// wait reads a command that waits for received bytes.
func (s *step) wait(o *object, key string) {
	s.received = o.whole(key, 0, math.MaxInt64)
	if o.truthOr("clear", false) {
		s.clear = true
	}
}

// operators of comparisons.
var operators = map[string]spatev1.Comparison{
	"eq": spatev1.ComparisonEqual, "ne": spatev1.ComparisonNotEqual, "lt": spatev1.ComparisonLess, "le": spatev1.ComparisonLessOrEqual,
	"gt": spatev1.ComparisonGreater, "ge": spatev1.ComparisonGreaterOrEqual,
}

// jumpIf jumps on a comparison, or always.
func (p *astfProgram) jumpIf(o *object, s *step) {
	s.to = int(o.signed("offset", -math.MaxInt16, math.MaxInt16))
	if !o.has("cmp_op") {
		o.take("cmp_op")
		o.take("cmp_val")
		o.take("id")
		s.commands = []spatev1.Command{{Set: &spatev1.VariableCommand{Variable: always}}, {Jump: &spatev1.JumpCommand{Variable: always, Comparison: spatev1.ComparisonEqual}}}
		return
	}
	comparison := operators[o.choice("cmp_op", "eq", "ne", "lt", "le", "gt", "ge")]
	if p.signed && comparison != spatev1.ComparisonEqual && comparison != spatev1.ComparisonNotEqual {
		p.notes.add("%s: TRex's variables are not negative: one that falls below 0 is a great number there, and less than 0 here", o.at("cmp_op"))
	}
	s.commands = []spatev1.Command{{Jump: &spatev1.JumpCommand{
		Variable: called(o, "id", "var"), Comparison: comparison, Value: int64(o.whole("cmp_val", 0, math.MaxInt64)),
	}}}
}

// jumps resolves the targets of jumps.
func (p *astfProgram) jumps() {
	for i := range p.steps {
		s := &p.steps[i]
		if s.object.broken || !s.jumps() {
			continue
		}
		s.to += i
		if s.to < 0 || s.to > len(p.steps) {
			s.object.wrong("offset", "leads out of the program")
			continue
		}
		over := p.steps[min(s.to, i):min(max(s.to, i)+1, len(p.steps))]
		if s.to <= i && slices.ContainsFunc(s.commands, func(c spatev1.Command) bool { return c.Jump != nil && c.Jump.Variable == always }) && !takesTime(over) {
			s.commands = slices.Insert(s.commands, 0, spatev1.Command{Delay: &spatev1.DelayCommand{Min: "1us"}})
			p.notes.add("%s: TRex goes back at one instant; here 1 us passes each time", s.object.at("offset"))
		}
		for _, other := range over {
			p.rewinds = p.rewinds || other.received > 0
		}
		if slices.ContainsFunc(over, func(s step) bool { return s.mode }) {
			s.object.wrong("offset", "it jumps over a tx_mode: how the commands there send would change with each round; set it before")
		}
	}
}

// always is a variable that stays 0.
const always = "always"

// leastCompared is less than all that TRex's variables come to.
const leastCompared = -(1<<53 - 1)

// withoutAlways lets jumps that are always taken do without a variable of their own where all are taken: any of them is more than the
// least value.
func (p *astfProgram) withoutAlways() {
	names := map[spatev1.EntryName]bool{}
	for _, s := range p.steps {
		for _, c := range s.commands {
			switch {
			case c.Set != nil:
				names[c.Set.Variable] = true
			case c.Add != nil:
				names[c.Add.Variable] = true
			case c.SetTime != nil:
				names[c.SetTime.Variable] = true
			}
		}
	}
	const most = 4 // variables of a connection
	if !names[always] || len(names) <= most {
		return
	}
	delete(names, always)
	other := slices.Max(slices.Collect(maps.Keys(names))) // a number rather than a time
	for i := range p.steps {
		s := &p.steps[i]
		s.commands = slices.DeleteFunc(s.commands, func(c spatev1.Command) bool { return c.Set != nil && c.Set.Variable == always })
		for _, c := range s.commands {
			if c.Jump != nil && c.Jump.Variable == always {
				*c.Jump = spatev1.JumpCommand{Variable: other, Comparison: spatev1.ComparisonGreaterOrEqual, Value: leastCompared}
			}
		}
	}
}

// executing omits openings of connections where no group is named for them.
func (p *astfProgram) executing() {
	if !p.executes || p.names {
		return
	}
	for i := range p.steps {
		s := &p.steps[i]
		if slices.ContainsFunc(s.commands, func(c spatev1.Command) bool { return c.OpenConnection != nil }) {
			s.commands = nil
			p.notes.add("%s: no set_template names a template for it: as with TRex nothing is opened", s.object.at("name"))
		}
	}
	p.executes = false
}

// takesTime reports whether something happens on the way of these steps before they come to their end.
func takesTime(steps []step) bool {
	return slices.ContainsFunc(steps, func(s step) bool {
		return s.waits || s.received > 0 || slices.ContainsFunc(s.commands, func(c spatev1.Command) bool {
			return c.Delay != nil || c.Send != nil || c.OpenConnection != nil
		})
	})
}

func jumping(c spatev1.Command) bool { return c.Jump != nil || c.Loop != nil }

// waiting converts waits to commands. TRex's counts are totals, which grow from one wait to the next in program order.
// Where jumps pass waits, each waits for the bytes it adds.
func (p *astfProgram) waiting() {
	before := uint64(0)
	for i := range p.steps {
		s := &p.steps[i]
		if s.received == 0 && !s.clear {
			continue
		}
		s.received = max(s.received, before)
		count, cleared := s.received, s.clear
		if p.rewinds {
			count, cleared = s.received-before, true
		}
		before = s.received
		if s.clear {
			before = 0
			p.notes.add("%s: TRex forgets what came beyond; here it counts for the next", s.object.at("clear"))
		}
		switch {
		case count == 0: // they have arrived already
		case p.udp:
			s.commands = []spatev1.Command{{ReceiveMessages: &spatev1.ReceiveMessagesCommand{Messages: int64(count), Clear: cleared}}}
		default:
			s.commands = []spatev1.Command{{Receive: &spatev1.ReceiveCommand{Bytes: int64(count), Clear: cleared}}}
		}
	}
}

// sideCommands returns the commands of a side.
func (p *astfProgram) sideCommands(server bool) []spatev1.Command {
	places := p.places()
	labelled := map[int]bool{}
	for _, s := range p.steps {
		if s.jumps() {
			labelled[places[s.to]] = true
		}
	}
	var all []spatev1.Command
	for i := range p.steps {
		own := p.made(i, server, places)
		if labelled[i] {
			own[0].Label = labelOf(i)
		}
		all = append(all, own...)
	}
	if labelled[len(p.steps)] || len(all) == 0 {
		end := spatev1.Command{Close: &spatev1.EmptyCommand{}}
		if labelled[len(p.steps)] {
			end.Label = labelOf(len(p.steps))
		}
		all = append(all, end)
	}
	return all
}

func (s *step) jumps() bool { return slices.ContainsFunc(s.commands, jumping) }

func labelOf(place int) spatev1.EntryName { return spatev1.EntryName("step-" + strconv.Itoa(place+1)) }

// places returns, for each step, the first one from there on that has commands; past the last, the end of the program.
func (p *astfProgram) places() []int {
	all := make([]int, len(p.steps)+1)
	all[len(p.steps)] = len(p.steps)
	for i := len(p.steps) - 1; i >= 0; i-- {
		all[i] = i
		if len(p.steps[i].commands) == 0 && !p.steps[i].waits {
			all[i] = all[i+1]
		}
	}
	return all
}

// made returns the commands of a step on a side.
func (p *astfProgram) made(index int, server bool, places []int) []spatev1.Command {
	s := &p.steps[index]
	switch {
	case s.waits && server:
		return []spatev1.Command{{Accept: &spatev1.EmptyCommand{}}}
	case s.waits:
		return []spatev1.Command{{Connect: &spatev1.EmptyCommand{}}}
	}
	var all []spatev1.Command
	for i := range s.commands {
		c := s.commands[i].DeepCopy()
		switch {
		case c.Jump != nil:
			c.Jump.To = labelOf(places[s.to])
		case c.Loop != nil:
			c.Loop.To = labelOf(places[s.to])
		case c.NextTemplate != nil:
			// TRex draws one of the group for each connection, all with the same probability (do_schedule_template).
			group := p.grouped[s.group]
			c.NextTemplate.Template = spatev1.ObjectName(p.named[group[0]])
			for _, other := range group[1:] {
				c.NextTemplate.Alternatives = append(c.NextTemplate.Alternatives, spatev1.ObjectName(p.named[other]))
			}
		case c.Send != nil:
			pieces := p.sent(&p.buffers[s.buffer])
			for _, piece := range pieces[:len(pieces)-1] {
				before := c.DeepCopy()
				before.Send.Content = piece
				all = append(all, *before)
			}
			c.Send.Content = pieces[len(pieces)-1]
		case c.SendMessage != nil:
			*c.SendMessage = p.sent(&p.buffers[s.buffer])[0]
		}
		all = append(all, *c)
	}
	return all
}

// firstBytes returns the bytes at some offsets that a program sends before it waits: over TCP of its first buffer, over
// UDP of all buffers, which must agree.
func (p *astfProgram) firstBytes(o *object, offsets []int) []int {
	var values []int
	for _, s := range p.steps {
		if s.received > 0 && !p.udp && values == nil {
			o.wrong("offset", "the clients wait before they send: give the values")
			return nil
		}
		if s.buffer < 0 {
			continue
		}
		own := make([]int, len(offsets))
		for i, at := range offsets {
			if at >= len(p.buffers[s.buffer].bytes) {
				o.wrong("offset", "%d is behind the %d bytes that clients send", at, len(p.buffers[s.buffer].bytes))
				return nil
			}
			own[i] = int(p.buffers[s.buffer].bytes[at])
		}
		if values != nil && !slices.Equal(values, own) {
			o.wrong("offset", "clients send messages that differ there")
			return nil
		}
		if values = own; !p.udp {
			return values
		}
	}
	if values == nil {
		o.wrong("offset", "clients send nothing: give the values")
	}
	return values
}
