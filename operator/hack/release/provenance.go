// SPDX-License-Identifier: Apache-2.0

package main

// This file answers: where do the files of a release come from? An in-toto statement with the predicate SLSA provenance v1 says it. It is the same
// for the same commit, parameters and tools, so it says nothing of when it was built, nor of the one time that it was.

import (
	"path/filepath"
	"strings"
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

// RunDetails says who built it. SLSA's metadata of the run, with its times, is omitted: it would differ each time.
type RunDetails struct {
	Builder struct {
		ID string `json:"id"`
	} `json:"builder"`
}

// locks are files of the source that say what else is built from.
var locks = []string{"Dockerfile", "api/go.sum", "operator/go.mod", "operator/go.sum", "engine/Cargo.lock"}

// provenance returns the statement for files that were made of materials.
func (r *Release) provenance(subjects []Resource, materials []Component) (*Statement, error) {
	source := Resource{Name: "spate", Digest: map[string]string{"gitCommit": r.Commit}}
	if r.Repository != "" { // otherwise the commit alone identifies the source
		source.URI = r.Repository + "@" + r.Commit
	}
	dependencies := []Resource{source}
	for _, name := range locks {
		digest, err := digestOf(filepath.Join(r.Source, name))
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
			ExternalParameters:   map[string]string{"source": source.URI, "version": r.Version, "images": r.Images, "downloadURL": r.DownloadURL, "command": r.Command},
			InternalParameters:   internal,
			ResolvedDependencies: dependencies,
		}},
	}
	s.Predicate.RunDetails.Builder.ID = builderID
	return s, nil
}
