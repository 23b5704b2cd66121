// SPDX-License-Identifier: Apache-2.0

// spate-operator runs the controllers. `spate-operator uninstall` prepares a cluster for their removal.
package main

import (
	"context"
	"fmt"
	"os"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"spate.dev/operator/internal/metrics"
)

// version is that of the release: it has the images that its tests ran, so `make release` sets the variable in their configuration.
func version() string { return env("SPATE_VERSION", "dev") }

func main() {
	if err := run(ctrl.SetupSignalHandler(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "spate-operator:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) > 0 && args[0] == "uninstall" {
		return uninstall(ctx, args[1:])
	}
	o, err := parse(args)
	if err != nil || o.help {
		return err
	}
	if o.version {
		fmt.Println("spate-operator", version())
		return nil
	}
	ctrl.SetLogger(o.logger())
	ctrl.Log.Info("starting", "version", version())
	metrics.Version(version())
	config := ctrl.GetConfigOrDie()
	watched, err := o.watchedNamespaces()
	if err != nil {
		return err
	}
	live, err := client.New(config, client.Options{Scheme: newScheme()})
	if err != nil {
		return err
	}
	namespaces, err := newLookout(ctx, live, watched)
	if err != nil {
		return err
	}
	mgr, err := newManager(config, o, namespaces.readable())
	if err != nil {
		return err
	}
	return namespaces.during(ctx, mgr.Start, mgr.GetCache().WaitForCacheSync)
}
