// SPDX-License-Identifier: Apache-2.0

package content

import (
	"bytes"
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
			got, configMap, err := Of([]byte(c.bytes), "web-1")
			if err != nil || (got.Text == c.bytes) != c.text || bytes.Equal(got.Base64, []byte(c.bytes)) != c.base64 || (got.From == nil) != (c.text || c.base64) {
				t.Errorf("got %v %v", got, err)
			}
			if got.From == nil {
				if configMap != nil {
					t.Errorf("got %v", configMap)
				}
				return
			}
			if got.From.ConfigMapName != "web-1" || configMap.Name != "web-1" || string(configMap.BinaryData[got.From.Key]) != c.bytes {
				t.Errorf("got %v in %v", got.From, configMap)
			}
		})
	}
	if _, _, err := Of(make([]byte, MostInMap+1), "web"); err == nil || !strings.Contains(err.Error(), "at most 1000000 have room") {
		t.Errorf("got %v", err)
	}
}
