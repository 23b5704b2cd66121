// SPDX-License-Identifier: Apache-2.0

package main

// This file answers: where do the files of a release come from, and are they what was built? An in-toto statement with the predicate
// SLSA provenance v1 says it. It is not signed here: whoever publishes a release signs it.

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	statementType = "https://in-toto.io/Statement/v1"
	predicateType = "https://slsa.dev/provenance/v1"
	buildType     = "https://spate.dev/release/v1"
	builderID     = "https://spate.dev/release/make"
)

// Statement is an in-toto statement.
type Statement struct {
	Type          string     `json:"_type"`
	Subject       []Resource `json:"subject"`
	PredicateType string     `json:"predicateType"`
	Predicate     Provenance `json:"predicate"`
}

// Resource is a file or package: an in-toto ResourceDescriptor.
type Resource struct {
	Name   string            `json:"name,omitempty"`
	URI    string            `json:"uri,omitempty"`
	Digest map[string]string `json:"digest,omitempty"`
}

// Provenance is the predicate.
type Provenance struct {
	BuildDefinition BuildDefinition `json:"buildDefinition"`
	RunDetails      RunDetails      `json:"runDetails"`
}

// BuildDefinition says what was built.
type BuildDefinition struct {
	BuildType            string            `json:"buildType"`
	ExternalParameters   map[string]string `json:"externalParameters"`
	InternalParameters   map[string]string `json:"internalParameters"`
	ResolvedDependencies []Resource        `json:"resolvedDependencies"`
}

// RunDetails says who built it, and when.
type RunDetails struct {
	Builder struct {
		ID string `json:"id"`
	} `json:"builder"`
	Metadata struct {
		InvocationID string    `json:"invocationId"`
		StartedOn    time.Time `json:"startedOn"`
		FinishedOn   time.Time `json:"finishedOn"`
	} `json:"metadata"`
}

// locks are files of the source that say what else is built from.
var locks = []string{"Dockerfile", "api/go.sum", "operator/go.mod", "operator/go.sum", "engine/Cargo.lock"}

// provenance returns the statement for files that were made of materials.
func (r *Release) provenance(subjects []Resource, materials []Component, now time.Time) (*Statement, error) {
	source := Resource{Name: "spate", Digest: map[string]string{"gitCommit": r.Commit}}
	if r.Repository != "" { // otherwise the commit alone identifies the source
		source.URI = r.Repository + "@" + r.Commit
	}
	dependencies := []Resource{source}
	for _, name := range locks {
		digest, err := digest(filepath.Join(r.Source, name))
		if err != nil {
			return nil, err
		}
		dependencies = append(dependencies, Resource{Name: name, Digest: map[string]string{"sha256": digest}})
	}
	for _, material := range materials {
		if material.Version == r.Version && strings.Contains(material.PURL, "spate") {
			continue // of the source
		}
		resource := Resource{Name: material.Name, URI: material.PURL}
		if material.dirHash != "" {
			resource.Digest = map[string]string{"dirHash": material.dirHash}
		}
		for _, hash := range material.Hashes {
			resource.Digest = map[string]string{"sha256": hash.Content}
		}
		dependencies = append(dependencies, resource)
	}
	internal := map[string]string{}
	for _, tool := range r.Tools {
		internal[tool.Name] = tool.Version
	}
	s := &Statement{
		Type: statementType, PredicateType: predicateType, Subject: subjects,
		Predicate: Provenance{BuildDefinition: BuildDefinition{
			BuildType:            buildType,
			ExternalParameters:   map[string]string{"source": source.URI, "version": r.Version, "command": r.Command},
			InternalParameters:   internal,
			ResolvedDependencies: dependencies,
		}},
	}
	s.Predicate.RunDetails.Builder.ID = builderID
	metadata := &s.Predicate.RunDetails.Metadata
	metadata.StartedOn, metadata.FinishedOn = r.Started.UTC(), now.UTC().Truncate(time.Second)
	id := sha256.Sum256([]byte(r.Commit + r.Started.UTC().Format(time.RFC3339)))
	metadata.InvocationID = hex.EncodeToString(id[:8])
	return s, nil
}

// wanted are components that the SBOMs of images must name, with a version.
var wanted = map[string][]string{
	"engine" + imageSuffix:   {"dpdk", "libc6", "rustls", "tokio"},
	"operator" + imageSuffix: {"dpdk", "libc6", "rustls", "sigs.k8s.io/controller-runtime", "std"},
}

// verify checks that the files of a release are those that its provenance and its checksums name, and that each image and program has an
// SBOM.
func verify(folder string) error {
	files, err := released(folder)
	if err != nil {
		return err
	}
	found, err := digests(folder, files)
	if err != nil {
		return err
	}
	var statement Statement
	if err := readJSON(filepath.Join(folder, provenanceName), &statement); err != nil {
		return err
	}
	if statement.Type != statementType || statement.PredicateType != predicateType {
		return fmt.Errorf("%s: %s with %s is not known here", provenanceName, statement.Type, statement.PredicateType)
	}
	sums, err := os.ReadFile(filepath.Join(folder, checksumsName))
	if err != nil {
		return err
	}
	var summed []Resource
	for line := range strings.Lines(string(sums)) {
		digest, name, ok := strings.Cut(strings.TrimSpace(line), "  ")
		if !ok {
			return fmt.Errorf("%s: %q", checksumsName, line)
		}
		summed = append(summed, Resource{Name: name, Digest: map[string]string{"sha256": digest}})
	}
	withProvenance, err := digests(folder, append(slices.Clone(files), provenanceName))
	if err != nil {
		return err
	}
	problems := []error{differ(provenanceName, statement.Subject, found), differ(checksumsName, summed, withProvenance)}
	for _, name := range files {
		if strings.HasSuffix(name, imageSuffix) || strings.HasPrefix(name, "kubectl-spate") && !strings.HasSuffix(name, sbomSuffix) {
			problems = append(problems, verifySBOM(folder, name))
		}
	}
	return errors.Join(problems...)
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

func verifySBOM(folder, name string) error {
	var bom BOM
	if err := readJSON(filepath.Join(folder, name+sbomSuffix), &bom); err != nil {
		return err
	}
	if bom.Format != "CycloneDX" || bom.Metadata.Component.Name != name {
		return fmt.Errorf("%s%s: it is a %s of %s", name, sbomSuffix, bom.Format, bom.Metadata.Component.Name)
	}
	names := wanted[name]
	if strings.HasPrefix(name, "kubectl-spate") {
		names = []string{"std", "k8s.io/client-go"}
	}
	var problems []error
	for _, want := range names {
		if !slices.ContainsFunc(bom.Components, func(c Component) bool { return c.Name == want && c.Version != "" && c.PURL != "" }) {
			problems = append(problems, fmt.Errorf("%s%s: no %s with its version", name, sbomSuffix, want))
		}
	}
	return errors.Join(problems...)
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
