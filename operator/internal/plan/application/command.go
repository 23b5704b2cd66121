// SPDX-License-Identifier: Apache-2.0

// Which instructions are a side's commands converted to? Labels become indices, names become numbers. The engine
// compiles the instructions, and checks that the two sides are compatible.

package application

import (
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/util/validation/field"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/engine/enginev1"
	"spate.dev/operator/internal/plan/data"
)

// Maximum numbers of variables and counters of a program.
const (
	mostVariables = 4
	mostCounters  = 256
)

// Program is the program of one side: its payloads, and the templates it switches to, are numbered within it.
type Program struct {
	Program  *enginev1.Program
	Payloads []*enginev1.Payload
	// numbers of the payloads, by their content.
	numbers  map[string]uint32
	Switches []Switch
	// Opens are the templates whose connections it opens or names for that; an open without a template is none of them.
	Opens []Switch
}

// Switch is a template that a program continues with, or whose connections it opens.
type Switch struct {
	Name spatev1.ObjectName
	At   *field.Path
}

// commands converts a side's commands.
type commands struct {
	checker
	Program
	data data.Data
	// labels are the indices of the commands that have a label.
	labels map[spatev1.EntryName]uint32
	// given are variables that a command sets; used are those that a command reads, with its field.
	given []string
	used  map[string]*field.Path
}

// commands converts commands to a program, one instruction each.
func (p checker) commands(all []spatev1.Command, at *field.Path, data data.Data) *Program {
	c := commands{checker: p, data: data, labels: map[spatev1.EntryName]uint32{}, used: map[string]*field.Path{}}
	c.Program.Program, c.numbers = &enginev1.Program{}, map[string]uint32{}
	if len(all) > spatev1.MaxCommands {
		c.Add(spatev1.ReasonInvalidSpec, at, "has %d commands; at most %d have room in a template: where they are those of a capture, name that as source.pcap", len(all), spatev1.MaxCommands)
	}
	for i, command := range all {
		if command.Label == "" {
			continue
		}
		if first, twice := c.labels[command.Label]; twice {
			c.Add(spatev1.ReasonInvalidSpec, at.Index(i).Child("label"), "%q is the label of command %d too; rename one of them", command.Label, first)
			continue
		}
		c.labels[command.Label] = uint32(i)
	}
	for i := range all {
		instruction := c.one(&all[i], at.Index(i))
		c.Program.Program.Instructions = append(c.Program.Program.Instructions, instruction)
	}
	for _, name := range slices.Sorted(maps.Keys(c.used)) {
		if !slices.Contains(c.given, name) {
			c.Add(spatev1.ReasonInvalidSpec, c.used[name], "nothing gives the variable %q a value: use set, add or setTime, or name a variable that has one", name)
		}
	}
	if count := len(c.Program.Program.Variables); count > mostVariables {
		c.Add(spatev1.ReasonInvalidSpec, at, "has %d variables (%s); at most %d are there for a connection", count, strings.Join(c.Program.Program.Variables, ", "), mostVariables)
	}
	if count := len(c.Program.Program.Counters); count > mostCounters {
		c.Add(spatev1.ReasonInvalidSpec, at, "has %d counters; at most %d are there for a program: count several things by one name", count, mostCounters)
	}
	return &c.Program
}

// one returns a command as an instruction; an empty one if the command is wrong.
func (c *commands) one(command *spatev1.Command, at *field.Path) *enginev1.Instruction {
	if !c.ExactlyOne(at, "connect, accept, send, receive, sendMessage, receiveMessages, delay, close, reset, waitForPeerClose, leaveOpen, keepalive, set, add, "+
		"jump, loop, setTime, count, receiveUntil, switchTemplate, openConnection and nextTemplate", command.Connect != nil, command.Accept != nil, command.Send != nil, command.Receive != nil,
		command.SendMessage != nil, command.ReceiveMessages != nil, command.Delay != nil, command.Close != nil, command.Reset != nil, command.WaitForPeerClose != nil,
		command.LeaveOpen != nil, command.Keepalive != nil, command.Set != nil, command.Add != nil, command.Jump != nil, command.Loop != nil, command.SetTime != nil,
		command.Count != nil, command.ReceiveUntil != nil, command.SwitchTemplate != nil, command.OpenConnection != nil, command.NextTemplate != nil) {
		return &enginev1.Instruction{}
	}
	if made := c.flow(command, at); made != nil {
		return made
	}
	return c.control(command, at)
}

// flow converts the commands that act on the connection; nil for others.
func (c *commands) flow(command *spatev1.Command, at *field.Path) *enginev1.Instruction {
	nothing := &enginev1.Nothing{}
	switch {
	case command.Connect != nil:
		return &enginev1.Instruction{Kind: &enginev1.Instruction_Connect{Connect: nothing}}
	case command.Accept != nil:
		return &enginev1.Instruction{Kind: &enginev1.Instruction_Accept{Accept: nothing}}
	case command.Send != nil:
		send := &enginev1.Send{Payload: c.content(&command.Send.Content, at.Child("send", "content")), Wait: command.Send.WaitForAck == nil || *command.Send.WaitForAck}
		return &enginev1.Instruction{Kind: &enginev1.Instruction_Send{Send: send}}
	case command.Receive != nil:
		r := command.Receive
		c.AtLeastOne(r.Bytes, at.Child("receive", "bytes"))
		return &enginev1.Instruction{Kind: &enginev1.Instruction_Receive{Receive: &enginev1.Receive{Bytes: uint64(r.Bytes), Clear: r.Clear}}}
	case command.ReceiveUntil != nil:
		until := c.until(command.ReceiveUntil, at.Child("receiveUntil"))
		return &enginev1.Instruction{Kind: &enginev1.Instruction_ReceiveUntil{ReceiveUntil: until}}
	case command.SendMessage != nil:
		message := &enginev1.SendMessage{Payload: c.content(command.SendMessage, at.Child("sendMessage"))}
		return &enginev1.Instruction{Kind: &enginev1.Instruction_SendMessage{SendMessage: message}}
	case command.ReceiveMessages != nil:
		r := command.ReceiveMessages
		c.AtLeastOne(r.Messages, at.Child("receiveMessages", "messages"))
		return &enginev1.Instruction{Kind: &enginev1.Instruction_ReceiveMessages{ReceiveMessages: &enginev1.ReceiveMessages{Messages: uint64(r.Messages), Clear: r.Clear}}}
	case command.Close != nil:
		return &enginev1.Instruction{Kind: &enginev1.Instruction_Close{Close: nothing}}
	case command.Reset != nil:
		return &enginev1.Instruction{Kind: &enginev1.Instruction_Reset_{Reset_: nothing}}
	case command.WaitForPeerClose != nil:
		return &enginev1.Instruction{Kind: &enginev1.Instruction_WaitForPeerClose{WaitForPeerClose: nothing}}
	case command.LeaveOpen != nil:
		return &enginev1.Instruction{Kind: &enginev1.Instruction_LeaveOpen{LeaveOpen: nothing}}
	}
	return nil
}

// control converts the commands that act within the program.
func (c *commands) control(command *spatev1.Command, at *field.Path) *enginev1.Instruction {
	switch {
	case command.Delay != nil:
		return &enginev1.Instruction{Kind: &enginev1.Instruction_Delay{Delay: c.delay(command.Delay, at.Child("delay"))}}
	case command.Keepalive != nil:
		silence := c.Duration(command.Keepalive.Timeout, at.Child("keepalive", "timeout"))
		if silence == 0 {
			c.Add(spatev1.ReasonInvalidSpec, at.Child("keepalive", "timeout"), "must be greater than zero")
		}
		return &enginev1.Instruction{Kind: &enginev1.Instruction_KeepaliveNs{KeepaliveNs: silence}}
	case command.Set != nil:
		return &enginev1.Instruction{Kind: &enginev1.Instruction_Set{Set: c.change(command.Set)}}
	case command.Add != nil:
		return &enginev1.Instruction{Kind: &enginev1.Instruction_Add{Add: c.change(command.Add)}}
	case command.Jump != nil:
		return &enginev1.Instruction{Kind: &enginev1.Instruction_Jump{Jump: c.jump(command.Jump, at.Child("jump"))}}
	case command.Loop != nil:
		l, at := command.Loop, at.Child("loop")
		loop := &enginev1.Loop{To: c.place(l.To, at.Child("to")), Since: c.asked(l.Since, at.Child("since")), DurationNs: c.Duration(l.Duration, at.Child("duration"))}
		return &enginev1.Instruction{Kind: &enginev1.Instruction_Loop{Loop: loop}}
	case command.SetTime != nil:
		return &enginev1.Instruction{Kind: &enginev1.Instruction_Mark{Mark: c.changed(command.SetTime.Variable)}}
	case command.Count != nil:
		number := numbered(&c.Program.Program.Counters, string(command.Count.Counter))
		if since := command.Count.Since; since != "" {
			timed := &enginev1.CountTime{Counter: number, Since: c.asked(since, at.Child("count", "since"))}
			return &enginev1.Instruction{Kind: &enginev1.Instruction_CountTime{CountTime: timed}}
		}
		return &enginev1.Instruction{Kind: &enginev1.Instruction_Count{Count: number}}
	case command.OpenConnection != nil:
		open := &enginev1.OpenConnection{}
		if name := command.OpenConnection.Template; name != "" {
			open.Template = proto.Uint32(c.opens(name, at.Child("openConnection", "template")))
		}
		return &enginev1.Instruction{Kind: &enginev1.Instruction_OpenConnection{OpenConnection: open}}
	case command.NextTemplate != nil:
		return c.next(command.NextTemplate, at.Child("nextTemplate"))
	}
	c.Switches = append(c.Switches, Switch{command.SwitchTemplate.Template, at.Child("switchTemplate", "template")})
	return &enginev1.Instruction{Kind: &enginev1.Instruction_SwitchTemplate{SwitchTemplate: uint32(len(c.Switches) - 1)}}
}

// next names a template, or several of which engines draw one for each connection.
func (c *commands) next(command *spatev1.NextTemplateCommand, at *field.Path) *enginev1.Instruction {
	first := c.opens(command.Template, at.Child("template"))
	if len(command.Alternatives) == 0 {
		return &enginev1.Instruction{Kind: &enginev1.Instruction_NextTemplate{NextTemplate: first}}
	}
	drawn := &enginev1.NextTemplates{Templates: []uint32{first}}
	for i, name := range command.Alternatives {
		at := at.Child("alternatives").Index(i)
		if name == command.Template || slices.Contains(command.Alternatives[:i], name) {
			c.Add(spatev1.ReasonInvalidSpec, at, "%q is named twice; all templates have the same probability", name)
		}
		drawn.Templates = append(drawn.Templates, c.opens(name, at))
	}
	return &enginev1.Instruction{Kind: &enginev1.Instruction_NextTemplates{NextTemplates: drawn}}
}

// opens returns the number of a template whose connections are opened.
func (c *commands) opens(name spatev1.ObjectName, at *field.Path) uint32 {
	c.Opens = append(c.Opens, Switch{name, at})
	return uint32(len(c.Opens) - 1)
}

// content returns the number of a payload.
func (c *commands) content(content *spatev1.Content, at *field.Path) uint32 {
	payload := c.payload(content, at, c.data)
	if payload == nil {
		return 0
	}
	return Number(c.numbers, &c.Payloads, payload, KeyOf(payload))
}

func (c *commands) until(r *spatev1.ReceiveUntilCommand, at *field.Path) *enginev1.ReceiveUntil {
	if !c.ExactlyOne(at, "pattern, patternHex and httpMessage", r.Pattern != "", r.PatternHex != "", r.HTTPMessage != nil) {
		return nil
	}
	if r.HTTPMessage != nil {
		return &enginev1.ReceiveUntil{End: &enginev1.ReceiveUntil_HttpMessage{HttpMessage: &enginev1.Nothing{}}}
	}
	pattern, child := []byte(r.Pattern), at.Child("pattern")
	if r.PatternHex != "" {
		child = at.Child("patternHex")
		if pattern = c.hexDigits(r.PatternHex, child); pattern == nil {
			return nil
		}
	}
	const most = 64
	if len(pattern) > most {
		c.Add(spatev1.ReasonInvalidSpec, child, "has %d bytes; at most %d are looked for", len(pattern), most)
	}
	return &enginev1.ReceiveUntil{End: &enginev1.ReceiveUntil_Pattern{Pattern: pattern}}
}

func (c *commands) delay(d *spatev1.DelayCommand, at *field.Path) *enginev1.Delay {
	least := c.Duration(d.Min, at.Child("min"))
	most := least
	if d.Max != "" {
		most = c.Duration(d.Max, at.Child("max"))
	}
	if most < least {
		c.Add(spatev1.ReasonInvalidSpec, at.Child("max"), "%s is less than min, which is %s", d.Max, d.Min)
	}
	return &enginev1.Delay{MinNs: least, MaxNs: most}
}

// numbered returns a name's number among others.
func numbered(names *[]string, name string) uint32 {
	if at := slices.Index(*names, name); at >= 0 {
		return uint32(at)
	}
	*names = append(*names, name)
	return uint32(len(*names) - 1)
}

// changed returns the number of a variable that is set.
func (c *commands) changed(name spatev1.EntryName) uint32 {
	c.given = append(c.given, string(name))
	return numbered(&c.Program.Program.Variables, string(name))
}

func (c *commands) change(v *spatev1.VariableCommand) *enginev1.VariableValue {
	return &enginev1.VariableValue{Variable: c.changed(v.Variable), Value: v.Value}
}

// asked returns the number of a variable that is read.
func (c *commands) asked(name spatev1.EntryName, at *field.Path) uint32 {
	if _, found := c.used[string(name)]; !found {
		c.used[string(name)] = at
	}
	return numbered(&c.Program.Program.Variables, string(name))
}

// place returns the index of the command with a label.
func (c *commands) place(label spatev1.EntryName, at *field.Path) uint32 {
	to, known := c.labels[label]
	if !known {
		c.Add(spatev1.ReasonInvalidSpec, at, "%q is the label of no command of this program", label)
	}
	return to
}

var comparisons = map[spatev1.Comparison]enginev1.Comparison{
	"":                               enginev1.Comparison_COMPARISON_NOT_EQUAL,
	spatev1.ComparisonNotEqual:       enginev1.Comparison_COMPARISON_NOT_EQUAL,
	spatev1.ComparisonEqual:          enginev1.Comparison_COMPARISON_EQUAL,
	spatev1.ComparisonLess:           enginev1.Comparison_COMPARISON_LESS,
	spatev1.ComparisonLessOrEqual:    enginev1.Comparison_COMPARISON_LESS_OR_EQUAL,
	spatev1.ComparisonGreater:        enginev1.Comparison_COMPARISON_GREATER,
	spatev1.ComparisonGreaterOrEqual: enginev1.Comparison_COMPARISON_GREATER_OR_EQUAL,
}

func (c *commands) jump(j *spatev1.JumpCommand, at *field.Path) *enginev1.Jump {
	comparison, known := comparisons[j.Comparison]
	if !known {
		c.Add(spatev1.ReasonInvalidSpec, at.Child("comparison"), "%q: must be Equal, NotEqual, Less, LessOrEqual, Greater or GreaterOrEqual", j.Comparison)
	}
	return &enginev1.Jump{
		To: c.place(j.To, at.Child("to")), Variable: c.asked(j.Variable, at.Child("variable")), Comparison: comparison, Value: j.Value,
	}
}
