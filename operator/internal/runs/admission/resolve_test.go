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

// store has a ConfigMap and a Secret, both `a`, and counts what is read.
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
	configMap, secret := spatev1.ObjectName("a"), spatev1.ObjectName("a")
	var program []spatev1.Command
	for _, from := range []spatev1.DataReference{
		{ConfigMapName: configMap, Key: "1"}, {ConfigMapName: configMap, Key: "2"}, {ConfigMapName: configMap, Key: "3"},
		{SecretName: secret, Key: "1"}, {ConfigMapName: "b", Key: "1"}, {ConfigMapName: "b", Key: "2"},
	} {
		program = append(program, spatev1.Command{SendMessage: &spatev1.Content{From: &from}})
	}
	template := &spatev1.ASTFTemplate{Spec: spatev1.ASTFTemplateSpec{Source: spatev1.TemplateSource{Programs: &spatev1.Programs{Client: program}}}}
	profile := &spatev1.TrafficProfile{Spec: spatev1.TrafficProfileSpec{Traffic: []spatev1.TrafficEntry{{TemplateRef: &spatev1.LocalReference{Name: "t"}}}}}
	profile.Namespace = "lab"
	in, live := plan.Input{Templates: map[string]*spatev1.ASTFTemplate{"t": template}}, &store{}
	s := scope{r: &Reconciler{Live: live}, profile: profile}
	if err := s.data(t.Context(), &in); err != nil {
		t.Fatal(err)
	}
	got := func(from spatev1.DataReference) string { return string(in.Data[from]) }
	if len(in.Data) != 3 || got(*program[0].SendMessage.From) != "text" || got(*program[1].SendMessage.From) != "\x00" || got(*program[3].SendMessage.From) != "secret" {
		t.Errorf("got %v", in.Data)
	}
	if live.reads != 3 {
		t.Errorf("%d reads of 3 objects", live.reads)
	}
}
