// SPDX-License-Identifier: Apache-2.0

// What does a flow do that executes a program to its end?

package load

import (
	"cmp"
	"fmt"

	"spate.dev/operator/internal/engine/enginev1"
)

// mostSteps bounds the instructions of a program that are followed.
const mostSteps = 1_000_000

// Walk calls visit with each instruction that a flow executes, in their order, until its program ends. It returns an error for programs whose course
// depends on more than the program: on times, or on another template; connections that it opens are more than its own.
func Walk(program *enginev1.Program, visit func(*enginev1.Instruction)) error {
	all := program.GetInstructions()
	// Times do not depend on the program only.
	variables, times := map[uint32]int64{}, map[uint32]bool{}
	at := 0
	for range mostSteps {
		if at >= len(all) {
			return nil
		}
		visit(all[at])
		next := at + 1
		switch kind := all[at].GetKind().(type) {
		case *enginev1.Instruction_Set:
			variables[kind.Set.GetVariable()], times[kind.Set.GetVariable()] = kind.Set.GetValue(), false
		case *enginev1.Instruction_Add:
			variables[kind.Add.GetVariable()] += kind.Add.GetValue()
		case *enginev1.Instruction_Mark:
			times[kind.Mark] = true
		case *enginev1.Instruction_Jump:
			if times[kind.Jump.GetVariable()] {
				return fmt.Errorf("jumps by a time (command %d)", at)
			}
			if holds(kind.Jump, variables[kind.Jump.GetVariable()]) {
				next = int(kind.Jump.GetTo())
			}
		case *enginev1.Instruction_Loop:
			return fmt.Errorf("loops for a time (command %d)", at)
		case *enginev1.Instruction_SwitchTemplate:
			return fmt.Errorf("goes on as another template's (command %d)", at)
		case *enginev1.Instruction_OpenConnection:
			return fmt.Errorf("opens a connection of another template (command %d)", at)
		case *enginev1.Instruction_Close, *enginev1.Instruction_Reset_, *enginev1.Instruction_LeaveOpen:
			return nil
		}
		at = next
	}
	return fmt.Errorf("does not end in %d steps", mostSteps)
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
