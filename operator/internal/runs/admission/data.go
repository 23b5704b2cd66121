// SPDX-License-Identifier: Apache-2.0

package admission

// This file answers: which data of ConfigMaps and Secrets does a definition name?

import (
	"context"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/plan"
)

// ReadsData reports whether streams or templates name ConfigMaps or Secrets. These are not watched: a change of them
// triggers no reconcile.
func (s *Resolution) ReadsData() bool { return s.readsData }

// Secrets returns those that the plan refers to, with each key as it was read.
func (s *Resolution) Secrets() []spatev1.SecretSnapshot {
	var all []spatev1.SecretSnapshot
	for _, ref := range s.Resolved.Secrets {
		secret := s.secrets[ref.Name]
		secret.Key = ref.Key
		all = append(all, secret)
	}
	return all
}

// data reads the ConfigMaps and Secrets that streams and templates name, each once. A run has the data that existed
// when it was admitted.
func (s *Resolution) data(ctx context.Context, in *plan.Input) error {
	in.Data = map[spatev1.DataReference][]byte{}
	read, size := map[spatev1.DataReference]map[string][]byte{}, int64(0)
	for _, ref := range plan.DataReferences(s.definition, in.Streams, in.Templates) {
		s.readsData = true
		whole := spatev1.DataReference{Kind: ref.Kind, Name: ref.Name}
		keys, known := read[whole]
		if !known {
			var err error
			if keys, err = s.keys(ctx, whole); err != nil {
				return err
			}
			read[whole] = keys
			for _, bytes := range keys {
				size += int64(len(bytes))
			}
			if bound := s.r.Bound.Bytes; bound > 0 && size > bound {
				s.Problems = append(s.Problems, s.r.Bound.Exceeded(field.NewPath("spec", "traffic"), size)...)
				return nil
			}
		}
		if bytes, found := keys[ref.Key]; found {
			in.Data[ref] = bytes
		}
	}
	return nil
}

// keys returns those of a ConfigMap or Secret; none if it does not exist, which plan.Resolve reports.
func (s *Resolution) keys(ctx context.Context, of spatev1.DataReference) (map[string][]byte, error) {
	key := client.ObjectKey{Namespace: s.definition.Namespace, Name: string(of.Name)}
	if of.Kind == spatev1.DataSecret {
		secret := &corev1.Secret{}
		err := s.r.Live.Get(ctx, key, secret)
		if s.secrets == nil {
			s.secrets = map[spatev1.ObjectName]spatev1.SecretSnapshot{}
		}
		s.read = append(s.read, fmt.Sprintf("%s %s", secret.UID, secret.ResourceVersion))
		s.secrets[of.Name] = spatev1.SecretSnapshot{Name: of.Name, UID: secret.UID, ResourceVersion: secret.ResourceVersion}
		return secret.Data, client.IgnoreNotFound(err)
	}
	configMap := &corev1.ConfigMap{}
	err := s.r.Live.Get(ctx, key, configMap)
	s.read = append(s.read, fmt.Sprintf("%s %s", configMap.UID, configMap.ResourceVersion))
	all := map[string][]byte{}
	for key, text := range configMap.Data {
		all[key] = []byte(text)
	}
	maps.Copy(all, configMap.BinaryData)
	return all, client.IgnoreNotFound(err)
}
