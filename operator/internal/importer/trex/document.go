// SPDX-License-Identifier: Apache-2.0

// How is TRex's JSON read so that no key goes unnoticed?

package trex

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"regexp"
	"slices"
	"strings"
)

// problems are the reasons why a document cannot be imported, each with the stream's number and the JSON path.
type problems struct {
	// stream is the stream being read, such as `stream 3 (S2)`; empty outside of streams.
	stream string
	errs   []error
}

func (p *problems) add(path, format string, args ...any) {
	message := fmt.Sprintf("%s: %s", path, fmt.Sprintf(format, args...))
	if p.stream != "" {
		message = p.stream + ": " + message
	}
	p.errs = append(p.errs, errors.New(message))
}

// object is a JSON object. Every key must be read: done refuses the others.
type object struct {
	problems *problems
	path     string
	fields   map[string]json.RawMessage
	// broken objects were reported already; they return zero values.
	broken bool
}

func (p *problems) object(raw json.RawMessage, path string) *object {
	o := &object{problems: p, path: path}
	if err := json.Unmarshal(raw, &o.fields); err != nil || o.fields == nil {
		p.add(path, "must be an object, not %s", short(raw))
		o.broken = true
	}
	return o
}

// short returns the start of a value, for messages.
func short(raw json.RawMessage) string {
	const most = 40
	text := string(bytes.TrimSpace(raw))
	if len(text) > most {
		text = text[:most] + "..."
	}
	return text
}

func (o *object) at(key string) string { return o.path + "." + key }

func (o *object) wrong(key, format string, args ...any) {
	if !o.broken {
		o.problems.add(o.at(key), format, args...)
	}
}

// take returns a key's value and marks the key as read; null counts as absent.
func (o *object) take(key string) (json.RawMessage, bool) {
	raw, found := o.fields[key]
	delete(o.fields, key)
	return raw, found && !isNull(raw)
}

func isNull(raw json.RawMessage) bool { return string(bytes.TrimSpace(raw)) == "null" }

func (o *object) has(key string) bool {
	raw, found := o.fields[key]
	return found && !isNull(raw)
}

// need returns a key's value, or reports that it is missing.
func (o *object) need(key string) (json.RawMessage, bool) {
	raw, found := o.take(key)
	if !found {
		o.wrong(key, "is missing")
	}
	return raw, found
}

// done refuses the keys that were not read.
func (o *object) done() {
	for _, key := range slices.Sorted(maps.Keys(o.fields)) {
		o.wrong(key, "is not known to the import, and would be ignored; remove it")
	}
}

func (o *object) object(key string) *object {
	raw, found := o.need(key)
	if !found {
		return &object{problems: o.problems, path: o.at(key), broken: true}
	}
	return o.problems.object(raw, o.at(key))
}

func (o *object) list(key string) []json.RawMessage {
	raw, found := o.need(key)
	var all []json.RawMessage
	if found && json.Unmarshal(raw, &all) != nil {
		o.wrong(key, "must be a list, not %s", short(raw))
	}
	return all
}

func (o *object) text(key string) string {
	raw, found := o.need(key)
	var text string
	if found && json.Unmarshal(raw, &text) != nil {
		o.wrong(key, "must be a string, not %s", short(raw))
	}
	return text
}

// choice reads one of several texts.
func (o *object) choice(key string, from ...string) string {
	raw, found := o.need(key)
	var text string
	if found && (json.Unmarshal(raw, &text) != nil || !slices.Contains(from, text)) {
		o.wrong(key, "%s is not one of %s", short(raw), strings.Join(from, ", "))
	}
	return text
}

func (o *object) truth(key string) bool {
	raw, found := o.need(key)
	var value bool
	if found && json.Unmarshal(raw, &value) != nil {
		o.wrong(key, "must be true or false, not %s", short(raw))
	}
	return value
}

func (o *object) truthOr(key string, absent bool) bool {
	if !o.has(key) {
		delete(o.fields, key)
		return absent
	}
	return o.truth(key)
}

// numeral bounds exponents, because exact arithmetic would expand them.
var numeral = regexp.MustCompile(`^-?[0-9]{1,64}([.][0-9]{1,64})?([eE][-+]?[0-9]{1,2})?$`)

func (o *object) number(key string) (*big.Rat, bool) {
	raw, found := o.need(key)
	if !found {
		return nil, false
	}
	text := string(bytes.TrimSpace(raw))
	value, ok := new(big.Rat), numeral.MatchString(text)
	if ok {
		value, ok = value.SetString(text)
	}
	if !ok {
		o.wrong(key, "must be a number, not %s", short(raw))
	}
	return value, ok
}

// decimal reads a number that is not negative, with up to 20 decimal places.
func (o *object) decimal(key string) *big.Rat {
	value, ok := o.number(key)
	if !ok {
		return new(big.Rat)
	}
	if value.Sign() < 0 {
		o.wrong(key, "must not be negative")
		return new(big.Rat)
	}
	return value
}

// whole reads an integer within bounds.
func (o *object) whole(key string, least, most uint64) uint64 {
	value, ok := o.number(key)
	if !ok {
		return least
	}
	if !value.IsInt() || !value.Num().IsUint64() || value.Num().Uint64() < least || value.Num().Uint64() > most {
		o.wrong(key, "%s is not a whole number from %d to %d", value.RatString(), least, most)
		return least
	}
	return value.Num().Uint64()
}

func (o *object) wholeOr(key string, least, most, absent uint64) uint64 {
	if !o.has(key) {
		delete(o.fields, key)
		return absent
	}
	return o.whole(key, least, most)
}

// signed reads an integer within bounds.
func (o *object) signed(key string, least, most int64) int64 {
	value, ok := o.number(key)
	if !ok {
		return max(least, 0)
	}
	if !value.IsInt() || !value.Num().IsInt64() || value.Num().Int64() < least || value.Num().Int64() > most {
		o.wrong(key, "%s is not a whole number from %d to %d", value.RatString(), least, most)
		return max(least, 0)
	}
	return value.Num().Int64()
}

// label reads a name or a number as text; empty when absent. TRex identifies streams by either.
func (o *object) label(key string) string {
	raw, found := o.take(key)
	if !found {
		return ""
	}
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	if number := string(bytes.TrimSpace(raw)); numeral.MatchString(number) {
		return number
	}
	o.wrong(key, "must be a string or a number, not %s", short(raw))
	return ""
}

// flatten moves the keys of an object in this one to this one: files saved by TRex's client have them nested.
func (o *object) flatten(key string) {
	if !o.has(key) {
		return
	}
	inner := o.object(key)
	for name, value := range inner.fields {
		if _, twice := o.fields[name]; twice {
			inner.wrong(name, "is beside %q too", key)
		}
		o.fields[name] = value
	}
}
