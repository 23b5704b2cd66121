// SPDX-License-Identifier: Apache-2.0

package search

// This file answers: which trials would a search do with a device of known capacity, and how long would that take?

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/plan"
	"spate.dev/operator/internal/plan/quantity"
	"spate.dev/operator/internal/plugin/files"
	"spate.dev/operator/internal/search/dut"
	"spate.dev/operator/internal/search/sequence"
)

type simulateFlags struct{ device, least, most string }

// newSimulateCommand returns `search simulate`.
func newSimulateCommand() *cobra.Command {
	var flags simulateFlags
	var sources files.Sources
	c := &cobra.Command{
		Use:   "simulate (FILE | -f FILE | -k FOLDER)...",
		Short: "Print the trials that a search would do with a simulated device, their time and the result",
		Long: `Reads the one TrafficSearch of the files (a file, a folder, a URL, or - for standard input, as for kubectl apply), and does its tests with a simulated device, without a cluster and without traffic: how long will
the search take, and what will it find? The device forwards packets at a rate (capacity), and a number of packets more in each trial (buffer). A generator that
cannot send more than a rate (generator) shows what is reported then. spec.load must be in packets or connections a second, or --min and --max set its bounds.`,
		Example: `  kubectl spate search simulate router.yaml --device capacity=1Mpps
  kubectl spate search simulate router.yaml --device capacity=1Mpps,buffer=200000 --max 14.88Mpps
  kubectl spate search simulate -k overlays/lab --device capacity=1Mpps`,
		Args: sources.Args,
		RunE: func(c *cobra.Command, names []string) error {
			set, problems, err := sources.Set(c, names)
			if err != nil {
				return err
			}
			if len(problems) > 0 {
				return problems[0]
			}
			if len(set.Searches) != 1 {
				return fmt.Errorf("the files have %d TrafficSearches; they must have one", len(set.Searches))
			}
			search := set.Searches[0].Value
			return flags.simulate(c.OutOrStdout(), search)
		},
	}
	sources.Add(c)
	c.Flags().StringVar(&flags.device, "device", "", "capacity=RATE[,buffer=PACKETS][,generator=RATE], such as capacity=1Mpps")
	c.Flags().StringVar(&flags.least, "min", "", "minimum load, such as 1kpps; spec.load.min when absent")
	c.Flags().StringVar(&flags.most, "max", "", "maximum load, such as 14.88Mpps; spec.load.max when absent")
	_ = c.MarkFlagRequired("device")
	return c
}

func (f *simulateFlags) simulate(w io.Writer, search *spatev1.TrafficSearch) error {
	least, unit, err := loadOf(f.least, search.Spec.Load.Min, "min")
	most, unitOfMost, other := loadOf(f.most, search.Spec.Load.Max, "max")
	if err := errors.Join(err, other); err != nil {
		return err
	}
	if unit != unitOfMost {
		return fmt.Errorf("load.min is in %s, load.max in %s: give both in one unit", unit, unitOfMost)
	}
	device, err := deviceOf(f.device, unit)
	if err != nil {
		return err
	}
	if wrong := plan.CheckSearch(&search.Spec); len(wrong) > 0 {
		return wrong[0]
	}
	loads := sequence.Loads{Min: least, Max: most}
	if err := sequence.Check(&search.Spec.SearchTests, loads); err != nil {
		return fmt.Errorf("spec: %w", err)
	}
	var records []spatev1.TrialRecord
	var total time.Duration
	for {
		step, result, err := sequence.Next(&search.Spec.SearchTests, loads, records)
		if err != nil {
			return err
		}
		if step == nil {
			search.Status.Phase, search.Status.Progress = spatev1.SearchComplete, "simulated"
			search.Status.Variants = []spatev1.SearchVariant{{
				Name: "all", Unit: unit, MaxLoad: sequence.Text(most), Trials: int32(len(records)), Spent: spatev1.MeasuredTime(total), Result: result,
			}}
			fmt.Fprintln(w)
			if requires(search) {
				fmt.Fprintln(w, "The simulated device meets all requirements (require): it has neither latency nor connections.")
			}
			return writeTable(w, search)
		}
		record := measured(device, step, len(records)+1, &search.Spec.SearchTests)
		total += time.Duration(record.Elapsed)
		records = append(records, record)
		fmt.Fprintln(w, trialLine(total.Round(time.Millisecond).String(), &record, unit))
	}
}

// requires reports whether a goal has requirements.
func requires(search *spatev1.TrafficSearch) bool {
	t := search.Spec.Throughput
	return t != nil && slices.ContainsFunc(t.Goals, func(g spatev1.SearchGoal) bool { return len(sequence.Requirements(&g)) > 0 })
}

// measured is what a trial with the device would record.
func measured(device dut.Device, step *sequence.Step, number int, of *spatev1.SearchTests) spatev1.TrialRecord {
	input := step.Input
	if of.Load.Vary == spatev1.VaryOpenConnections {
		input.Duration = 1 // a number of connections, not a rate
	}
	t := device.Measure(number, input)
	duration := time.Duration(step.Duration*float64(time.Second) + 0.5)
	elapsed := duration
	for _, part := range sequence.Beside(of) {
		value, _ := part.Parse()
		elapsed += value
	}
	return spatev1.TrialRecord{
		TrialInput: spatev1.TrialInput{
			Number: int32(number), Test: step.Test, Load: sequence.Text(step.Load), Duration: spatev1.MeasuredTime(duration), Packets: step.Packets,
		},
		Intended: t.Intended, Sent: t.Sent, Received: t.Sent - t.Lost, LossRatio: sequence.Ratio(t.LossRatio()), Elapsed: spatev1.MeasuredTime(elapsed),
	}
}

// loadOf reads a load: a flag, or a field of the search.
func loadOf(flag string, field spatev1.SearchRate, name string) (float64, spatev1.LoadUnit, error) {
	text := flag
	if text == "" {
		text = strings.TrimSuffix(string(field), "/port")
	}
	value, unit, err := perSecond(text)
	if err != nil && flag == "" {
		return 0, "", fmt.Errorf("spec.load.%s is %q: which rate that is depends on the generator; set it with --%s, such as --%s 14.88Mpps", name, field, name, name)
	}
	if err != nil {
		return 0, "", fmt.Errorf("--%s %s: %w", name, flag, err)
	}
	return value, unit, nil
}

// perSecond reads packets, connections or transactions a second, or a number of open connections.
func perSecond(text string) (float64, spatev1.LoadUnit, error) {
	rate, err := quantity.ParseSearchRate(spatev1.SearchRate(text))
	unit, known := map[quantity.Unit]spatev1.LoadUnit{quantity.PacketsPerSecond: spatev1.UnitPackets, quantity.ConnectionsPerSecond: spatev1.UnitConnections, quantity.TransactionsPerSecond: spatev1.UnitTransactions, quantity.OpenConnections: spatev1.UnitOpen}[rate.Unit]
	if err != nil || !known || rate.PerPort || text == "" {
		return 0, "", errors.New("must be packets, connections or transactions a second, such as 1.5Mpps, 300cps or 3ktps, or open connections, such as 10kconn")
	}
	value, _ := rate.Value.Float64()
	return value, unit, nil
}

// deviceOf reads a device whose rates have the unit of the search's loads.
func deviceOf(text string, unit spatev1.LoadUnit) (device dut.Device, err error) {
	rate := func(value string) (float64, error) {
		number, own, err := perSecond(value)
		if err == nil && own != unit {
			err = fmt.Errorf("must be in %s, as the loads of the search", unit)
		}
		return number, err
	}
	for part := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(part, "=")
		switch name {
		case "capacity":
			device.Capacity, err = rate(value)
		case "generator":
			device.Generator, err = rate(value)
		case "buffer":
			device.Buffer, err = strconv.ParseInt(value, 10, 64)
		default:
			err = errors.New("must be capacity=RATE, buffer=PACKETS or generator=RATE")
		}
		if err != nil {
			return device, fmt.Errorf("--device %s: %w", part, err)
		}
	}
	if device.Capacity <= 0 || device.Buffer < 0 {
		return device, fmt.Errorf("--device %s: capacity is missing, or buffer is negative; such as capacity=1Mpps,buffer=1000", text)
	}
	return device, nil
}
