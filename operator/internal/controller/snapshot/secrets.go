// SPDX-License-Identifier: Apache-2.0

package snapshot

// This file answers: which bytes of Secrets does a run's plan refer to, and are they what was resolved?

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	spatev1 "spate.dev/operator/api/v1alpha1"
	"spate.dev/operator/internal/plan"
)

// Secrets gives what is appended to a run's encoded plan for engines: the bytes of Secrets that it refers to. They are read for each
// engine anew and kept nowhere. A Secret that is not what was resolved is a LostError: the plan was judged with other bytes.
func (m *Memory) Secrets(ctx context.Context, run *spatev1.TrafficRun) ([]byte, error) {
	if len(run.Spec.Snapshot.Secrets) == 0 {
		return nil, nil
	}
	read := map[spatev1.ObjectName]*corev1.Secret{}
	var data [][]byte
	for _, ref := range run.Spec.Snapshot.Secrets {
		secret := read[ref.Name]
		if secret == nil {
			secret = &corev1.Secret{}
			err := m.Live.Get(ctx, client.ObjectKey{Namespace: run.Namespace, Name: string(ref.Name)}, secret)
			if apierrors.IsNotFound(err) {
				return nil, &LostError{fmt.Sprintf("Secret %q, which the run sends from, is gone", ref.Name)}
			}
			if err != nil {
				return nil, err
			}
			read[ref.Name] = secret
		}
		bytes, there := secret.Data[ref.Key]
		if secret.UID != ref.UID || secret.ResourceVersion != ref.ResourceVersion || !there {
			return nil, &LostError{fmt.Sprintf("Secret %q, which the run sends from, has changed since the run was made", ref.Name)}
		}
		data = append(data, bytes)
	}
	return plan.EncodeData(data)
}
