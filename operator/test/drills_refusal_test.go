// SPDX-License-Identifier: Apache-2.0

package test

// This file answers: what becomes of what its author may not ask for?

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/test/drill"
)

func TestDrillEditorWithoutRightsOnSecrets(t *testing.T) {
	d := drill.New(t, "an editor who may not read a Secret names it in a stream, a template, and a generator's volume", time.Minute)
	ns := bareNamespace(t)
	roles := []string{"spate-editor", "spate-generator-editor"}
	editor, reader := person(t, ns, "edith", roles), person(t, ns, "rita", roles, reads("login"))
	answered(t, "what names no Secret", creates(t, editor, ns, loopbackStream)) // the roles have effect
	manifests := map[string]string{
		"a stream":   streamFrom("s", "{secretKeyRef: {name: login, key: k}}"),
		"a template": templateFrom("t", "login"),
		"a volume":   loopbackGenerator + "  volumes: [{name: v, secret: {secretName: login}}]\n",
	}
	d.Strike()
	for what, manifest := range manifests {
		answered(t, what, creates(t, editor, ns, manifest), `Secret "login" is named`, "you may not get it")
	}
	d.Detected(5 * time.Second)
	d.ReportsText(`the API server refuses each: Secret "login" is named, and you may not get it`)
	for what, manifest := range manifests {
		answered(t, what+", by who may get it", creates(t, reader, ns, manifest))
	}
	d.Kept("the Secret; who may get it may name it")
}

func TestDrillImageThatIsNotOnTheList(t *testing.T) {
	d := drill.New(t, "a generator's image is changed to one that is not on the list", time.Minute)
	ns := bareNamespace(t)
	mustApply(t, ns, loopbackGenerator)
	podNamed(t, ns, "loop-0")
	d.Strike()
	mustApply(t, ns, loopbackGenerator+"  image: evil/shell:1\n")
	g := generatorNamed(ns, "loop")
	expect(t, answerLimit, g, spatev1.ConditionStalled, metav1.ConditionTrue, spatev1.ReasonNotAllowed, `spec.image: "evil/shell:1" is not among`, "engine:test", "--engine-images")
	d.Detected(answerLimit)
	d.Reports("TrafficGenerator", meta.FindStatusCondition(g.Status.Conditions, spatev1.ConditionStalled))
	until(t, answerLimit, "no pod is left", func() (bool, string) {
		pods := enginePods(t, ns)
		for _, pod := range pods {
			if strings.HasPrefix(pod.Spec.Containers[0].Image, "evil") {
				t.Fatalf("pod %s was made", pod.Name)
			}
		}
		return len(pods) == 0, strconv.Itoa(len(pods))
	})
	mustApply(t, ns, loopbackGenerator+"  image: engine:test\n")
	podNamed(t, ns, "loop-0")
	d.Kept("no pod had it; with an allowed one the generator has its pod again")
}
