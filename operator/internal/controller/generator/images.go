// SPDX-License-Identifier: Apache-2.0

package generator

// This file answers: which images may engine pods run? They run as root with access to networks and devices, so a user who may write
// generators must not choose the image freely.

import (
	"fmt"
	"slices"
	"strings"
)

// Images are the images that engine pods may run.
type Images struct {
	// Own is the default.
	Own string
	// others are complete references, or prefixes that end in *.
	others []string
}

// ParseImages parses a comma-separated list.
func ParseImages(own, list string) (Images, error) {
	images := Images{Own: own}
	for item := range strings.SplitSeq(list, ",") {
		item = strings.TrimSpace(item)
		switch begin := strings.TrimSuffix(item, "*"); {
		case item == "":
		case begin == "" || strings.Contains(begin, "*"):
			return images, fmt.Errorf("%q: must be an image reference, or a prefix of one followed by *", item)
		default:
			images.others = append(images.others, item)
		}
	}
	return images, nil
}

// allow reports whether engine pods may run an image.
func (i Images) allow(image string) bool {
	return image == i.Own || slices.ContainsFunc(i.others, func(item string) bool {
		begin, pattern := strings.CutSuffix(item, "*")
		return item == image || pattern && strings.HasPrefix(image, begin)
	})
}

// refusal is the message for an image that is not allowed, with the remedy.
func (i Images) refusal(image string) string {
	return fmt.Sprintf("spec.image: %q is not among the engine images that the operator allows: remove the field to run %s, "+
		"or have the image added to the operator's --engine-images (the chart's engine.allowedImages)", image, i.Own)
}
