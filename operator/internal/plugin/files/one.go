// SPDX-License-Identifier: Apache-2.0

package files

// This file answers: which is the one file that a command reads?

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
)

// One is the file of a command that reads one: its argument, or that of -f.
type One struct{ filename string }

// Add adds the flag, with kubectl's name.
func (o *One) Add(c *cobra.Command) {
	c.Flags().StringVarP(&o.filename, "filename", "f", "", "file or URL to read, like FILE; - is standard input")
}

// Args accepts one file: an argument, or that of the flag.
func (o *One) Args(_ *cobra.Command, args []string) error {
	switch {
	case len(args) == 0 && o.filename == "":
		return errors.New("no file: name a FILE, or - for standard input")
	case len(args) > 1 || len(args) == 1 && o.filename != "":
		return fmt.Errorf("one file is read at a time: name one, as FILE or by -f, not also %s", args[len(args)-1])
	}
	return nil
}

// Name returns the name of the file.
func (o *One) Name(args []string) string {
	if o.filename != "" {
		return o.filename
	}
	return args[0]
}
