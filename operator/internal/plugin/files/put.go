// SPDX-License-Identifier: Apache-2.0

package files

// This file answers: where does a command write what it was asked for?

import (
	"io"
	"os"
)

// Put writes a text to a file, or to standard output if there is none, or if it is `-`.
func Put(standard io.Writer, file string, text []byte) error {
	if file == "" || file == "-" {
		_, err := standard.Write(text)
		return err
	}
	return os.WriteFile(file, text, 0o644)
}
