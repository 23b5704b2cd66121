// SPDX-License-Identifier: Apache-2.0

package output

import (
	"bytes"
	"encoding/json"
)

// Object is an object whose fields are in their order, in JSON and as columns of CSV. A map's are in that of their names.
type Object []Field

// Field of an object.
type Field struct {
	Name  string
	Value any
}

// MarshalJSON writes the fields in their order.
func (o Object) MarshalJSON() ([]byte, error) {
	var text bytes.Buffer
	text.WriteByte('{')
	for i, field := range o {
		if i > 0 {
			text.WriteByte(',')
		}
		name, err := plain(field.Name)
		if err != nil {
			return nil, err
		}
		value, err := plain(field.Value)
		if err != nil {
			return nil, err
		}
		text.Write(name)
		text.WriteByte(':')
		text.Write(value)
	}
	text.WriteByte('}')
	return text.Bytes(), nil
}

// plain is a value as JSON in which <, > and & are as they are.
func plain(value any) ([]byte, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return nil, err
	}
	return bytes.TrimRight(text.Bytes(), "\n"), nil
}
