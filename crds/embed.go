// SPDX-License-Identifier: Apache-2.0

// Package crds has the generated CustomResourceDefinitions of Spate's kinds.
package crds

import "embed"

// Files are the CustomResourceDefinitions, a YAML file each.
//
//go:embed *.yaml
var Files embed.FS
