// SPDX-License-Identifier: Apache-2.0

package main

// This file answers: which command line options are there?

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/common/model"
	uberzap "go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"spate.dev/operator/internal/archive"
	"spate.dev/operator/internal/controller/generator"
	"spate.dev/operator/internal/engine"
	"spate.dev/operator/internal/export"
	"spate.dev/operator/internal/pki"
	"spate.dev/operator/internal/podspec"
	"spate.dev/operator/internal/runs/admission"
)

type options struct {
	help             bool
	version          bool
	namespace        string
	watched          string
	engineImage      string
	pullPolicy       string
	architecture     string
	images           string
	memoryLimit      string
	inline           admission.InlineAllowed
	engineBinary     string
	checkLimit       time.Duration
	podMonitors      bool
	monitorLabels    string
	scrapeInterval   model.Duration
	nativeHistograms bool
	metricsOf        string
	leaderElection   bool
	metricsAddress   string
	authenticate     bool
	healthAddress    string
	liveAddress      string
	liveService      string
	logLevel         string
	logFormat        string
	certificates     pki.Policy
	archive          string
	bucket           archive.BucketConfig
	keep             archive.Retention
	remoteWrite      export.Target
	otlp             export.Target
	samplesLabels    string
}

func parse(args []string) (*options, error) {
	o := &options{certificates: pki.DefaultPolicy(), scrapeInterval: model.Duration(5 * time.Second)}
	f := flag.NewFlagSet("spate-operator", flag.ContinueOnError)
	f.BoolVar(&o.version, "version", false, "print the version and exit")
	f.StringVar(&o.namespace, "namespace", env("POD_NAMESPACE", "spate-system"),
		"the operator's namespace, with its lease and its certificate authority (env POD_NAMESPACE)")
	f.StringVar(&o.watched, "watch-namespaces", "",
		"comma-separated list of namespaces whose objects are reconciled, and no others are read; empty: all namespaces")
	f.StringVar(&o.engineImage, "engine-image", env("ENGINE_IMAGE", "localhost/spate/engine:dev"),
		"image of engine pods if their generator has no spec.image (env ENGINE_IMAGE)")
	f.StringVar(&o.memoryLimit, "memory-limit", "",
		"memory that the operator may use, including spate-engine when it checks plans, such as 1Gi: plans that need more are refused. Default: the limit of its control group")
	f.StringVar(&o.images, "engine-images", os.Getenv("ENGINE_IMAGES"),
		"comma-separated list of images besides --engine-image that generators may use: complete references, or prefixes that end in * (env ENGINE_IMAGES)")
	f.BoolVar(&o.inline.SecretVolumes, "inline-secret-volumes", false, "allow generators within profiles volumes with Secrets")
	f.BoolVar(&o.inline.ForeignNetworks, "inline-foreign-networks", false, "allow generators within profiles ports on networks of other namespaces")
	f.StringVar(&o.pullPolicy, "engine-image-pull-policy", string(corev1.PullIfNotPresent), "Always, IfNotPresent or Never")
	f.StringVar(&o.architecture, "engine-architecture", "amd64",
		"architecture of --engine-image: engine pods require nodes with this label kubernetes.io/arch, unless their generator has another; empty: nodes of any")
	f.StringVar(&o.engineBinary, "engine-binary", env("ENGINE_BINARY", "/usr/local/bin/spate-engine"),
		"path of spate-engine, which checks plans before they are sent; without it, plans are not checked (env ENGINE_BINARY)")
	f.DurationVar(&o.checkLimit, "plan-check-limit", engine.DefaultLimit,
		"time limit for checking a plan; a profile whose plan takes longer is not run, reports that in its conditions, and is checked again")
	f.BoolVar(&o.podMonitors, "pod-monitors", true, "create a PodMonitor for each generator if the cluster has the kind")
	f.StringVar(&o.monitorLabels, "pod-monitor-labels", "",
		"comma-separated list of labels (KEY=VALUE) of these PodMonitors, by which a Prometheus selects them, such as release=kube-prometheus-stack")
	f.Var(&o.scrapeInterval, "pod-monitor-interval", "interval of scrapes in these PodMonitors, such as 1m")
	f.BoolVar(&o.nativeHistograms, "pod-monitor-native-histograms", false,
		"have Prometheus scrape native histograms of latency beside the classic ones, which needs Prometheus 3.8 and the CRDs of the Prometheus operator 0.88, or later ones")
	f.StringVar(&o.metricsOf, "metrics-namespaces", "",
		"comma-separated list of namespaces whose pods may read the metrics of engine pods, in the NetworkPolicy of each generator; empty: all may")
	f.BoolVar(&o.leaderElection, "leader-elect", true, "reconcile only while holding the lease, so that replicas may stand by")
	f.StringVar(&o.metricsAddress, "metrics-bind-address", ":8080",
		"address of the operator's own metrics (they contain no names of users' objects), in plain HTTP unless --metrics-authentication; 0: not served")
	f.BoolVar(&o.authenticate, "metrics-authentication", false,
		"serve the operator's own metrics by HTTPS with a self-signed certificate, to clients whose token the API server accepts (TokenReview) and that may get the URL /metrics (SubjectAccessReview)")
	f.StringVar(&o.healthAddress, "health-probe-bind-address", ":8081", "address of /healthz and /readyz")
	f.StringVar(&o.liveAddress, "live-bind-address", ":7480",
		"address for live readers of packets and records, who connect through the API server and authenticate by their keys; 0: not served")
	f.StringVar(&o.liveService, "live-service", env("LIVE_SERVICE", "spate-live"),
		"the Service in the operator's namespace whose port `live` leads to --live-bind-address (env LIVE_SERVICE)")
	f.StringVar(&o.logLevel, "log-level", "info", "debug, info or error")
	f.StringVar(&o.logFormat, "log-format", "json", "json or console")
	f.DurationVar(&o.certificates.CALifetime, "ca-lifetime", o.certificates.CALifetime, "validity of the certificate authority")
	f.DurationVar(&o.certificates.CertLifetime, "certificate-lifetime", o.certificates.CertLifetime,
		"validity of certificates, renewed after two thirds of it; the kubelet takes up to two minutes to update one in a pod")
	f.DurationVar(&o.certificates.Propagation, "ca-propagation", o.certificates.Propagation, "how long a new authority is only trusted before it signs")
	f.StringVar(&o.archive, "archive-directory", "", "directory, such as a mounted volume, into which runs that have ended are written with their whole results and samples; empty: none")
	f.StringVar(&o.bucket.Location, "archive-bucket", "",
		"S3-compatible bucket into which they are written instead, as s3://BUCKET or s3://BUCKET/PREFIX. Credentials are those that the AWS SDK finds: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a web identity, a profile, or the machine's")
	f.StringVar(&o.bucket.Endpoint, "archive-endpoint", "",
		"URL of the bucket's server, such as https://s3.example.com:9000; empty: AWS (env AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL)")
	pathStyle := f.Bool("archive-force-path-style", true,
		"have the bucket in the path of the endpoint's URL, https://HOST/BUCKET/KEY; false: in its host name, https://BUCKET.HOST/KEY, as always with AWS")
	f.StringVar(&o.bucket.Region, "archive-region", "", "the bucket's region; empty: us-east-1 with an endpoint (env AWS_REGION)")
	f.StringVar(&o.bucket.CAFile, "archive-ca-file", "",
		"PEM file with the authorities that sign the certificate of the bucket's server; empty: those of the system, or of Mozilla's list (env AWS_CA_BUNDLE)")
	f.DurationVar(&o.keep.For, "archive-keep-for", 0, "how long a run stays in the archive after it was written; 0: without limit")
	f.IntVar(&o.keep.Runs, "archive-keep-runs", 0, "number of runs of each namespace that stay in the archive, those written last; 0: without limit")
	for _, t := range []struct {
		*export.Target
		flag, protocol, path string
	}{{&o.remoteWrite, "samples-remote-write", "Prometheus' remote write", "/api/v1/write"}, {&o.otlp, "samples-otlp", "OTLP (HTTP, protobuf)", "/v1/metrics"}} {
		f.StringVar(&t.URL, t.flag+"-url", "", "complete URL, such as https://metrics.example"+t.path+", to which the samples of runs that have ended are sent by "+t.protocol+"; empty: none")
		f.StringVar(&t.HTTPConfig, t.flag+"-http-config", "",
			"file with the HTTP client's configuration for that, as Prometheus has it (authorization, basic_auth, tls_config, http_headers, ...), such as of a mounted Secret; it is read for each run")
	}
	f.StringVar(&o.samplesLabels, "samples-labels", "", "comma-separated list of labels (NAME=VALUE) that are added to all samples that are sent, such as cluster=lab")
	if err := f.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			o.help = true
			return o, nil
		}
		return nil, err
	}
	o.bucket.VirtualHost = !*pathStyle
	if f.NArg() > 0 {
		return nil, fmt.Errorf("unexpected argument %q", f.Arg(0))
	}
	return o, o.validate()
}

// engineImages returns those that generators may run.
func (o *options) engineImages() (generator.Images, error) {
	return generator.ParseImages(o.engineImage, o.images)
}

// access says who may connect to engine pods.
func (o *options) access() (podspec.Access, error) {
	metrics, err := namespaces("metrics-namespaces", o.metricsOf)
	return podspec.Access{OperatorNamespace: o.namespace, MetricsNamespaces: metrics}, err
}

// watchedNamespaces returns the namespaces whose objects are reconciled; none for all.
func (o *options) watchedNamespaces() ([]string, error) {
	return namespaces("watch-namespaces", o.watched)
}

// namespaces returns the names of the comma-separated list that a flag has; none if it is empty.
func namespaces(flag, list string) ([]string, error) {
	if list == "" {
		return nil, nil
	}
	names := strings.Split(list, ",")
	for _, name := range names {
		if problems := validation.IsDNS1123Label(name); len(problems) > 0 {
			return nil, fmt.Errorf("--%s: %q is not a name of a namespace: %s", flag, name, strings.Join(problems, "; "))
		}
	}
	return names, nil
}

// podMonitorLabels returns the labels of engines' PodMonitors that users set.
func (o *options) podMonitorLabels() (map[string]string, error) {
	return labels.ConvertSelectorToLabelsMap(o.monitorLabels)
}

// exports returns where samples are sent.
func (o *options) exports() ([]export.Target, error) {
	added, err := export.ParseLabels(o.samplesLabels)
	if err != nil {
		return nil, fmt.Errorf("--samples-labels: %w", err)
	}
	var targets []export.Target
	for _, t := range []struct {
		export.Target
		protocol export.Protocol
		flag     string
	}{{o.remoteWrite, export.RemoteWrite, "--samples-remote-write"}, {o.otlp, export.OTLP, "--samples-otlp"}} {
		t.Protocol, t.Labels = t.protocol, added
		if t.URL == "" {
			if t.HTTPConfig != "" {
				return nil, fmt.Errorf("%s-http-config has no effect: set %s-url too", t.flag, t.flag)
			}
			continue
		}
		if err := t.Check(); err != nil {
			return nil, fmt.Errorf("%s-url: %w", t.flag, err)
		}
		targets = append(targets, t.Target)
	}
	if len(targets) == 0 && len(added) > 0 {
		return nil, errors.New("--samples-labels has no effect: set --samples-remote-write-url or --samples-otlp-url too")
	}
	return targets, nil
}

// metricsServer says how the operator's own metrics are served.
func (o *options) metricsServer() metricsserver.Options {
	server := metricsserver.Options{BindAddress: o.metricsAddress}
	if o.authenticate {
		server.SecureServing, server.FilterProvider = true, filters.WithAuthenticationAndAuthorization
	}
	return server
}

func (o *options) validate() error {
	if _, err := o.access(); err != nil {
		return err
	}
	if _, err := o.watchedNamespaces(); err != nil {
		return err
	}
	if _, err := o.podMonitorLabels(); err != nil {
		return fmt.Errorf("--pod-monitor-labels %q: %w", o.monitorLabels, err)
	}
	if o.scrapeInterval <= 0 {
		return fmt.Errorf("--pod-monitor-interval is %s: it must be longer than 0", o.scrapeInterval)
	}
	if _, err := o.engineImages(); err != nil {
		return fmt.Errorf("--engine-images: %w", err)
	}
	switch corev1.PullPolicy(o.pullPolicy) {
	case corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever:
	default:
		return fmt.Errorf("--engine-image-pull-policy %q: must be Always, IfNotPresent or Never", o.pullPolicy)
	}
	if problems := validation.IsValidLabelValue(o.architecture); len(problems) > 0 {
		return fmt.Errorf("--engine-architecture %q: must be the value of a label, such as arm64: %s", o.architecture, problems[0])
	}
	if o.checkLimit <= 0 {
		return fmt.Errorf("--plan-check-limit %s: must be more than 0", o.checkLimit)
	}
	if _, err := o.memory(); err != nil {
		return fmt.Errorf("--memory-limit %q: %w", o.memoryLimit, err)
	}
	if o.logFormat != "json" && o.logFormat != "console" {
		return fmt.Errorf("--log-format %q: must be json or console", o.logFormat)
	}
	if _, err := zapcore.ParseLevel(o.logLevel); err != nil {
		return fmt.Errorf("--log-level %q: must be debug, info or error", o.logLevel)
	}
	if err := o.validateArchive(); err != nil {
		return err
	}
	if _, err := o.exports(); err != nil {
		return err
	}
	if err := o.certificates.Validate(); err != nil {
		return fmt.Errorf("--ca-lifetime, --certificate-lifetime, --ca-propagation: %w", err)
	}
	return nil
}

func (o *options) validateArchive() error {
	others := o.bucket
	others.Location = ""
	switch {
	case o.keep.For < 0 || o.keep.Runs < 0:
		return fmt.Errorf("--archive-keep-for %s, --archive-keep-runs %d: must not be less than 0", o.keep.For, o.keep.Runs)
	case o.archive != "" && o.bucket.Location != "":
		return errors.New("--archive-directory and --archive-bucket: set one of them")
	case o.bucket.Location != "":
		if err := o.bucket.Validate(); err != nil {
			return fmt.Errorf("--archive-bucket, --archive-endpoint, --archive-force-path-style: %w", err)
		}
	case others != (archive.BucketConfig{}):
		return errors.New("--archive-endpoint, --archive-force-path-style, --archive-region and --archive-ca-file have no effect: set --archive-bucket too")
	case o.archive == "" && !o.keep.IsUnlimited():
		return errors.New("--archive-keep-for and --archive-keep-runs have no effect: set --archive-directory or --archive-bucket too")
	}
	return nil
}

// archiveStore returns the place of the archive; nil if there is none.
func (o *options) archiveStore(ctx context.Context) (archive.Store, error) {
	switch {
	case o.bucket.Location != "":
		bucket, err := archive.NewBucket(ctx, o.bucket)
		if err != nil {
			return nil, fmt.Errorf("--archive-bucket, --archive-force-path-style, --archive-region, --archive-ca-file: %w", err)
		}
		return bucket, nil
	case o.archive != "":
		return archive.Directory(o.archive), nil
	}
	return nil, nil
}

func (o *options) logger() logr.Logger {
	level, _ := zapcore.ParseLevel(o.logLevel) // validated
	return zap.New(zap.UseDevMode(o.logFormat == "console"), zap.Level(uberzap.NewAtomicLevelAt(level)),
		zap.StacktraceLevel(zapcore.PanicLevel))
}

func env(name, otherwise string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	return otherwise
}
