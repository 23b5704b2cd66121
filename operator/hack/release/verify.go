// SPDX-License-Identifier: Apache-2.0

package main

// This file answers: is a folder a release as it was built? Its files are those that its provenance and its checksums name, each kind of file is
// there, they fit to each other, each image and program has an SBOM, and who has the key signed it.

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// wanted are components that the SBOMs of images must name, with a version; wantedPlugin those of the plugin's programs.
var (
	wanted = map[string][]string{
		"engine" + imageSuffix:   {"dpdk", "libc6", "rustls", "tokio"},
		"operator" + imageSuffix: {"dpdk", "libc6", "rustls", "sigs.k8s.io/controller-runtime", "std"},
	}
	wantedPlugin = []string{"std", "k8s.io/client-go"}
)

// definitionsName is the API, for those who install its definitions themselves.
const definitionsName = "spate-crds.yaml"

// verify checks a release, and says whether it is signed.
func (r *Release) verify(out io.Writer) error {
	files, err := released(r.Folder)
	if err != nil {
		return err
	}
	found, err := digests(r.Folder, files)
	if err != nil {
		return err
	}
	var statement Statement
	if err := readJSON(filepath.Join(r.Folder, provenanceName), &statement); err != nil {
		return err
	}
	if statement.Type != statementType || statement.PredicateType != predicateType {
		return fmt.Errorf("%s: %s with %s is not known here", provenanceName, statement.Type, statement.PredicateType)
	}
	summed, err := readSums(filepath.Join(r.Folder, checksumsName))
	if err != nil {
		return err
	}
	withProvenance, err := digests(r.Folder, append(slices.Clone(files), provenanceName))
	if err != nil {
		return err
	}
	problems := []error{differ(provenanceName, statement.Subject, found), differ(checksumsName, summed, withProvenance)}
	parameters := statement.Predicate.BuildDefinition.ExternalParameters
	version := parameters["version"]
	for _, name := range []string{
		"engine" + imageSuffix, "operator" + imageSuffix, chartName, chartFile(version), definitionsName, installName, uninstallName, krewName, changelogName,
	} {
		if !slices.Contains(files, name) {
			problems = append(problems, fmt.Errorf("%s is missing", name))
		}
	}
	for _, name := range files {
		if p, ok := pluginPlatform(name, version); ok {
			problems = append(problems, verifyPlugin(r.Folder, name, p), verifySBOM(r.Folder, name, wantedPlugin))
		}
		if isImage(name) {
			problems = append(problems, verifySBOM(r.Folder, name, wanted[name]), verifyVersion(r.Folder, name, version))
		}
	}
	problems = append(problems, verifyKrew(r.Folder, version, found), verifyChart(r.Folder, version), verifyInstall(r.Folder, version, parameters["images"]))
	problems = append(problems, r.verifySignatures(out))
	return errors.Join(problems...)
}

// readSums returns the digests that a file of sha256sum lists.
func readSums(path string) ([]Resource, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var sums []Resource
	for line := range strings.Lines(string(text)) {
		digest, name, ok := strings.Cut(strings.TrimSpace(line), "  ")
		if !ok {
			return nil, fmt.Errorf("%s: %q", filepath.Base(path), line)
		}
		sums = append(sums, Resource{Name: name, Digest: map[string]string{"sha256": digest}})
	}
	return sums, nil
}

// differ compares the files that a list names with those there are.
func differ(list string, named, found []Resource) error {
	var problems []error
	is := map[string]string{}
	for _, file := range found {
		is[file.Name] = file.Digest["sha256"]
	}
	for _, file := range named {
		have, there := is[file.Name]
		switch {
		case !there:
			problems = append(problems, fmt.Errorf("%s: %s is missing", list, file.Name))
		case have != file.Digest["sha256"]:
			problems = append(problems, fmt.Errorf("%s: %s has the digest %s, not %s", list, file.Name, have, file.Digest["sha256"]))
		}
		delete(is, file.Name)
	}
	for name := range is {
		problems = append(problems, fmt.Errorf("%s does not name %s", list, name))
	}
	return errors.Join(problems...)
}

func verifySBOM(folder, name string, wanted []string) error {
	var bom BOM
	if err := readJSON(filepath.Join(folder, name+sbomSuffix), &bom); err != nil {
		return err
	}
	if bom.Format != "CycloneDX" || bom.Metadata.Component.Name != name {
		return fmt.Errorf("%s%s: it is a %s of %s", name, sbomSuffix, bom.Format, bom.Metadata.Component.Name)
	}
	var problems []error
	for _, want := range wanted {
		if !slices.ContainsFunc(bom.Components, func(c Component) bool { return c.Name == want && c.Version != "" && c.PURL != "" }) {
			problems = append(problems, fmt.Errorf("%s%s: no %s with its version", name, sbomSuffix, want))
		}
	}
	return errors.Join(problems...)
}

// verifyVersion refuses an image whose programs would report another version.
func verifyVersion(folder, name, version string) error {
	l, err := openLayout(filepath.Join(folder, name))
	if err != nil {
		return err
	}
	defer l.Close()
	var config ocispec.Image
	if err := decode(l.blobs, blobName(l.manifest.Config.Digest), &config); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if !slices.Contains(config.Config.Env, versionVariable+version) {
		return fmt.Errorf("%s: its environment has no %s%s, by which its programs know their version", name, versionVariable, version)
	}
	return nil
}

func readJSON(path string, into any) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("%s: %w", filepath.Base(path), err)
	}
	return nil
}
