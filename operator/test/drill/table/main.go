// SPDX-License-Identifier: Apache-2.0

// table prints the rows that drills have written as one table, and fails if one missed its promise or there is none. With --document it puts them
// into the table of that file instead.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"spate.dev/operator/test/drill"
)

func main() {
	document := flag.String("document", "", "the file with the table")
	flag.Parse()
	if err := run(*document, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "drills:", err)
		os.Exit(1)
	}
}

func run(document string, files []string) error {
	var rows []drill.Row
	for _, name := range files {
		read, err := read(name)
		if err != nil {
			return err
		}
		rows = append(rows, read...)
	}
	if len(rows) == 0 {
		return errors.New("no drill was run")
	}
	if document == "" {
		fmt.Print(drill.Table(rows))
	}
	missed := 0
	for _, r := range rows {
		if r.Missed != "" {
			missed++
		}
	}
	if missed > 0 {
		return fmt.Errorf("%d of %d missed their promise", missed, len(rows))
	}
	if document == "" {
		return nil
	}
	text, err := os.ReadFile(document)
	if err != nil {
		return err
	}
	renewed, err := drill.Renew(string(text), rows)
	if err != nil {
		return fmt.Errorf("%s: %w", document, err)
	}
	return os.WriteFile(document, []byte(renewed), 0o644)
}

// read gives the rows of a file; where no drill was run there is none.
func read(name string) ([]drill.Row, error) {
	file, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	defer file.Close()
	var rows []drill.Row
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		var row drill.Row
		if err := json.Unmarshal(lines.Bytes(), &row); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		// A drill that was run again has the row of its last run.
		if at := slices.IndexFunc(rows, func(r drill.Row) bool { return r.Fault == row.Fault }); at >= 0 {
			rows[at] = row
			continue
		}
		rows = append(rows, row)
	}
	return rows, lines.Err()
}
