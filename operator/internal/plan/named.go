// SPDX-License-Identifier: Apache-2.0

// Which bytes do the ConfigMaps, Secrets and volumes hold that streams and templates name?

package plan

import (
	"fmt"
	"regexp"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	spatev1 "spate.dev/api/v1alpha1"

	"spate.dev/operator/internal/engine/enginev1"
	"spate.dev/operator/internal/plan/problem"
)

var volumePath = regexp.MustCompile(`^[A-Za-z0-9_+-][A-Za-z0-9_.+-]*(/[A-Za-z0-9_+-][A-Za-z0-9_.+-]*)*$`)

// data are the bytes that streams and templates name.
type data struct {
	// bytes that were found; nil if nothing was looked up.
	bytes map[spatev1.DataReference][]byte
	// secrets are the keys of Secrets among them; a key's index is its index in the plan's data.
	secrets []spatev1.DataReference
}

// ref returns the reference that replaces the bytes of a Secret's key; nil for others.
func (d data) ref(from *spatev1.DataSource, bytes []byte) *enginev1.DataRef {
	named := from.Reference()
	if named.Kind != spatev1.DataSecret {
		return nil
	}
	// Every reference is among DataReferences. If one were not, no bytes would be written for it, and engines would
	// refuse the plan.
	return &enginev1.DataRef{Index: uint32(slices.Index(d.secrets, named)), Bytes: uint64(len(bytes))}
}

func nameOf(ref spatev1.DataReference) string {
	return fmt.Sprintf("key %q of %s %q", ref.Key, ref.Kind, ref.Name)
}

// VolumesDir is where a generator's volumes are mounted in its pods, each in a folder with its name.
const VolumesDir = "/var/lib/spate/volumes"

// checkVolume reports a file that cannot be on a generator's volume; the generator is nil if it is not known.
func checkVolume(file *spatev1.VolumeFile, at *field.Path, generator *spatev1.TrafficGenerator) (problems problem.Problems) {
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
