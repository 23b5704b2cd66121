// SPDX-License-Identifier: Apache-2.0

// By which factor does a profile's rate multiply the rates of its entries?

package load

import (
	"errors"
	"math/big"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/plan/quantity"
)

// FactorOf converts a profile's rate, or a load of a search, to a factor of a load, which does not include templates. flows are those of
// all templates, nil without templates.
func FactorOf(rate spatev1.ScaledRate, own Load, flows *Flows, generator *spatev1.TrafficGenerator) (*big.Rat, error) {
	wanted, err := quantity.ParseSearchRate(spatev1.SearchRate(rate))
	switch {
	case err != nil:
		return nil, err
	case wanted.Unit == quantity.Factor:
		return wanted.Value, nil
	case (wanted.Unit == quantity.ConnectionsPerSecond || wanted.Unit == quantity.TransactionsPerSecond) && !flows.Any():
		return nil, errNoClients
	case wanted.Unit == quantity.ConnectionsPerSecond:
		return new(big.Rat).Quo(wanted.Value, flows.Connections), nil
	case wanted.Unit == quantity.TransactionsPerSecond:
		if err := flows.Count(); err != nil {
			return nil, err
		}
		return new(big.Rat).Quo(wanted.Value, flows.Transactions), nil
	case wanted.Unit == quantity.OpenConnections:
		return nil, errOpen
	case flows != nil:
		return nil, errTemplatesByFactor
	case own.in(wanted.Unit).Sign() == 0:
		return nil, errNothingToScale
	case wanted.PerPort:
		return own.factorPerPort(wanted.Quantity, generator)
	case wanted.Unit != quantity.LinePercent:
		return new(big.Rat).Quo(wanted.Value, own.in(wanted.Unit)), nil
	}
	total := new(big.Rat)
	for _, port := range own.sendingPorts() {
		line, err := lineRateOf(port, generator)
		if err != nil {
			return nil, err
		}
		total.Add(total, line)
	}
	total.Mul(total, wanted.Value)
	return total.Quo(total, quantity.Times(own.L1Bits, 100)), nil
}

var errNothingToScale = errors.New("a total needs an entry that sends packets to scale")

var errTemplatesByFactor = errors.New("the rate of templates cannot be given in packets or bits; use a factor such as 2x, or in a search or a stage connections or transactions a second such as 300cps and 3ktps")

var errOpen = errors.New("a number of open connections needs load.vary: OpenConnections and load.ramp")

var errNoClients = errors.New("connections and transactions a second are those of applications that have clients, and there are none; use a total such as 1Mpps/port")
