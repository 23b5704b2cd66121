// SPDX-License-Identifier: Apache-2.0

// What would be right, where an API server only says what is wrong?

package definition

import (
	"maps"
	"slices"
	"strings"

	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const (
	unknownField = "unknown field"
	// mostPlaces is how many fields of one name are listed when a field stands in the wrong place.
	mostPlaces = 3
	// deepest is how deep fields are looked for in a kind, in names of a path.
	deepest = 8
	// mostEdits is how many letters of a name may be wrong, missing or too many for another name to be meant.
	mostEdits = 2
)

// remedied adds to faults what would be right, where their messages do not say it.
func (d *Definition) remedied(faults []Fault) []Fault {
	for i := range faults {
		faults[i].Remedy = d.remedy(faults[i])
	}
	return faults
}

// remedy is what would be right; empty where the message says it, or it is not known.
func (d *Definition) remedy(fault Fault) string {
	if fault.Message == unknownField {
		return d.instead(fault.Field)
	}
	if strings.HasPrefix(fault.Message, field.ErrorTypeDuplicate.String()) {
		return "give one of the items another name, or leave it out"
	}
	at := d.at(fault.Field)
	if strings.HasPrefix(fault.Message, field.ErrorTypeTooMany.String()) && at != nil && len(at.Properties) > 0 {
		return "only one of its fields is set: write the other as an item of its own"
	}
	_, wanted, typed := strings.Cut(fault.Message, " in body must be of type ")
	if !typed {
		return ""
	}
	wanted, _, _ = strings.Cut(wanted, ":")
	switch {
	case wanted == "string" && at != nil && len(at.XValidations) > 0:
		return form(at)
	case wanted == "string":
		return "write it in quotes"
	case wanted == "integer":
		return "write a whole number, without quotes or a unit"
	case wanted == "boolean":
		return "write true or false, without quotes"
	case wanted == "array":
		return "write a list: `- ` before each item, or all of them in brackets"
	case wanted == "object" && at != nil && len(at.Properties) > 0:
		return "it has fields of its own: " + listed(at)
	}
	return ""
}

// form is what the rules of a text say of how it is written: the one with an example, or else the first.
func form(of *structural.Structural) string {
	for _, rule := range of.XValidations {
		if strings.Contains(rule.Message, " such as ") {
			return rule.Message
		}
	}
	return of.XValidations[0].Message
}

// instead is what was probably meant by a field that does not exist.
func (d *Definition) instead(path string) string {
	parent, name := "", path
	if dot := strings.LastIndexByte(path, '.'); dot >= 0 {
		parent, name = path[:dot], path[dot+1:]
	}
	within := d.at(parent)
	if within == nil || len(within.Properties) == 0 {
		return ""
	}
	if near := nearest(name, within); near != "" {
		return "did you mean " + near + "?"
	}
	if places := d.places(name); len(places) > 0 && len(places) <= mostPlaces {
		return "there is " + strings.Join(places, ", ")
	}
	return "the fields here are " + listed(within)
}

// at is the schema of a field by its path, with or without the indices of lists; nil where there is none. The empty path is the object.
func (d *Definition) at(path string) *structural.Structural {
	at := d.fields
	if path == "" {
		return at
	}
	for name := range strings.SplitSeq(path, ".") {
		name, _, _ = strings.Cut(name, "[")
		next, found := at.Properties[name]
		if !found {
			return nil
		}
		at = &next
		if at.Items != nil {
			at = at.Items
		}
	}
	return at
}

// places are the paths of all fields of a name in the spec, the shortest first.
func (d *Definition) places(name string) (found []string) {
	var look func(at *structural.Structural, path string, depth int)
	look = func(at *structural.Structural, path string, depth int) {
		if at.Items != nil {
			at = at.Items
		}
		for _, child := range slices.Sorted(maps.Keys(at.Properties)) {
			below := at.Properties[child]
			if child == name {
				found = append(found, path+"."+child)
			}
			if depth < deepest {
				look(&below, path+"."+child, depth+1)
			}
		}
	}
	spec := d.fields.Properties["spec"]
	look(&spec, "spec", 1)
	slices.SortStableFunc(found, func(a, b string) int { return strings.Count(a, ".") - strings.Count(b, ".") })
	return found
}

// nearest is the field that differs least from a name, in at most mostEdits letters and fewer than half of them; upper and lower case do not count.
func nearest(name string, within *structural.Structural) (near string) {
	least := mostEdits + 1
	for _, known := range slices.Sorted(maps.Keys(within.Properties)) {
		if edits := distance(strings.ToLower(name), strings.ToLower(known)); edits < least && 2*edits < len(known) {
			near, least = known, edits
		}
	}
	return near
}

// distance is how many letters must be inserted, removed or replaced to make one name of another (Levenshtein).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before := row[0] // of the row above, one to the left
		row[0] = i + 1
		for j := range len(b) {
			replaced := before
			if a[i] != b[j] {
				replaced++
			}
			before = row[j+1]
			row[j+1] = min(replaced, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

// listed are the names of an object's fields.
func listed(of *structural.Structural) string {
	return strings.Join(slices.Sorted(maps.Keys(of.Properties)), ", ")
}
