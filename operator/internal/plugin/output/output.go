// SPDX-License-Identifier: Apache-2.0

// Package output answers: in which form does a command write what it shows? -o has the same values for all of them.
package output

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"
)

// The forms that every command has which shows something.
const (
	Table = "table"
	Wide  = "wide"
	JSON  = "json"
	YAML  = "yaml"
	CSV   = "csv"
)

// forms in the order of the help.
var forms = []string{Table, Wide, JSON, YAML, CSV}

// Flag is the flag -o of a command.
type Flag struct {
	form string
	// known are the forms that the command has.
	known []string
}

// Add adds the flag to a command. more are forms that this command has besides.
func (f *Flag) Add(c *cobra.Command, more ...string) {
	f.known = slices.Concat(forms, more)
	last := len(f.known) - 1
	usage := strings.Join(f.known[:last], ", ") + " or " + f.known[last]
	c.Flags().StringVarP(&f.form, "output", "o", Table, strings.Replace(usage, Wide, Wide+" (all columns)", 1))
	_ = c.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(slices.Clone(f.known), cobra.ShellCompDirectiveNoFileComp)) // fails for a flag that does not exist only
}

// Check returns an error unless the form is one that the command has.
func (f *Flag) Check() error {
	if !slices.Contains(f.known, f.form) {
		return fmt.Errorf("-o %s: must be one of %s", f.form, strings.Join(f.known, ", "))
	}
	return nil
}

// Form is the one that was chosen.
func (f *Flag) Form() string { return f.form }

// Choose chooses a form instead of the flag.
func (f *Flag) Choose(form string) { f.form = form }

// IsTable reports whether people are written for, not programs.
func (f *Flag) IsTable() bool { return f.form == "" || f.form == Table || f.form == Wide }

// Shown is what a command shows.
type Shown struct {
	// Document is for programs, as JSON or YAML.
	Document any
	// Lists are the lists of the document whose objects are rows of CSV.
	Lists []List
	// Tables writes it for people; wide with all columns.
	Tables func(w io.Writer, wide bool) error
}

// Write writes what is shown in the form that was chosen.
func (f *Flag) Write(w io.Writer, s Shown) error {
	switch f.form {
	case JSON, YAML:
		return WriteDocument(w, f.form, s.Document)
	case CSV:
		return NewRows(w).Write(s.Lists...)
	}
	return s.Tables(w, f.form == Wide)
}

// WriteDocument writes a value as JSON or YAML.
func WriteDocument(w io.Writer, form string, value any) error {
	if form == YAML {
		text, err := yaml.Marshal(value)
		if err != nil {
			return err
		}
		_, err = w.Write(text)
		return err
	}
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(value)
}
