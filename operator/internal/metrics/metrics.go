// SPDX-License-Identifier: Apache-2.0

// Package metrics answers: what does the operator report about itself? Its metrics are served beside those of controller-runtime, and
// docs/reference/metrics.md lists them. Labels are bounded: kinds, methods, verdicts and reasons; and names of TrafficRuns, their thresholds,
// TrafficSearches and certificates, whose metrics are removed with them.
package metrics

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	spatev1 "spate.dev/api/v1alpha1"
)

var (
	info = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "spate_operator_info", Help: "1, with the version of the operator.",
	}, []string{"version"})
	runsCompleted = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "spate_operator_runs_completed_total", Help: "TrafficRuns that have ended, by the outcome of their verdict and its first reason.",
	}, []string{"outcome", "reason"})
	runsArchived = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "spate_operator_archive_writes_total", Help: "Attempts to write a TrafficRun that has ended into the archive, by whether they succeeded.",
	}, []string{"outcome"})
	samplesSent = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "spate_operator_samples_exports_total", Help: "Attempts to send the samples of a TrafficRun that has ended, by the protocol and by whether they succeeded.",
	}, []string{"protocol", "outcome"})
	runsWaiting = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "spate_operator_runs_waiting", Help: "TrafficRuns that have not been admitted to a generator, by the reason that they wait for.",
	}, []string{"reason"})
	runsActive = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "spate_operator_runs_active", Help: "TrafficRuns that have been admitted to a generator and have not ended.",
	})
	runsSupervised = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "spate_operator_supervised_runs", Help: "TrafficRuns whose engines the operator supervises now, including those that are being deleted.",
	})
	namespacesUnreadable = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "spate_operator_unreadable_namespaces", Help: "Namespaces of --watch-namespaces that the operator cannot read, which its log names; it reconciles the others.",
	})
	runWait = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "spate_operator_run_wait_seconds", Help: "Time from the creation of a TrafficRun to its admission to a generator.",
		Buckets: []float64{0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 7200},
	})
	planBytes = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "spate_operator_plan_bytes", Help: "Size of the resolved plan of each admitted TrafficRun.",
		Buckets: prometheus.ExponentialBuckets(1<<10, 8, 8),
	})
	apiWrites = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "spate_operator_api_writes_total", Help: "Requests by which the operator wrote to the API server, by resource and verb.",
	}, []string{"resource", "verb"})
	engineCalls = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "spate_operator_engine_call_seconds", Help: "Duration of calls to engines, by method and gRPC code.",
		Buckets: []float64{0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5, 30},
	}, []string{"method", "code"})
	certificates = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "spate_operator_certificate_expiry_timestamp_seconds",
		Help: "When a certificate of the control channel ends: spate-ca is the authority's, others are those of generators' engines.",
	}, []string{"certificate"})
)

var all = []prometheus.Collector{info, runsCompleted, runsArchived, samplesSent, runsWaiting, runsActive, runsSupervised, namespacesUnreadable, runWait, planBytes, apiWrites, engineCalls, certificates, existing, searches}

// firstReasons are those that verdicts begin with. Their counters are there, at zero, from the operator's start on: Prometheus' increase() of a counter
// begins with its first sample, so it would not have the run with which a counter came.
var firstReasons = map[spatev1.VerdictOutcome][]string{
	spatev1.VerdictPassed: {spatev1.ReasonThresholdsMet, spatev1.ReasonSearchRegular},
	spatev1.VerdictFailed: {
		spatev1.ReasonThresholdMissed, spatev1.ReasonThresholdError, spatev1.ReasonStageFailed, spatev1.ReasonAborted, spatev1.ReasonSearchIrregular,
	},
	spatev1.VerdictInvalid: {
		spatev1.ReasonInvalidSpec, spatev1.ReasonNotSupported, spatev1.ReasonNotAllowed, spatev1.ReasonLimitExceeded, spatev1.ReasonOversubscribed,
		spatev1.ReasonReferenceNotAllowed, spatev1.ReasonGeneratorBusy, spatev1.ReasonBaselineUnusable, spatev1.ReasonPrepareFailed, spatev1.ReasonStartFailed,
		spatev1.ReasonSnapshotLost, spatev1.ReasonPodLost, spatev1.ReasonIncomplete, spatev1.ReasonGeneratorLimited, spatev1.ReasonCountersContradict,
		spatev1.ReasonDrainTimedOut, spatev1.ReasonThresholdUnmeasured, spatev1.ReasonTrialsInvalid, spatev1.ReasonRecordsContradict,
		spatev1.ReasonSetupTimedOut, spatev1.ReasonRoutingFailed,
	},
}

func init() {
	metrics.Registry.MustRegister(all...)
	for outcome, reasons := range firstReasons {
		for _, reason := range reasons {
			runsCompleted.WithLabelValues(string(outcome), reason)
		}
	}
}

// Version records the version of the operator.
func Version(version string) { info.WithLabelValues(version).Set(1) }

// RunCompleted counts a run that has ended.
func RunCompleted(v *spatev1.Verdict) {
	runsCompleted.WithLabelValues(string(v.Outcome), v.Reasons[0].Reason).Inc()
}

// RunArchived counts an attempt to write a run into the archive.
func RunArchived(failed error) { runsArchived.WithLabelValues(outcomeOf(failed)).Inc() }

// SamplesSent counts an attempt to send the samples of a run.
func SamplesSent(protocol string, failed error) {
	samplesSent.WithLabelValues(protocol, outcomeOf(failed)).Inc()
}

func outcomeOf(failed error) string {
	if failed != nil {
		return "failed"
	}
	return "succeeded"
}

// RunAdmitted records how long a run has waited, and the size of its plan.
func RunAdmitted(wait time.Duration, bytes int64) {
	runWait.Observe(wait.Seconds())
	planBytes.Observe(float64(bytes))
}

// Runs records how many runs are active, and how many wait, by reason.
func Runs(active int, waiting map[string]int) {
	runsActive.Set(float64(active))
	runsWaiting.Reset()
	for reason, n := range waiting {
		runsWaiting.WithLabelValues(reason).Set(float64(n))
	}
}

// Supervised records how many runs have a task.
func Supervised(n int) { runsSupervised.Set(float64(n)) }

// NamespacesUnreadable records how many watched namespaces the operator cannot read.
func NamespacesUnreadable(n int) { namespacesUnreadable.Set(float64(n)) }

// CertificateIssued records when a certificate ends.
func CertificateIssued(name string, end time.Time) {
	certificates.WithLabelValues(name).Set(float64(end.Unix()))
}

// CertificateDeleted removes what was recorded of a certificate.
func CertificateDeleted(name string) { certificates.DeleteLabelValues(name) }

// Transport counts the writes of a client of the API server.
func Transport(next http.RoundTripper) http.RoundTripper { return transport{next} }

type transport struct{ next http.RoundTripper }

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodGet {
		apiWrites.WithLabelValues(resourceOf(r.URL.Path), r.Method).Inc()
	}
	return t.next.RoundTrip(r)
}

// WrappedRoundTripper lets client-go cancel requests.
func (t transport) WrappedRoundTripper() http.RoundTripper { return t.next }

// resourceOf returns the resource in a request's path (Kubernetes API concepts, resource URIs), with its subresource.
func resourceOf(path string) string {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	switch {
	case len(parts) > 2 && parts[0] == "api":
		parts = parts[2:]
	case len(parts) > 3 && parts[0] == "apis":
		parts = parts[3:]
	default:
		return "other"
	}
	if parts[0] == "namespaces" && len(parts) > 2 {
		parts = parts[2:]
	}
	if len(parts) > 2 {
		return parts[0] + "/" + parts[2]
	}
	return parts[0]
}

// EngineCall measures calls to engines.
func EngineCall(ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
	start := time.Now()
	err := invoke(ctx, method, request, reply, conn, options...)
	engineCalls.WithLabelValues(method[strings.LastIndexByte(method, '/')+1:], status.Code(err).String()).Observe(time.Since(start).Seconds())
	return err
}
