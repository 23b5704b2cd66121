// SPDX-License-Identifier: Apache-2.0

package run

// This file answers: how do the times that engines measured become values of a result?

import (
	"cmp"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strings"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/distribution"
	"spate.dev/operator/internal/engine/enginev1"
)

// latencyOf combines the delays that several engines measured of a stream or template; nil if nothing was measured. Percentiles are those
// of all delays together, by the engines' distributions. Without them, as from an older engine, each is the greatest of the engines', which
// that of all together does not exceed.
func latencyOf(all []*enginev1.LatencyStats) *spatev1.Latency {
	out := momentsAndJitter(all)
	if out == nil {
		return nil
	}
	into := percentiles(out)
	var parts []*enginev1.Distribution
	for _, l := range all {
		if l.GetCount() == 0 {
			continue
		}
		parts = append(parts, l.GetDistribution())
		for _, q := range l.GetQuantiles() {
			if value := into[q.GetPartsPerMillion()]; value != nil {
				*value = max(*value, nanoseconds(q.GetNs()))
			}
		}
	}
	if len(parts) < 2 {
		return out
	}
	if merged, ok := distribution.Merge(parts); ok {
		for partsPerMillion, value := range into {
			*value = min(nanoseconds(merged.Quantile(partsPerMillion)), out.Max)
		}
	}
	return out
}

// momentsAndJitter combines all but the percentiles.
func momentsAndJitter(all []*enginev1.LatencyStats) *spatev1.Latency {
	out := &spatev1.Latency{}
	sum, squares, differences := new(big.Int), new(big.Int), new(big.Int)
	measured := false
	for _, l := range all {
		out.OneWayUnknown = out.OneWayUnknown || l.GetOneWayUnknown()
		out.Jitter, out.JitterMax = max(out.Jitter, nanoseconds(l.GetJitterNs())), max(out.JitterMax, nanoseconds(l.GetJitterMaxNs()))
		measured = measured || l.GetCount() > 0 || l.GetJitterMaxNs() > 0
		if l.GetCount() == 0 {
			continue
		}
		if least := nanoseconds(l.GetMinNs()); out.Count == 0 || least < out.Min {
			out.Min = least
		}
		out.Count += min(int64(min(l.GetCount(), math.MaxInt64)), math.MaxInt64-out.Count)
		out.Max = max(out.Max, nanoseconds(l.GetMaxNs()))
		out.ClockBound = max(out.ClockBound, nanoseconds(l.GetDeviceBoundNs()))
		sum.Add(sum, unsigned(l.GetSumNs()))
		differences.Add(differences, unsigned(l.GetJitterSumNs()))
		squares.Add(squares, new(big.Int).Add(new(big.Int).Lsh(unsigned(l.GetSumSquaresHigh()), 64), unsigned(l.GetSumSquaresLow())))
	}
	if !measured {
		return nil
	}
	if out.Count > 0 {
		count := big.NewInt(out.Count)
		out.Mean = rounded(sum, count)
		out.JitterMean = rounded(differences, count)
		// The variance is the mean of squares less the square of the mean.
		variance := new(big.Rat).Sub(new(big.Rat).SetFrac(squares, count), square(new(big.Rat).SetFrac(sum, count)))
		if value, _ := variance.Float64(); value > 0 {
			out.Deviation = spatev1.MeasuredTime(math.Round(math.Sqrt(value)))
		}
	}
	return out
}

// noTimes is for results that have none.
func noTimes([]*enginev1.LatencyStats) *spatev1.Latency { return nil }

// percentiles are the fields for quantiles, by parts per million.
func percentiles(l *spatev1.Latency) map[uint32]*spatev1.MeasuredTime {
	return map[uint32]*spatev1.MeasuredTime{
		500000: &l.P50, 900000: &l.P90, 950000: &l.P95, 990000: &l.P99, 999000: &l.P999, 999900: &l.P9999,
	}
}

func nanoseconds(value uint64) spatev1.MeasuredTime {
	return spatev1.MeasuredTime(min(value, math.MaxInt64))
}

func unsigned(value uint64) *big.Int { return new(big.Int).SetUint64(value) }

func square(value *big.Rat) *big.Rat { return new(big.Rat).Mul(value, value) }

func rounded(part, whole *big.Int) spatev1.MeasuredTime {
	half := new(big.Int).Rsh(whole, 1)
	value := new(big.Int).Quo(half.Add(half, part), whole)
	if !value.IsInt64() {
		return math.MaxInt64
	}
	return spatev1.MeasuredTime(value.Int64())
}

// delay of a stream or template, with its display name.
type delay struct {
	name    string
	latency *spatev1.Latency
}

// worstLatency describes the delay with the greatest 99th percentile, or the greatest jitter if delays are unknown.
func worstLatency(all []delay) string {
	measured := slices.DeleteFunc(slices.Clone(all), func(d delay) bool { return d.latency == nil })
	if len(measured) == 0 {
		return ""
	}
	worst := slices.MaxFunc(measured, func(a, b delay) int {
		return cmp.Or(cmp.Compare(a.latency.P99, b.latency.P99), cmp.Compare(a.latency.Jitter, b.latency.Jitter))
	})
	l := worst.latency
	if l.Count == 0 {
		return fmt.Sprintf("%s: jitter %s", worst.name, humanReadable(l.Jitter))
	}
	return fmt.Sprintf("%s: p50 %s, p99 %s, max %s", worst.name, humanReadable(l.P50), humanReadable(l.P99), humanReadable(l.Max))
}

// humanReadable formats nanoseconds with three significant digits, such as 31.5us.
func humanReadable(ns spatev1.MeasuredTime) string {
	value, unit := float64(ns), "ns"
	for _, next := range []struct {
		from float64
		name string
	}{{1e3, "us"}, {1e6, "ms"}, {1e9, "s"}} {
		if float64(ns) >= next.from*0.9995 {
			value, unit = float64(ns)/next.from, next.name
		}
	}
	digits := max(2-int(math.Floor(math.Log10(max(value, 1)))), 0)
	text := fmt.Sprintf("%.*f", digits, value)
	if strings.Contains(text, ".") {
		text = strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
	}
	return text + unit
}

// receivers sums foreign traffic up over all engines.
func receivers(stats []*enginev1.WatchStatsResponse, run *spatev1.TrafficRun) map[string]spatev1.ReceiverResult {
	var all map[string]spatev1.ReceiverResult
	parts := map[string][3][]*enginev1.Moments{}
	for i, st := range stats {
		for _, r := range st.GetReceivers() {
			if all == nil {
				all = map[string]spatev1.ReceiverResult{}
			}
			into := all[r.GetName()]
			into.Packets += int64(r.GetPackets())
			into.Bytes += int64(r.GetBytes())
			for _, w := range r.GetWorkers() {
				into.Workers = append(into.Workers, spatev1.WorkerReceived{
					Pod: run.Status.Resolved.Generator.Pods[i].Name, Worker: int32(w.GetWorker()), Packets: int64(w.GetPackets()), Bytes: int64(w.GetBytes()),
				})
			}
			all[r.GetName()] = into
			p := parts[r.GetName()]
			p[0], p[1], p[2] = append(p[0], r.GetInterArrival()), append(p[1], r.GetJitter()), append(p[2], r.GetLatency())
			parts[r.GetName()] = p
		}
	}
	for name, r := range all {
		p := parts[name]
		r.InterArrival, r.Jitter, r.Latency = momentsOf(p[0]), momentsOf(p[1]), momentsOf(p[2])
		all[name] = r
	}
	return all
}

// momentsOf combines the moments of several engines; nil if nothing was measured.
func momentsOf(all []*enginev1.Moments) *spatev1.Moments {
	var count, mean, squares float64 // squares: the sum of squared differences from the mean
	out := &spatev1.Moments{}
	for _, m := range all {
		if m.GetCount() == 0 {
			continue
		}
		if least := nanoseconds(m.GetMinNs()); out.Count == 0 || least < out.Min {
			out.Min = least
		}
		out.Max = max(out.Max, nanoseconds(m.GetMaxNs()))
		out.Count += int64(m.GetCount())
		n := float64(m.GetCount())
		apart := m.GetMeanNs() - mean
		squares += m.GetVarianceNs2()*n + apart*apart*count*n/(count+n)
		mean += apart * n / (count + n)
		count += n
	}
	if out.Count == 0 {
		return nil
	}
	out.Mean, out.Deviation = spatev1.MeasuredTime(math.Round(mean)), spatev1.MeasuredTime(math.Round(math.Sqrt(squares/count)))
	return out
}
