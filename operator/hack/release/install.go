// SPDX-License-Identifier: Apache-2.0

package main

// This file answers: how is Spate installed with kubectl alone? By config/default in one file, with the images of the version, and removed by
// config/uninstall in another.

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

const (
	installName   = "install.yaml"
	uninstallName = "uninstall.yaml"
	// imagesHere is where config/ and the chart have their images: on the machine itself.
	imagesHere = "localhost/spate"
)

// ImageReference is by what a pod names an image.
type ImageReference struct{ Name, Tag, Digest string }

func (i ImageReference) String() string {
	text := i.Name + ":" + i.Tag
	if i.Digest != "" {
		text += "@" + i.Digest
	}
	return text
}

// reference returns by what pods name an image of the release: with its digest, unless it is only on machines that it was loaded into, where
// container runtimes know it by its tag.
func (r *Release) reference(image string) (ImageReference, error) {
	reference := ImageReference{Name: r.Images + "/" + image, Tag: r.Version}
	if r.Images == imagesHere {
		return reference, nil
	}
	layout, err := openLayout(filepath.Join(r.Folder, image+imageSuffix))
	if err != nil {
		return reference, err
	}
	reference.Digest = layout.root.Digest.String()
	return reference, layout.Close()
}

// install writes config/default and config/uninstall with the images of the release.
func (r *Release) install() error {
	operator, err := r.reference("operator")
	if err != nil {
		return err
	}
	engine, err := r.reference("engine")
	if err != nil {
		return err
	}
	const argument = "/spec/template/spec/containers/0/args/0"
	patch, err := json.Marshal([]map[string]string{
		{"op": "test", "path": argument, "value": "--engine-image=" + imagesHere + "/engine:dev"},
		{"op": "replace", "path": argument, "value": "--engine-image=" + engine.String()},
	})
	if err != nil {
		return err
	}
	target := &types.Selector{}
	target.Kind, target.Name = "Deployment", "spate-operator"
	for _, file := range []struct {
		name, base, head string
		patches          []types.Patch
	}{
		{installName, "config/default", "kubectl apply --server-side -f " + installName, []types.Patch{{Target: target, Patch: string(patch)}}},
		{uninstallName, "config/uninstall", "kubectl apply -f " + uninstallName + " && kubectl -n spate-system wait job/spate-uninstall --for=condition=Complete --timeout=6m", nil},
	} {
		text, err := built(filepath.Join(r.Source, file.base), operator, file.patches)
		if err != nil {
			return fmt.Errorf("%s: %w", file.base, err)
		}
		head := fmt.Sprintf("# SPDX-License-Identifier: Apache-2.0\n# %s with the images of Spate %s.\n#   %s\n", file.base, r.Version, file.head)
		if err := os.WriteFile(filepath.Join(r.Folder, file.name), append([]byte(head), text...), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// built returns what a kustomization makes with an image of the operator and patches. Namespaces and definitions come first, so that kubectl
// can apply one object after another.
func built(base string, operator ImageReference, patches []types.Patch) ([]byte, error) {
	folder, err := os.MkdirTemp("", "release-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	from, err := resolved(folder)
	if err != nil {
		return nil, err
	}
	to, err := resolved(base)
	if err != nil {
		return nil, err
	}
	resource, err := filepath.Rel(from, to) // kustomize takes no absolute path
	if err != nil {
		return nil, err
	}
	text, err := yaml.Marshal(types.Kustomization{
		TypeMeta:    types.TypeMeta{APIVersion: types.KustomizationVersion, Kind: types.KustomizationKind},
		SortOptions: &types.SortOptions{Order: types.LegacySortOrder},
		Resources:   []string{resource},
		Images:      []types.Image{{Name: imagesHere + "/operator", NewName: operator.Name, NewTag: operator.Tag, Digest: operator.Digest}},
		Patches:     patches,
	})
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(folder, "kustomization.yaml"), text, 0o600); err != nil {
		return nil, err
	}
	all, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), folder)
	if err != nil {
		return nil, err
	}
	return all.AsYaml()
}

// resolved returns the absolute path of a folder, without links.
func resolved(path string) (string, error) {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(absolute)
}

// verifyInstall checks that the installation has the images of the release and no others, and where it names digests, those of the archives.
func verifyInstall(folder, version, images string) error {
	r := Release{Folder: folder, Version: version, Images: images}
	operator, err := r.reference("operator")
	if err != nil {
		return err
	}
	engine, err := r.reference("engine")
	if err != nil {
		return err
	}
	var problems []error
	for name, wanted := range map[string][]string{installName: {operator.String(), engine.String()}, uninstallName: {operator.String()}} {
		text, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			problems = append(problems, err)
			continue
		}
		objects, err := documents(text)
		if err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", name, err))
			continue
		}
		if found := imagesOf(objects); !slices.Equal(found, wanted) {
			problems = append(problems, fmt.Errorf("%s: its images are %q, not %q", name, found, wanted))
		}
	}
	return errors.Join(problems...)
}

// documents returns the objects of a YAML file without definitions of kinds, which have no pods, and are most of it.
func documents(text []byte) ([]any, error) {
	var objects []any
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		if strings.Contains(document, "\nkind: CustomResourceDefinition\n") {
			continue
		}
		var object map[string]any
		if err := yaml.Unmarshal([]byte(document), &object); err != nil {
			return nil, err
		}
		objects = append(objects, object)
	}
	return objects, nil
}

// imagesOf returns the images that containers have, then those that their arguments name for engines.
func imagesOf(value any) []string {
	var images, arguments []string
	var walk func(any)
	walk = func(value any) {
		switch value := value.(type) {
		case []any:
			for _, element := range value {
				walk(element)
			}
		case map[string]any:
			if image, ok := value["image"].(string); ok {
				images = append(images, image)
			}
			for _, key := range slices.Sorted(maps.Keys(value)) {
				walk(value[key])
			}
		case string:
			if image, ok := strings.CutPrefix(value, "--engine-image="); ok {
				arguments = append(arguments, image)
			}
		}
	}
	walk(value)
	return append(images, arguments...)
}
