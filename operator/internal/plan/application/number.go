// SPDX-License-Identifier: Apache-2.0

// Which number has a part of a plan that templates share?

package application

import "google.golang.org/protobuf/proto"

// Number returns a number that is the same for the same key.
func Number[T proto.Message](known map[string]uint32, all *[]T, one T, key string) uint32 {
	if at, found := known[key]; found {
		return at
	}
	at := uint32(len(*all))
	known[key], *all = at, append(*all, one)
	return at
}

// KeyOf returns the same key for equal messages.
func KeyOf(message proto.Message) string {
	bytes, err := proto.MarshalOptions{Deterministic: true}.Marshal(message)
	if err != nil {
		panic(err) // only text that is not UTF-8 fails, and these messages have none
	}
	return string(bytes)
}
