// SPDX-License-Identifier: Apache-2.0

package main

// This file answers: how does Krew install the plugin? By a plugin manifest (https://krew.sigs.k8s.io/docs/developer-guide/plugin-manifest/)
// with the archive of each platform and its digest.

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"
)

const (
	// krewName is the manifest's file, which must be called as the plugin is.
	krewName = "spate.yaml"
	// downloadPlaceholder stands in URIs for the address of the release, where that is not known.
	downloadPlaceholder = "DOWNLOAD_URL"
	homepage            = "https://spate.dev"
)

// KrewPlugin is a plugin manifest of Krew, as far as it is used here.
type KrewPlugin struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Metadata   KrewMeta `json:"metadata"`
	Spec       KrewSpec `json:"spec"`
}

// KrewMeta is the name of a plugin.
type KrewMeta struct {
	Name string `json:"name"`
}

// KrewSpec says what a plugin is and where it comes from.
type KrewSpec struct {
	// Version begins with v.
	Version          string         `json:"version"`
	Homepage         string         `json:"homepage"`
	ShortDescription string         `json:"shortDescription"`
	Description      string         `json:"description"`
	Caveats          string         `json:"caveats"`
	Platforms        []KrewPlatform `json:"platforms"`
}

// KrewPlatform is the archive for a platform. All its files are installed, since `files` does not choose some.
type KrewPlatform struct {
	Selector KrewSelector `json:"selector"`
	URI      string       `json:"uri"`
	SHA256   string       `json:"sha256"`
	// Bin is the program in the archive.
	Bin string `json:"bin"`
}

// KrewSelector chooses a platform by its labels os and arch.
type KrewSelector struct {
	MatchLabels map[string]string `json:"matchLabels"`
}

const krewDescription = `Runs traffic tests that are declared as objects of Spate, a traffic generator on DPDK: creates
profiles from presets, checks them without a cluster, starts runs, shows them live, waits for
their verdicts, reports and compares results, captures packets and pings from ports, and checks
the machines that generators run on.

Without Spate in the cluster, the commands on files work.
`

const krewCaveats = `For completion in shells, copy kubectl_complete-spate into a folder of PATH (not on Windows):
  cp "${KREW_ROOT:-$HOME/.krew}/store/spate/v%s/kubectl_complete-spate" "${KREW_ROOT:-$HOME/.krew}/bin/"
`

// krew writes the manifest of the plugin's archives in the folder.
func (r *Release) krew() error {
	manifest := KrewPlugin{
		APIVersion: "krew.googlecontainertools.github.com/v1alpha2", Kind: "Plugin", Metadata: KrewMeta{Name: "spate"},
		Spec: KrewSpec{
			Version: "v" + r.Version, Homepage: homepage, ShortDescription: "Run network traffic tests and judge them",
			Description: krewDescription, Caveats: fmt.Sprintf(krewCaveats, r.Version),
		},
	}
	files, err := released(r.Folder)
	if err != nil {
		return err
	}
	base := strings.TrimSuffix(r.DownloadURL, "/")
	if base == "" {
		base = downloadPlaceholder
	}
	for _, name := range files {
		p, ok := pluginPlatform(name, r.Version)
		if !ok {
			continue
		}
		sum, err := digestOf(filepath.Join(r.Folder, name))
		if err != nil {
			return err
		}
		manifest.Spec.Platforms = append(manifest.Spec.Platforms, KrewPlatform{
			Selector: KrewSelector{map[string]string{"os": p.OS, "arch": p.Arch}}, URI: base + "/" + name, SHA256: sum, Bin: p.program(),
		})
	}
	if len(manifest.Spec.Platforms) == 0 {
		return fmt.Errorf("%s has no archive of the plugin with version %s", r.Folder, r.Version)
	}
	text, err := yaml.Marshal(manifest)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.Folder, krewName), append([]byte("# SPDX-License-Identifier: Apache-2.0\n"), text...), 0o644)
}

// verifyKrew checks that a manifest names each archive of the plugin once, by its digest and for its platform.
func verifyKrew(folder, version string, found []Resource) error {
	var manifest KrewPlugin
	if err := readYAML(filepath.Join(folder, krewName), &manifest); err != nil {
		return err
	}
	archives := map[string]string{}
	for _, file := range found {
		if _, ok := pluginPlatform(file.Name, version); ok {
			archives[file.Name] = file.Digest["sha256"]
		}
	}
	var problems []error
	if manifest.Spec.Version != "v"+version {
		problems = append(problems, fmt.Errorf("%s: version %s, not v%s", krewName, manifest.Spec.Version, version))
	}
	for _, platform := range manifest.Spec.Platforms {
		name := path.Base(platform.URI)
		is, there := archives[name]
		p, _ := pluginPlatform(name, version)
		labels := platform.Selector.MatchLabels
		switch {
		case !there:
			problems = append(problems, fmt.Errorf("%s: %s is not of this release, or is named twice", krewName, name))
		case is != platform.SHA256:
			problems = append(problems, fmt.Errorf("%s: %s has the digest %s, not %s", krewName, name, is, platform.SHA256))
		case len(labels) != 2 || labels["os"] != p.OS || labels["arch"] != p.Arch || platform.Bin != p.program():
			problems = append(problems, fmt.Errorf("%s: %s is for %v with %s", krewName, name, labels, platform.Bin))
		}
		delete(archives, name)
	}
	for name := range archives {
		problems = append(problems, fmt.Errorf("%s does not name %s", krewName, name))
	}
	return errors.Join(problems...)
}

func readYAML(path string, into any) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := yaml.UnmarshalStrict(text, into); err != nil {
		return fmt.Errorf("%s: %w", filepath.Base(path), err)
	}
	return nil
}
