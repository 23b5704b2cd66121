// SPDX-License-Identifier: Apache-2.0

package content

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

func TestBytesAreWrittenAsPeopleReadThem(t *testing.T) {
	long := strings.Repeat("x", MostInline+1)
	for name, c := range map[string]struct {
		bytes        string
		text, base64 bool
	}{
		"text":          {"GET / HTTP/1.1\r\n\tä\n", true, false},
		"a zero":        {"GET\x00", false, true},
		"no UTF-8":      {"\xff\xfe", false, true},
		"as much as is": {long[1:], true, false},
		"long":          {long, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := Writer{Name: "web"}
			got, err := w.Write([]byte(c.bytes))
			if err != nil || (got.Text == c.bytes) != c.text || bytes.Equal(got.Base64, []byte(c.bytes)) != c.base64 || (got.From == nil) != (c.text || c.base64) {
				t.Errorf("got %v %v", got, err)
			}
			if got.From == nil {
				if len(w.ConfigMaps) > 0 {
					t.Errorf("got %v", w.ConfigMaps)
				}
				return
			}
			if got.From.ConfigMapKeyRef.Name != "web-payloads-1" || w.ConfigMaps[0].Name != "web-payloads-1" || string(w.ConfigMaps[0].BinaryData[got.From.ConfigMapKeyRef.Key]) != c.bytes {
				t.Errorf("got %v in %v", got.From, w.ConfigMaps)
			}
		})
	}
	if _, err := new(Writer).Write(make([]byte, MostInMap+1)); err == nil || !strings.Contains(err.Error(), "at most 1000000 have room") {
		t.Errorf("got %v", err)
	}
}

func TestTemplatesOfManyContentsStaySmall(t *testing.T) {
	w := Writer{Name: "web"}
	write := func(text string) (inline int) {
		got, err := w.Write([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if got.From == nil {
			return len(got.Text)
		}
		for _, one := range w.ConfigMaps {
			if one.Name == got.From.ConfigMapKeyRef.Name && string(one.BinaryData[got.From.ConfigMapKeyRef.Key]) == text {
				return 0
			}
		}
		t.Fatalf("%v is not there", got.From)
		return 0
	}
	for range 2 { // what templates share is stored once
		w.Next()
		inline := 0
		for i := range 3000 {
			inline += write(fmt.Sprintf("%01000d", i))
		}
		if inline > MostTogether || inline < MostTogether-1000 {
			t.Errorf("%d bytes are in the template", inline)
		}
		if write("short") == 0 {
			t.Error("it is shorter than where it would be")
		}
	}
	stored := 0
	for _, one := range w.ConfigMaps {
		size := 0
		for _, piece := range one.BinaryData {
			size += len(piece)
		}
		if stored += size; size > mostShared {
			t.Errorf("%s has %d bytes", one.Name, size)
		}
	}
	if stored != 3_000_000-MostTogether/1000*1000 {
		t.Errorf("%d bytes are stored", stored)
	}
}
