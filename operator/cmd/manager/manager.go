// SPDX-License-Identifier: Apache-2.0

package main

// This file answers: how are the controllers assembled?

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"

	spatev1 "spate.dev/api/v1alpha1"
	archivecontroller "spate.dev/operator/internal/controller/archive"
	exportcontroller "spate.dev/operator/internal/controller/export"
	"spate.dev/operator/internal/controller/generator"
	livecontroller "spate.dev/operator/internal/controller/live"
	"spate.dev/operator/internal/controller/profile"
	runcontroller "spate.dev/operator/internal/controller/run"
	searchcontroller "spate.dev/operator/internal/controller/search"
	"spate.dev/operator/internal/controller/stream"
	"spate.dev/operator/internal/controller/turn"
	"spate.dev/operator/internal/engine"
	"spate.dev/operator/internal/live"
	"spate.dev/operator/internal/metrics"
	"spate.dev/operator/internal/pki"
	"spate.dev/operator/internal/plan"
	"spate.dev/operator/internal/podspec"
	"spate.dev/operator/internal/runs"
	"spate.dev/operator/internal/runs/admission"
	"spate.dev/operator/internal/runs/storage"
)

// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=spate-system,resources=leases,verbs=get;create;update
// +kubebuilder:rbac:groups="",namespace=spate-system,resources=events,verbs=create

func newScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(spatev1.AddToScheme(scheme))
	return scheme
}

// A leader that cannot reach the API server tries to renew its lease until the deadline, then to release it for half of
// that time, and then exits. All of that must be over before another replica leads.
const (
	leaseDuration = 15 * time.Second
	renewDeadline = 7 * time.Second
	retryPeriod   = 2 * time.Second
)

// newManager makes the manager of an operator that reads these namespaces; all if there are none.
func newManager(config *rest.Config, o *options, namespaces []string) (ctrl.Manager, error) {
	// The rate of requests for each kind of objects; API priority and fairness protects the server from their sum. The
	// controller of runs derives from it how often counters are written.
	config.QPS, config.Burst = 200, 400
	config.Wrap(metrics.Transport)
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:    newScheme(),
		Cache:     cached(o.namespace, namespaces),
		NewClient: clientOf(o.namespace, namespaces),
		Client: client.Options{Cache: &client.CacheOptions{
			DisableFor: []client.Object{&corev1.ConfigMap{}, &corev1.Namespace{}}, // plans are large and read once
		}},
		Metrics:                       o.metricsServer(),
		HealthProbeBindAddress:        o.healthAddress,
		LeaderElection:                o.leaderElection,
		LeaderElectionID:              "spate-operator",
		LeaderElectionNamespace:       o.namespace,
		LeaderElectionReleaseOnCancel: true,
		LeaseDuration:                 ptr.To(leaseDuration),
		RenewDeadline:                 ptr.To(renewDeadline),
		RetryPeriod:                   ptr.To(retryPeriod),
		GracefulShutdownTimeout:       ptr.To(5 * time.Second),
	})
	if err != nil {
		return nil, err
	}
	if err := mgr.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return nil, err
	}
	if err := mgr.AddReadyzCheck("ping", healthz.Ping); err != nil {
		return nil, err
	}
	return mgr, addControllers(mgr, o)
}

func addControllers(mgr ctrl.Manager, o *options) error {
	c := mgr.GetClient()
	certificates := &pki.Store{
		Client: c, Namespace: o.namespace, Policy: o.certificates, Clock: clock.RealClock{},
		Labels: map[string]string{podspec.LabelName: podspec.OperatorName, podspec.LabelManagedBy: podspec.ManagedBy},
		Issued: metrics.CertificateIssued,
	}
	recorder := mgr.GetEventRecorder("spate-operator")
	certificates.Restored = func(secret *corev1.Secret) {
		recorder.Eventf(secret, nil, corev1.EventTypeWarning, "AuthorityRestored", "Create",
			"the Secret was deleted and has been created again: engines stay reachable, and a new authority takes over in %s", o.certificates.Propagation)
	}
	engines := engine.NewPool(certificates)
	memory := &storage.Memory{Reader: c, Live: mgr.GetAPIReader()}
	if err := runs.Index(context.Background(), mgr.GetFieldIndexer()); err != nil {
		return err
	}
	compiler := engine.Compiler{Binary: o.engineBinary, Limit: o.checkLimit}
	images, err := o.engineImages()
	if err != nil {
		return err
	}
	access, err := o.access()
	if err != nil {
		return err
	}
	namespaces, err := o.watchedNamespaces()
	if err != nil {
		return err
	}
	monitorLabels, err := o.podMonitorLabels()
	if err != nil {
		return err
	}
	available, err := o.memory()
	if err != nil {
		return err
	}
	shareMemory(available)
	large := &turn.Lane{}
	resolver := (&admission.Resolver{
		Client: c, Live: mgr.GetAPIReader(), Memory: memory, Compiler: compiler, Bound: plan.BoundOf(available), Large: large,
	}).Init()
	controllers := map[string]interface{ SetupWithManager(ctrl.Manager) error }{
		"generator": &generator.Reconciler{
			Client: c, Live: mgr.GetAPIReader(), Events: recorder, Engines: engines, Certificates: certificates,
			Access: access, Images: images, Architecture: o.architecture, PullPolicy: corev1.PullPolicy(o.pullPolicy), PodMonitors: o.podMonitors,
			Scrapes:    podspec.Scrapes{Labels: monitorLabels, Interval: o.scrapeInterval, NativeHistograms: o.nativeHistograms},
			Namespaces: namespaces, Resolver: resolver,
		},
		"profile": &profile.Reconciler{Client: c, Events: recorder, Clock: clock.RealClock{}, Resolver: resolver, Inline: o.inline},
		"run":     &runcontroller.Reconciler{Client: c, Events: recorder, Engines: engines, Memory: memory, Resolver: resolver, Large: large},
		"search":  &searchcontroller.Reconciler{Client: c, Events: recorder},
		"stream":  &stream.Reconciler{Client: c, Compiler: compiler},
	}
	store, err := o.archiveStore(context.Background())
	if err != nil {
		return err
	}
	if store != nil {
		controllers["archive"] = &archivecontroller.Reconciler{Client: c, Events: recorder, Store: store, Keep: o.keep}
	}
	targets, err := o.exports()
	if err != nil {
		return err
	}
	for _, target := range targets {
		controllers[string(target.Protocol)] = exportcontroller.New(c, recorder, target)
	}
	for name, controller := range controllers {
		if err := controller.SetupWithManager(mgr); err != nil {
			return fmt.Errorf("%s controller: %w", name, err)
		}
	}
	return addLive(mgr, o, certificates)
}

// addLive serves readers of packets and records, on every replica.
func addLive(mgr ctrl.Manager, o *options, certificates *pki.Store) error {
	if o.liveAddress == "0" {
		return nil
	}
	endpoint := spatev1.LiveEndpoint{Namespace: o.namespace, Service: o.liveService, Port: "live", ServerName: pki.LiveName}
	readers := &livecontroller.Reconciler{Client: mgr.GetClient(), Certificates: certificates, Clock: clock.RealClock{}, Endpoint: endpoint}
	if err := readers.SetupWithManager(mgr); err != nil {
		return fmt.Errorf("live controller: %w", err)
	}
	return mgr.Add(&live.Server{Client: mgr.GetClient(), Fresh: mgr.GetAPIReader(), Certificates: certificates, Address: o.liveAddress})
}
