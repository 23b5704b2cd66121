// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

var (
	ofKind = regexp.MustCompile(`(?m)^kind: (\S+)$`)
	named  = regexp.MustCompile(`(?m)^  name: (\S+)$`)
)

// installed returns the objects of a file by their kinds and names.
func installed(t *testing.T, text []byte) (kinds []string, byName map[string]string) {
	t.Helper()
	byName = map[string]string{}
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		kind := ofKind.FindStringSubmatch(document)[1]
		kinds = append(kinds, kind)
		key := kind + " " + named.FindStringSubmatch(document)[1]
		if _, twice := byName[key]; twice {
			t.Errorf("%s is there twice", key)
		}
		_, object, _ := strings.Cut(document, "apiVersion:") // a comment may be before it
		byName[key] = strings.TrimSpace("apiVersion:" + object)
	}
	return kinds, byName
}

// The file has what config/default makes, byte for byte, but for the images.
func TestTheInstallationIsConfigDefaultWithTheImagesOfTheVersion(t *testing.T) {
	r := described(t)
	for name, base := range map[string]string{installName: "config/default", uninstallName: "config/uninstall"} {
		plain, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), filepath.Join("../../..", base))
		must(t, err)
		text, err := plain.AsYaml()
		must(t, err)
		_, want := installed(t, text)
		released, err := os.ReadFile(filepath.Join(r.Folder, name))
		must(t, err)
		kinds, got := installed(t, released)
		changed := strings.NewReplacer(
			"image: localhost/spate/operator:dev", "image: registry.example/spate/operator:1.2.3@"+manifestDigest(t, r, "operator"),
			"--engine-image=localhost/spate/engine:dev", "--engine-image=registry.example/spate/engine:1.2.3@"+manifestDigest(t, r, "engine"))
		replaced := 0
		for key, object := range want {
			with := changed.Replace(object)
			if with != object {
				replaced++
			}
			if got[key] != with {
				t.Errorf("%s: %s is\n%s\nnot\n%s", name, key, got[key], with)
			}
			delete(got, key)
		}
		if len(got) > 0 || replaced != 1 {
			t.Errorf("%s: %d objects have images, and %d are of none of %s", name, replaced, len(got), base)
		}
		if namespace := slices.Index(kinds, "Namespace"); name == installName && namespace != 0 {
			t.Errorf("%s begins with %s: objects of the namespace would be refused", name, kinds[0])
		}
	}
}

func TestImagesOfThisMachineAreNamedByTag(t *testing.T) {
	r := described(t)
	r.Images = imagesHere
	must(t, r.install())
	text, err := os.ReadFile(filepath.Join(r.Folder, installName))
	must(t, err)
	for _, want := range []string{"image: localhost/spate/operator:1.2.3\n", "- --engine-image=localhost/spate/engine:1.2.3\n"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %q", want)
		}
	}
	if strings.Contains(string(text), "@sha256:") {
		t.Error("a digest is named")
	}
}

func manifestDigest(t *testing.T, r *Release, image string) string {
	t.Helper()
	l, err := openLayout(filepath.Join(r.Folder, image+imageSuffix))
	must(t, err)
	defer l.Close()
	return l.root.Digest.String()
}
