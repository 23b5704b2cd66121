// SPDX-License-Identifier: Apache-2.0

package main

// This file answers: which rules of Prometheus for metrics do ours break, and why? A test applies the rules (promlint) to all of them, and another
// to the pages that a real operator and real engines serve.

const exceptionsHead = `
## Exceptions

All metrics above but those of libraries keep the [rules of Prometheus](https://prometheus.io/docs/practices/naming/) as its linter (promlint) checks them, except:

| metric | rule | reason |
|---|---|---|
`

const (
	ofDevices     = "`counter` is the word for what is counted: the type is not meant"
	ofBits        = "rates of links are given in bits a second (IEEE 802.3), as are those of profiles"
	ofPercentiles = "percentiles to three digits, which the buckets of the histogram beside it do not give; a summary of Prometheus would have its count and sum once more"
	ofSamples     = "a sample has percentiles of the run so far, and no histogram"
	quantileRule  = `non-summary metrics should not have "quantile" label`
	counterRule   = "metric name should not include type 'counter'"
)

// exceptions are problems of promlint that are meant to be there.
var exceptions = []struct{ metric, rule, why string }{
	{"spate_port_device_counter_total", counterRule, ofDevices},
	{"spate_port_line_rate_bits_per_second", `use base unit "bytes" instead of "bits"`, ofBits},
	{"spate_run_stream_latency_quantile_seconds", quantileRule, ofSamples},
	{"spate_run_template_connect_quantile_seconds", quantileRule, ofSamples},
	{"spate_stream_latency_quantile_seconds", quantileRule, ofPercentiles},
	{"spate_template_program_counter_total", counterRule, ofDevices},
}
