// SPDX-License-Identifier: Apache-2.0

package output

// This file answers: how are lists of a document rows of CSV?

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"io"
	"slices"
	"strings"
)

// List is a list of objects.
type List struct {
	// Name is in the first column, `row`, if a document has several lists.
	Name string
	// Objects is a slice whose elements are objects in JSON.
	Objects any
}

// Rows writes CSV (RFC 4180). Columns are the fields that at least one object has, by their names in JSON; those of an object within an object have its name and a
// dot before theirs. A list of numbers or texts is joined by spaces, one of objects is JSON. Where an object has no such field the cell is empty.
type Rows struct {
	to      *csv.Writer
	columns []string
}

// NewRows returns a writer of CSV.
func NewRows(w io.Writer) *Rows { return &Rows{to: csv.NewWriter(w)} }

// rowColumn is the name of the column with the list's name.
const rowColumn = "row"

// Write writes the objects of lists. The first call settles the columns, and writes their names; without objects there are none.
func (r *Rows) Write(lists ...List) error {
	var all []*fields
	for _, list := range lists {
		text, err := plain(list.Objects)
		if err != nil {
			return err
		}
		var objects []json.RawMessage
		if err := json.Unmarshal(text, &objects); err != nil {
			return err
		}
		for _, object := range objects {
			f := &fields{values: map[string]string{}}
			if len(lists) > 1 {
				f.set(rowColumn, list.Name)
			}
			if err := f.read("", object); err != nil {
				return err
			}
			all = append(all, f)
		}
	}
	if len(all) == 0 {
		return nil
	}
	if r.columns == nil {
		for _, f := range all {
			for _, name := range f.names {
				if !slices.Contains(r.columns, name) {
					r.columns = append(r.columns, name)
				}
			}
		}
		_ = r.to.Write(r.columns) // errors are those of Flush
	}
	for _, f := range all {
		cells := make([]string, 0, len(r.columns))
		for _, name := range r.columns {
			cells = append(cells, f.values[name])
		}
		_ = r.to.Write(cells)
	}
	r.to.Flush()
	return r.to.Error()
}

// fields are those of an object, in their order.
type fields struct {
	names  []string
	values map[string]string
}

func (f *fields) set(name, value string) {
	f.names = append(f.names, name)
	f.values[name] = value
}

// read takes in a value of the path.
func (f *fields) read(path string, value json.RawMessage) error {
	switch value[0] {
	case '{':
		return f.readObject(path, value)
	case '[':
		text, err := joined(value)
		f.set(path, text)
		return err
	default:
		text, err := scalar(value)
		f.set(path, text)
		return err
	}
}

func (f *fields) readObject(path string, object json.RawMessage) error {
	d := json.NewDecoder(bytes.NewReader(object))
	if _, err := d.Token(); err != nil {
		return err
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return err
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return err
		}
		if err := f.read(strings.TrimPrefix(path+"."+name.(string), "."), value); err != nil {
			return err
		}
	}
	return nil
}

// joined is a list in one cell.
func joined(list json.RawMessage) (string, error) {
	var all []json.RawMessage
	if err := json.Unmarshal(list, &all); err != nil {
		return "", err
	}
	texts := make([]string, 0, len(all))
	for _, value := range all {
		if value[0] == '{' || value[0] == '[' {
			return string(list), nil
		}
		text, err := scalar(value)
		if err != nil {
			return "", err
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, " "), nil
}

// scalar is a text without its quotes, a number or a truth value as it is, and nothing for null.
func scalar(value json.RawMessage) (text string, err error) {
	switch value[0] {
	case '"':
		err = json.Unmarshal(value, &text)
	case 'n':
	default:
		text = string(value)
	}
	return text, err
}
