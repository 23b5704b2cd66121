// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/plan"
)

// store has a ConfigMap and a Secret, both named `a`, and counts reads.
type store struct {
	client.Reader
	reads int
}

func (s *store) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	s.reads++
	if key.Namespace != "lab" || key.Name != "a" {
		return errors.NewNotFound(schema.GroupResource{}, key.Name)
	}
	switch into := into.(type) {
	case *corev1.ConfigMap:
		into.Data, into.BinaryData = map[string]string{"1": "text"}, map[string][]byte{"2": {0}}
	case *corev1.Secret:
		into.Data = map[string][]byte{"1": []byte("secret")}
	}
	return nil
}

func TestWhatTemplatesSendIsReadOncePerObject(t *testing.T) {
	configMap := func(name, key string) *spatev1.DataSource {
		return &spatev1.DataSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: name}, Key: key}}
	}
	secret := func(name, key string) *spatev1.DataSource {
		return &spatev1.DataSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: name}, Key: key}}
	}
	var program []spatev1.Command
	for _, from := range []*spatev1.DataSource{
		configMap("a", "1"), configMap("a", "2"), configMap("a", "3"), secret("a", "1"), configMap("b", "1"), configMap("b", "2"),
	} {
		program = append(program, spatev1.Command{SendMessage: &spatev1.Content{From: from}})
	}
	template := &spatev1.ASTFTemplate{Spec: spatev1.ASTFTemplateSpec{Source: spatev1.TemplateSource{Programs: &spatev1.Programs{Client: program}}}}
	profile := &spatev1.TrafficProfile{}
	profile.Namespace = "lab"
	profile.Spec.Traffic = []spatev1.TrafficEntry{{Application: &spatev1.ApplicationEntry{TemplateRef: &spatev1.LocalReference{Name: "t"}}}}
	in, live := plan.Input{Templates: map[string]*spatev1.ASTFTemplate{"t": template}}, &store{}
	s := Resolution{r: &Resolver{Live: live}, definition: profile}
	if err := s.data(t.Context(), &in); err != nil {
		t.Fatal(err)
	}
	got := func(command int) string { return string(in.Data[program[command].SendMessage.From.Reference()]) }
	if len(in.Data) != 3 || got(0) != "text" || got(1) != "\x00" || got(3) != "secret" {
		t.Errorf("got %v", in.Data)
	}
	if live.reads != 3 || !s.ReadsData() {
		t.Errorf("%d reads of 3 objects", live.reads)
	}
}
