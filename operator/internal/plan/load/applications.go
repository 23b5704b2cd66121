// SPDX-License-Identifier: Apache-2.0

// How many connections and transactions a second do the clients of templates begin?

package load

import (
	"errors"
	"fmt"
	"math/big"

	"spate.dev/operator/internal/engine/enginev1"
	"spate.dev/operator/internal/plan/quantity"
)

// TransactionCounter is the name of the counter in which programs of clients count transactions: requests that were answered. Presets do.
const TransactionCounter = "transactions"

// Flows are the rates of all templates with clients.
type Flows struct {
	// Connections a second.
	Connections *big.Rat
	// Transactions a second, and PerConnection the number of transactions of a connection, by template. Both are nil until they are counted.
	Transactions  *big.Rat
	PerConnection map[string]int64

	clients []clients
}

// NewFlows returns those of no template.
func NewFlows() *Flows { return &Flows{Connections: new(big.Rat)} }

// clients are those of a template.
type clients struct {
	template  string
	perSecond *big.Rat
	program   *enginev1.Program
}

// Any reports whether there are clients.
func (f *Flows) Any() bool { return f != nil && f.Connections.Sign() > 0 }

// Add adds a template with clients, which execute a program; nil if only engines know it. The flows are not counted.
func (f *Flows) Add(template string, perSecond *big.Rat, program *enginev1.Program) {
	f.Connections.Add(f.Connections, perSecond)
	f.clients = append(f.clients, clients{template, perSecond, program})
}

// mostCounted bounds the instructions of all programs together that are followed.
const mostCounted = 4_000_000

// Count sets the numbers of transactions, once. It follows each program to its end.
func (f *Flows) Count() error {
	switch {
	case f.Transactions != nil:
		return nil
	case f.Any() && f.clients == nil:
		return errors.New("transactions were not counted while programs were known")
	}
	total, each, known, followed := new(big.Rat), map[string]int64{}, map[*enginev1.Program]int64{}, 0
	for _, c := range f.clients {
		count, again := known[c.program]
		if !again {
			if followed > mostCounted {
				return fmt.Errorf("transactions are not known: programs have more than %d steps together; use connections a second such as 300cps", mostCounted)
			}
			var steps int
			var err error
			if count, steps, err = transactions(c.program); err != nil {
				return fmt.Errorf("transactions of %s are not known: %w", c.template, err)
			}
			known[c.program] = count
			followed += steps
		}
		each[c.template] = count
		total.Add(total, quantity.Times(c.perSecond, count))
	}
	f.Transactions, f.PerConnection = total, each
	return nil
}

// Rates returns the rates, divided by a factor. The result has no programs, so Count cannot count transactions from it. A nil receiver returns nil.
func (f *Flows) Rates(factor *big.Rat) *Flows {
	if f == nil {
		return nil
	}
	rates := &Flows{Connections: new(big.Rat).Quo(f.Connections, factor), PerConnection: f.PerConnection}
	if f.Transactions != nil {
		rates.Transactions = new(big.Rat).Quo(f.Transactions, factor)
	}
	return rates
}

// FlowsOf returns the rates of a plan's templates; nil without templates.
func FlowsOf(s *enginev1.Stateful) *Flows {
	if len(s.GetTemplates()) == 0 {
		return nil
	}
	flows := NewFlows()
	for _, t := range s.GetTemplates() {
		if t.GetClientPort() != "" && t.GetFlowsPerSecond().GetDenominator() > 0 {
			flows.Add(t.GetName(), quantity.Rational(t.GetFlowsPerSecond()), t.GetClient())
		}
	}
	return flows
}

// errCapture is why transactions of a capture are not known.
var errCapture = errors.New("its programs come from a capture, which only engines read: write them out with kubectl spate import pcap")

// transactions returns how many transactions a program counts until its end, and how many instructions it executes.
func transactions(program *enginev1.Program) (count int64, steps int, err error) {
	if len(program.GetInstructions()) == 0 {
		return 0, 0, errCapture
	}
	err = Walk(program, func(instruction *enginev1.Instruction) {
		steps++
		counts, some := instruction.GetKind().(*enginev1.Instruction_Count)
		if some && int(counts.Count) < len(program.GetCounters()) && program.GetCounters()[counts.Count] == TransactionCounter {
			count++
		}
	})
	switch {
	case err != nil:
		err = fmt.Errorf("%w: count rounds with a variable, or use connections a second such as 300cps", err)
	case count == 0:
		err = fmt.Errorf("its client's program counts none: add `count: {counter: %s}` after each answer", TransactionCounter)
	}
	return count, steps, err
}
