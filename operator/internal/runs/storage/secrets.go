// SPDX-License-Identifier: Apache-2.0

package storage

// This file answers: which data of Secrets does a run's plan refer to, and is it the data that was resolved?

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/plan"
)

// Secrets returns what is appended to a run's encoded plan for engines: the data of Secrets that it refers to. It is
// read each time the plan is sent, and stored nowhere. It is a LostError if a Secret has changed since the run was
// resolved: the plan was checked with other data.
func (m *Memory) Secrets(ctx context.Context, run *spatev1.TrafficRun) ([]byte, error) {
	refs := run.Status.Resolved.Snapshot.Secrets
	if len(refs) == 0 {
		return nil, nil
	}
	keysOf := map[spatev1.ObjectName][]int{} // the keys by Secret: one Secret is in memory at a time, because it may have large keys that nothing refers to
	for at, ref := range refs {
		keysOf[ref.Name] = append(keysOf[ref.Name], at)
	}
	data := make([][]byte, len(refs))
	for _, name := range slices.Sorted(maps.Keys(keysOf)) {
		secret := &corev1.Secret{}
		err := m.Live.Get(ctx, client.ObjectKey{Namespace: run.Namespace, Name: string(name)}, secret)
		if apierrors.IsNotFound(err) {
			return nil, &LostError{fmt.Sprintf("Secret %q, which the run sends from, is gone", name)}
		}
		if err != nil {
			return nil, err
		}
		for _, at := range keysOf[name] {
			bytes, there := secret.Data[refs[at].Key]
			if secret.UID != refs[at].UID || secret.ResourceVersion != refs[at].ResourceVersion || !there {
				return nil, &LostError{fmt.Sprintf("Secret %q, which the run sends from, has changed since the run was created", name)}
			}
			data[at] = bytes
		}
	}
	return plan.EncodeData(data)
}
