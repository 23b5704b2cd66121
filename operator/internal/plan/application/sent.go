// SPDX-License-Identifier: Apache-2.0

// How many bytes does a side's program send?

package application

import (
	"fmt"
	"math/big"

	"spate.dev/operator/internal/engine/enginev1"
	"spate.dev/operator/internal/plan/load"
)

// Sent follows a program to its end and returns the sum of what it sends.
func (p *Program) Sent() (*big.Int, error) {
	sum, contents := new(big.Int), &enginev1.Stateful{Payloads: p.Payloads}
	err := load.Walk(p.Program, func(instruction *enginev1.Instruction) {
		switch kind := instruction.GetKind().(type) {
		case *enginev1.Instruction_Send:
			sum.Add(sum, big.NewInt(load.PayloadLength(contents, kind.Send.GetPayload())))
		case *enginev1.Instruction_SendMessage:
			sum.Add(sum, big.NewInt(load.PayloadLength(contents, kind.SendMessage.GetPayload())))
		}
	})
	if err != nil {
		return nil, fmt.Errorf("%w: count its rounds with a variable, or set a connectionRate instead", err)
	}
	return sum, nil
}
