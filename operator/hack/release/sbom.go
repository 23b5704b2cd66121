// SPDX-License-Identifier: Apache-2.0

package main

// This file answers: how is written down what a file is made of? As CycloneDX 1.6 (ECMA-424).

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"slices"
	"time"
)

// Component is a library or package, by its package URL (purl).
type Component struct {
	Type    string `json:"type"`
	BOMRef  string `json:"bom-ref"`
	Name    string `json:"name"`
	Version string `json:"version,omitempty"`
	PURL    string `json:"purl,omitempty"`
	// Hashes are the digests of crates, as crates.io and Cargo.lock have them.
	Hashes []Hash `json:"hashes,omitempty"`
	// dirHash is a Go module's, as go.sum has it: CycloneDX has no name for that.
	dirHash string
}

// Hash is a digest by its algorithm.
type Hash struct {
	Algorithm string `json:"alg"`
	Content   string `json:"content"`
}

// BOM is an SBOM.
type BOM struct {
	Format       string      `json:"bomFormat"`
	SpecVersion  string      `json:"specVersion"`
	SerialNumber string      `json:"serialNumber"`
	Version      int         `json:"version"`
	Metadata     Metadata    `json:"metadata"`
	Components   []Component `json:"components"`
}

// Metadata says what an SBOM is of. The time is that of the commit.
type Metadata struct {
	Timestamp time.Time `json:"timestamp"`
	Component Component `json:"component"`
}

// sbom returns the SBOM of a file. The same parts make the same serial number.
func sbom(name, version string, at time.Time, parts []Component) BOM {
	parts = unique(parts)
	hash := sha256.New()
	fmt.Fprintln(hash, name, version)
	for _, part := range parts {
		fmt.Fprintln(hash, part.BOMRef)
	}
	id := hash.Sum(nil)[:16]
	id[6], id[8] = id[6]&0x0f|0x80, id[8]&0x3f|0x80 // a UUID of version 8 (RFC 9562)
	return BOM{
		Format: "CycloneDX", SpecVersion: "1.6", Version: 1,
		SerialNumber: fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:]),
		Metadata:     Metadata{Timestamp: at.UTC(), Component: Component{Type: "application", BOMRef: name, Name: name, Version: version}},
		Components:   parts,
	}
}

// library returns a component of a package URL, by which it is also referred to.
func library(name, version, purl string) Component {
	return Component{Type: "library", BOMRef: purl, Name: name, Version: version, PURL: purl}
}

// unique returns components in order, each once.
func unique(parts []Component) []Component {
	parts = slices.Clone(parts)
	slices.SortFunc(parts, func(a, b Component) int { return cmp.Compare(a.BOMRef, b.BOMRef) })
	return slices.CompactFunc(parts, func(a, b Component) bool { return a.BOMRef == b.BOMRef })
}
