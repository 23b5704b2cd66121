// SPDX-License-Identifier: Apache-2.0

// spate-operator runs the controllers. `spate-operator uninstall` prepares a cluster for their removal.
package main

import (
	"context"
	"fmt"
	"os"

	ctrl "sigs.k8s.io/controller-runtime"
)

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
	ctrl.SetLogger(o.logger())
	mgr, err := newManager(ctrl.GetConfigOrDie(), o)
	if err != nil {
		return err
	}
	return mgr.Start(ctx)
}
