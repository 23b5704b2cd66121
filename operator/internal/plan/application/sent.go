// SPDX-License-Identifier: Apache-2.0

// How many bytes does a side's program send?

package application

import (
	"cmp"
	"fmt"
	"math/big"

	"spate.dev/operator/internal/engine/enginev1"
	"spate.dev/operator/internal/plan/load"
)

// mostSteps bounds the instructions of a program that are simulated to compute what it sends.
const mostSteps = 1_000_000

// Sent simulates a program to its end and returns the sum of what it sends.
func (p *Program) Sent() (*big.Int, error) {
	all, sum := p.Program.GetInstructions(), new(big.Int)
	contents := &enginev1.Stateful{Payloads: p.Payloads}
	// Times do not depend on the program only.
	variables, times := map[uint32]int64{}, map[uint32]bool{}
	at := 0
	for range mostSteps {
		if at >= len(all) {
			return sum, nil
		}
		next := at + 1
		switch kind := all[at].GetKind().(type) {
		case *enginev1.Instruction_Send:
			sum.Add(sum, big.NewInt(load.PayloadLength(contents, kind.Send.GetPayload())))
		case *enginev1.Instruction_SendMessage:
			sum.Add(sum, big.NewInt(load.PayloadLength(contents, kind.SendMessage.GetPayload())))
		case *enginev1.Instruction_Set:
			variables[kind.Set.GetVariable()], times[kind.Set.GetVariable()] = kind.Set.GetValue(), false
		case *enginev1.Instruction_Add:
			variables[kind.Add.GetVariable()] += kind.Add.GetValue()
		case *enginev1.Instruction_Mark:
			times[kind.Mark] = true
		case *enginev1.Instruction_Jump:
			if times[kind.Jump.GetVariable()] {
				return nil, fmt.Errorf("jumps by a time (command %d): set a connectionRate instead", at)
			}
			if holds(kind.Jump, variables[kind.Jump.GetVariable()]) {
				next = int(kind.Jump.GetTo())
			}
		case *enginev1.Instruction_Loop:
			return nil, fmt.Errorf("loops for a time (command %d): count with a variable, or set a connectionRate instead", at)
		case *enginev1.Instruction_SwitchTemplate:
			return nil, fmt.Errorf("goes on as another template's (command %d): set a connectionRate instead", at)
		case *enginev1.Instruction_Close, *enginev1.Instruction_Reset_, *enginev1.Instruction_LeaveOpen:
			return sum, nil
		}
		at = next
	}
	return nil, fmt.Errorf("does not end in %d steps: count its rounds with a variable, or set a connectionRate instead", mostSteps)
}

// holds reports whether a jump is taken for a variable's value.
func holds(jump *enginev1.Jump, value int64) bool {
	order := cmp.Compare(value, jump.GetValue())
	switch jump.GetComparison() {
	case enginev1.Comparison_COMPARISON_EQUAL:
		return order == 0
	case enginev1.Comparison_COMPARISON_LESS:
		return order < 0
	case enginev1.Comparison_COMPARISON_LESS_OR_EQUAL:
		return order <= 0
	case enginev1.Comparison_COMPARISON_GREATER:
		return order > 0
	case enginev1.Comparison_COMPARISON_GREATER_OR_EQUAL:
		return order >= 0
	}
	return order != 0
}
