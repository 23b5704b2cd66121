// SPDX-License-Identifier: Apache-2.0

// Package verdict evaluates thresholds: CEL expressions that must be true of a result, of a trial of a search, or of what a search found.
package verdict

// This file answers: is an expression valid, and is it true of a result, or of a trial?

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/ext"
)

// costLimit ends the evaluation of expensive expressions; a comparison costs a handful. An expression over all streams of
// a run may cost costPerStream for each of them beside it.
const (
	costLimit     = 100_000
	costPerStream = 32
)

// subject is what expressions are about: the name of the variable, its type, an example of an expression, and other variables of that type.
type subject struct {
	variable string
	of       reflect.Type
	example  string
	others   []string
	env      func() (*cel.Env, error)
}

func newSubject(variable string, of reflect.Type, example string, others ...string) *subject {
	return &subject{variable, of, example, others, sync.OnceValues(func() (*cel.Env, error) {
		options := append(library(),
			ext.NativeTypes(of, ext.ParseStructTags(true)),
			ext.Math(),
			ext.TwoVarComprehensions(),
			cel.CrossTypeNumericComparisons(true),
			cel.Variable(variable, cel.ObjectType(of.String())),
		)
		for _, other := range others {
			options = append(options, cel.Variable(other, cel.ObjectType(of.String())))
		}
		return cel.NewCustomEnv(options...)
	})}
}

var (
	ofRun   = newSubject("result", reflect.TypeFor[Result](), "result.lost == 0", Baseline)
	ofTrial = newSubject("trial", reflect.TypeFor[Result](), "trial.outOfOrder == 0")
)

// Threshold is a compiled expression.
type Threshold struct {
	subject    *subject
	expression string
	compiled   *cel.Ast
	program    cel.Program
}

// Compile checks that the expression uses only fields that a result has and that it is a boolean.
func Compile(expression string) (*Threshold, error) { return ofRun.compile(expression) }

// CompileTrial is Compile for an expression on a trial of a search, whose result is the variable `trial`.
func CompileTrial(expression string) (*Threshold, error) { return ofTrial.compile(expression) }

func (s *subject) compile(expression string) (*Threshold, error) {
	env, err := s.env()
	if err != nil {
		return nil, err
	}
	compiled, issues := env.Compile(expression)
	if issues.Err() != nil {
		var messages []string
		for _, e := range issues.Errors() {
			message := fmt.Sprintf("column %d: %s", e.Location.Column()+1, e.Message)
			if strings.Contains(message, "(double, int)") || strings.Contains(message, "(int, double)") {
				message += " (ratios and rates have a fraction: write 0.0, not 0)"
			}
			if fields := s.instead(env, expression, e.Message); fields != "" {
				message += ": " + fields
			}
			messages = append(messages, message)
		}
		return nil, errors.New(strings.Join(messages, "; "))
	}
	if out := compiled.OutputType(); !out.IsExactType(cel.BoolType) {
		return nil, fmt.Errorf("is of type %s: must be true or false, as in %q", out, s.example)
	}
	program, err := env.Program(compiled, cel.EvalOptions(cel.OptTrackState), cel.CostLimit(costLimit))
	if err != nil {
		return nil, err
	}
	return &Threshold{subject: s, expression: expression, compiled: compiled, program: program}, nil
}

// Subjects are the names that a profile's result will have.
type Subjects struct {
	Streams   map[string]Measures
	Receivers []string
	// Clients are the entries of emulated clients.
	Clients []string
	// Templates and their groups by name.
	Templates, Groups map[string]Sides
	// Sessions that advertise routes, as PORT/SESSION.
	Sessions []string
}

// Sides are those of Client and Server that the profile emulates.
type Sides map[string]Program

// Program is what is known of a side before the run.
type Program struct {
	// Counters of its program, by name.
	Counters []string
	// Unmeasured are those of ConnectTime and RoundTrip that nothing measures, each with the remedy.
	Unmeasured map[string]string
}

// side returns a side with all counters 0. Its times have these keys; times that nothing measures have none.
func (p Program) side(keys []string) Side {
	times := func(name string) map[string]any {
		if p.Unmeasured[name] != "" {
			return nil
		}
		return noTimes(keys)
	}
	return Side{Counters: zeros(p.Counters), ConnectTime: times(ConnectTime), RoundTrip: times(RoundTrip)}
}

// The names of a side's times in expressions.
const (
	ConnectTime = "connectTime"
	RoundTrip   = "roundTrip"
)

// empty is a result with these subjects, without numbers.
func (s Subjects) empty() Result {
	empty := Result{Streams: map[string]Stream{}, Receivers: map[string]Receiver{}, Templates: map[string]map[string]Side{}, Groups: map[string]Group{}, Clients: map[string]Clients{}}
	empty.Routing.Sessions = make(map[string]Session, len(s.Sessions))
	for _, name := range s.Sessions {
		empty.Routing.Sessions[name] = Session{}
	}
	unsent := Stream{Latency: noTimes(LatencyKeys), Outage: noTimes(OutageKeys)} // shared by all: they may be 65536
	for name, measures := range s.Streams {
		own := unsent
		if len(measures.Tags) > 0 {
			own.ByTag = make(map[string]Tag, len(measures.Tags))
			for _, tag := range measures.Tags {
				own.ByTag[tag] = Tag{}
			}
		}
		empty.Streams[name] = own
	}
	for _, r := range s.Receivers {
		empty.Receivers[r] = Receiver{InterArrival: noTimes(MomentKeys), Jitter: noTimes(MomentKeys), Latency: noTimes(MomentKeys)}
	}
	for _, name := range s.Clients {
		empty.Clients[name] = noClients()
	}
	for name, sides := range s.Templates {
		empty.Templates[name] = map[string]Side{}
		for side, program := range sides {
			all := program.side(DelayKeys)
			all.Outage = noTimes(OutageKeys)
			empty.Templates[name][side] = all
		}
	}
	for name, sides := range s.Groups {
		empty.Groups[name] = Group{}
		for side, program := range sides {
			empty.Groups[name][side] = program.side(MomentKeys)
		}
	}
	return empty
}

// Check returns an error for streams, receivers, templates, groups, sides, counters and times in the expression that no
// result with these subjects will have. What a baseline has is not known here (see CheckBaseline).
func (t *Threshold) Check(subjects Subjects) error {
	err := t.unmeasured(subjects)
	if err != nil {
		return err
	}
	if t.ReadsBaseline() {
		err = t.unknownBaseline(subjects.empty())
	} else {
		_, _, err = t.eval(map[string]any{t.subject.variable: subjects.empty()})
	}
	if err != nil && strings.Contains(err.Error(), "no such key") && strings.Contains(t.expression, byTag) {
		return fmt.Errorf("%w: streams of the profile are %s; tags of a stream are those of its measure.byTag, each by itself, such as \"5\" or \"100/5\", and %s",
			err, list(slices.Sorted(maps.Keys(subjects.Streams))), list([]string{"untagged", "other"}))
	}
	if err != nil && strings.Contains(err.Error(), "no such key") && strings.Contains(t.expression, routingSessions) {
		return fmt.Errorf("%w: sessions are those that advertise a set of spec.routing, as PORT/SESSION: %s", err, list(subjects.Sessions))
	}
	if err != nil && strings.Contains(err.Error(), "no such key") {
		return fmt.Errorf("%w: streams of the profile are %s; receivers are %s; clients are %s; templates are %s; groups are %s; a latency has %s, of groups and receivers %s; an outage of a stream or template has %s",
			err, list(slices.Sorted(maps.Keys(subjects.Streams))), list(subjects.Receivers), list(subjects.Clients), withSides(subjects.Templates), withSides(subjects.Groups), list(LatencyKeys), list(MomentKeys), list(OutageKeys))
	}
	if err != nil && strings.Contains(err.Error(), "no such overload") {
		return fmt.Errorf("%w: times are durations, such as %s.streams[\"voice\"].latency.p99 < duration('100us'), and counts are integers", err, t.subject.variable)
	}
	return nil // others, such as a division by zero, come from counters that are zero here
}

// routingSessions selects the sessions of a result.
const routingSessions = "routing.sessions"

// limitFor is the cost limit of an expression on results of this many streams.
func limitFor(streams int) cel.ProgramOption {
	return cel.CostLimit(uint64(costLimit + costPerStream*streams))
}

// eval evaluates the expression on values by the names of their variables.
func (t *Threshold) eval(of map[string]any) (ref.Val, *cel.EvalDetails, error) {
	program, streams := t.program, 0
	for _, value := range of {
		if result, is := value.(Result); is {
			streams += len(result.Streams)
		}
	}
	if streams > costLimit/costPerStream {
		env, err := t.subject.env()
		if err != nil {
			return nil, nil, err
		}
		if program, err = env.Program(t.compiled, cel.EvalOptions(cel.OptTrackState), limitFor(streams)); err != nil {
			return nil, nil, err
		}
	}
	return program.Eval(of)
}

// withSides formats names with their sides and counters, such as `http (client with counters answered, server without
// roundTrip)`.
func withSides(named map[string]Sides) string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(named)) {
		var sides []string
		for _, side := range slices.Sorted(maps.Keys(named[name])) {
			program := named[name][side]
			if len(program.Counters) > 0 {
				side += " with counters " + list(program.Counters)
			}
			if len(program.Unmeasured) > 0 {
				side += " without " + list(slices.Sorted(maps.Keys(program.Unmeasured)))
			}
			sides = append(sides, side)
		}
		all = append(all, fmt.Sprintf("%s (%s)", name, list(sides)))
	}
	return list(all)
}

func zeros(keys []string) map[string]int64 {
	all := make(map[string]int64, len(keys))
	for _, key := range keys {
		all[key] = 0
	}
	return all
}

// noTimes returns a duration of 0 by each key, and a count of 0.
func noTimes(keys []string) map[string]any {
	all := make(map[string]any, len(keys))
	for _, key := range keys {
		all[key] = time.Duration(0)
		if key == "count" {
			all[key] = int64(0)
		}
	}
	return all
}

// longestList is the maximum number of names in a message.
const longestList = 50

func list(names []string) string {
	switch {
	case len(names) == 0:
		return "none"
	case len(names) > longestList:
		return fmt.Sprintf("%s and %d more", strings.Join(names[:longestList], ", "), len(names)-longestList)
	}
	return strings.Join(names, ", ")
}

// Outcome is the result of evaluating one threshold.
type Outcome struct {
	Passed bool
	// Failed is true when the threshold could not be evaluated.
	Failed bool
	// Message has the expression and the values it was evaluated with.
	Message string
	// Values are those that the expression read, such as "result.lost is 12"; empty if it read none or could not be evaluated.
	Values string
}

// Evaluate evaluates the threshold on a result.
func (t *Threshold) Evaluate(result Result) Outcome {
	return t.evaluate(map[string]any{t.subject.variable: result})
}

// EvaluateAgainst evaluates the threshold on a result and that of a baseline.
func (t *Threshold) EvaluateAgainst(baseline, result Result) Outcome {
	return t.evaluate(map[string]any{t.subject.variable: result, Baseline: baseline})
}

func (t *Threshold) evaluate(of map[string]any) Outcome {
	value, details, err := t.eval(of)
	if err != nil {
		message := fmt.Sprintf("%s cannot be evaluated: %s", t.expression, err)
		if path := t.absent(details); path != "" {
			message = fmt.Sprintf("%s cannot be evaluated: the baseline has no %s: %s", t.expression, path, err)
		}
		if strings.Contains(err.Error(), "no such key") && slices.ContainsFunc(slices.Concat(LatencyKeys, OutageKeys), func(key string) bool { return strings.HasSuffix(err.Error(), ": "+key) }) {
			message += " (no such time was measured: the stream or template does not measure it, nothing of it arrived, or the clocks are not known to agree)"
		}
		return Outcome{Failed: true, Message: message}
	}
	passed := value.Value() == true
	verb := "does not hold"
	if passed {
		verb = "holds"
	}
	message := t.expression + " " + verb
	values := strings.Join(t.values(details), ", ")
	if values != "" {
		message += ": " + values
	}
	return Outcome{Passed: passed, Message: message, Values: values}
}

// values lists the values that the expression read from the result, such as "result.lost is 12".
func (t *Threshold) values(details *cel.EvalDetails) []string {
	var out []string
	seen := map[string]bool{}
	source := t.compiled.NativeRep()
	var walk func(e ast.NavigableExpr)
	walk = func(e ast.NavigableExpr) {
		if path, ok := t.subject.path(e); ok {
			if v, known := details.State().Value(e.ID()); known && !seen[path] {
				seen[path] = true
				out = append(out, path+" is "+format(v))
			}
			return
		}
		for _, child := range e.Children() {
			walk(child)
		}
	}
	walk(ast.NavigateAST(source))
	return out
}

// path formats a selection that starts at a variable, such as result.streams["a"].lost; not ok for others.
func (s *subject) path(e ast.Expr) (string, bool) {
	switch e.Kind() {
	case ast.IdentKind:
		return e.AsIdent(), e.AsIdent() == s.variable || slices.Contains(s.others, e.AsIdent())
	case ast.SelectKind:
		operand, ok := s.path(e.AsSelect().Operand())
		return operand + "." + e.AsSelect().FieldName(), ok
	case ast.CallKind:
		call := e.AsCall()
		if call.FunctionName() != "_[_]" || call.Args()[1].Kind() != ast.LiteralKind {
			return "", false
		}
		operand, ok := s.path(call.Args()[0])
		return operand + "[" + format(call.Args()[1].AsLiteral()) + "]", ok
	default:
		return "", false
	}
}

func format(v ref.Val) string {
	switch x := v.Value().(type) {
	case string:
		return strconv.Quote(x)
	case float64:
		return strconv.FormatFloat(x, 'g', 6, 64)
	case time.Duration:
		return strings.Replace(x.String(), "µs", "us", 1)
	case map[string]Stream:
		return fmt.Sprintf("%d streams", len(x))
	case map[string]map[string]Side:
		return fmt.Sprintf("%d templates", len(x))
	case map[string]Group:
		return fmt.Sprintf("%d groups", len(x))
	case map[string]Receiver:
		return fmt.Sprintf("%d receivers", len(x))
	case map[string]Clients:
		return fmt.Sprintf("%d groups of clients", len(x))
	case map[string]Tag:
		return fmt.Sprintf("%d tags", len(x))
	case map[string]Session:
		return fmt.Sprintf("%d sessions", len(x))
	}
	if text, ok := formatted(v.Value()); ok {
		return text
	}
	return fmt.Sprint(v.Value())
}
