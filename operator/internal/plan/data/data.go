// SPDX-License-Identifier: Apache-2.0

// Package data answers: which bytes do the ConfigMaps, Secrets and volumes hold that streams and templates name?
package data

import (
	"fmt"
	"regexp"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/engine/enginev1"
	"spate.dev/operator/internal/plan/problem"
)

// volumePath matches the path of a file on a volume.
var volumePath = regexp.MustCompile(`^[A-Za-z0-9_+-][A-Za-z0-9_.+-]*(/[A-Za-z0-9_+-][A-Za-z0-9_.+-]*)*$`)

// Data are the bytes that streams and templates name.
type Data struct {
	// Bytes that were found; nil if nothing was looked up.
	Bytes map[spatev1.DataReference][]byte
	// Secrets are the keys of Secrets among them; a key's index is its index in the plan's data.
	Secrets []spatev1.DataReference
}

// Ref returns the reference that replaces the bytes of a Secret's key; nil for others.
func (d Data) Ref(from *spatev1.DataSource, bytes []byte) *enginev1.DataRef {
	named := from.Reference()
	if named.Kind != spatev1.DataSecret {
		return nil
	}
	// Every reference is among DataReferences. If one were not, no bytes would be written for it, and engines would
	// refuse the plan.
	return &enginev1.DataRef{Index: uint32(slices.Index(d.Secrets, named)), Bytes: uint64(len(bytes))}
}

// NameOf returns the words for a key of a ConfigMap or Secret.
func NameOf(ref spatev1.DataReference) string {
	return fmt.Sprintf("key %q of %s %q", ref.Key, ref.Kind, ref.Name)
}

// VolumesDir is where a generator's volumes are mounted in its pods, each in a folder with its name.
const VolumesDir = "/var/lib/spate/volumes"

// CheckVolume reports a file that cannot be on a generator's volume; the generator is nil if it is not known.
func CheckVolume(file *spatev1.VolumeFile, at *field.Path, generator *spatev1.TrafficGenerator) (problems problem.Problems) {
	if !volumePath.MatchString(file.Path) {
		problems.Add(spatev1.ReasonInvalidSpec, at.Child("path"), "%q: must be relative, of letters, digits, '_', '.', '+' and '-', no part beginning with '.'", file.Path)
	}
	if generator == nil {
		return problems
	}
	for _, volume := range generator.Spec.Volumes {
		if volume.Name == file.Name {
			return problems
		}
	}
	problems.Add(spatev1.ReasonInvalidSpec, at.Child("name"), "%q is no volume of generator %s; add it to its spec.volumes", file.Name, generator.Name)
	return problems
}
