// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"bytes"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/plan/data"
	"spate.dev/operator/internal/plan/load"
)

// fromConfigMap selects a key of a ConfigMap.
func fromConfigMap(name, key string) *spatev1.DataSource {
	return &spatev1.DataSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: name}, Key: key}}
}

// fromSecret selects a key of a Secret.
func fromSecret(name, key string) *spatev1.DataSource {
	return &spatev1.DataSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: name}, Key: key}}
}

func TestBytesOfSecretsAreNoPartOfAPlan(t *testing.T) {
	recorded := recording(t, 11)
	contents := map[spatev1.DataReference][]byte{fromSecret("web", "call.pcap").Reference(): recorded, fromSecret("login", "password").Reference(): []byte("correct horse battery")}
	e := entryOf("replay", "east", "", replay(func(r *spatev1.ReplayTransmit) { r.Pcap.From = fromSecret("web", "call.pcap") }))
	template := templateOf(t, webTemplate, "{text: GET /}", "{from: {secretKeyRef: {name: login, key: password}}}")
	p := profile(e)
	p.Spec.Traffic = append(p.Spec.Traffic, spatev1.TrafficEntry{Name: "web", Application: &spatev1.ApplicationEntry{TemplateRef: &spatev1.LocalReference{Name: "web"}}, TransmitPort: "east", ReceivePort: "west"})
	in := Input{Profile: p, Generator: generator(), Templates: map[string]*spatev1.ASTFTemplate{"web": template}, Data: contents}
	resolved := mustResolve(t, in)
	if want := []spatev1.DataReference{fromSecret("web", "call.pcap").Reference(), fromSecret("login", "password").Reference()}; !slices.Equal(resolved.Secrets, want) {
		t.Fatalf("refers to %v, want %v", resolved.Secrets, want)
	}
	made := resolved.Plan(Identity{RunID: "r"})
	kept, _, err := Encode(made)
	if err != nil {
		t.Fatal(err)
	}
	for ref, secret := range contents {
		if bytes.Contains(kept, secret[:10]) {
			t.Errorf("the plan holds bytes of %s", data.NameOf(ref))
		}
	}
	if got, want := SecretBytes(made), int64(len(recorded)+len("correct horse battery")); got != want {
		t.Errorf("it refers to %d bytes of Secrets, want %d", got, want)
	}
	// What is computed from a plan is the same without the bytes.
	load, err := load.Of(made)
	if err != nil || load.Packets.Cmp(resolved.Load.Packets) != 0 || load.L1Bits.Cmp(resolved.Load.L1Bits) != 0 || load.Packets.Sign() == 0 {
		t.Errorf("the load is %v, and was %v when it was resolved: %v", load.Packets, resolved.Load.Packets, err)
	}
	beside, err := EncodeData([][]byte{recorded, []byte("correct horse battery")})
	if err != nil {
		t.Fatal(err)
	}
	whole, err := Decode(slices.Concat(kept, beside))
	if err != nil || !proto.Equal(whole, resolved.PlanWithData(Identity{RunID: "r"})) {
		t.Errorf("with the data appended it is not the plan that is tried: %v", err)
	}
}
