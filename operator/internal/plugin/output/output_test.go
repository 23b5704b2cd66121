// SPDX-License-Identifier: Apache-2.0

package output

import (
	"bytes"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

type port struct {
	Name  string   `json:"name"`
	Down  bool     `json:"down,omitempty"`
	Sent  int64    `json:"sent"`
	Tags  []string `json:"tags,omitempty"`
	Delay *delay   `json:"delay,omitempty"`
}

type delay struct {
	P50 float64 `json:"p50"`
	At  *string `json:"at"`
}

// shown has two lists, of which the second has a field that the first has not.
func shown() Shown {
	ports := []port{{Name: "east", Sent: math.MaxInt64, Tags: []string{"a", "b"}}, {Name: "we,st", Down: true, Delay: &delay{P50: 1.5}}}
	runs := []Object{{{"name", "imix > 1"}, {"lost", []Object{{{"pod", "lab-0"}}}}}}
	return Shown{
		Document: map[string]any{"ports": ports, "runs": runs},
		Lists:    []List{{"port", ports}, {"run", runs}},
		Tables: func(w io.Writer, wide bool) error {
			_, err := io.WriteString(w, map[bool]string{false: "PORT\n", true: "PORT  SENT\n"}[wide])
			return err
		},
	}
}

func TestWhatIsShownHasEveryForm(t *testing.T) {
	for form, want := range map[string]string{
		"":      "PORT\n",
		"table": "PORT\n",
		"wide":  "PORT  SENT\n",
		"yaml":  "ports:\n- name: east\n  sent: 9223372036854775807\n  tags:\n  - a\n  - b\n- delay:\n    at: null\n    p50: 1.5\n  down: true\n  name: we,st\n  sent: 0\nruns:\n- lost:\n  - pod: lab-0\n  name: imix > 1\n",
		"csv": "row,name,sent,tags,down,delay.p50,delay.at,lost\n" +
			"port,east,9223372036854775807,a b,,,,\n" +
			"port,\"we,st\",0,,true,1.5,,\n" +
			"run,imix > 1,,,,,,\"[{\"\"pod\"\":\"\"lab-0\"\"}]\"\n",
	} {
		var flag Flag
		var out bytes.Buffer
		c := &cobra.Command{Use: "show", RunE: func(*cobra.Command, []string) error {
			if err := flag.Check(); err != nil {
				return err
			}
			return flag.Write(&out, shown())
		}}
		flag.Add(c)
		c.SetArgs([]string{})
		if form != "" {
			c.SetArgs([]string{"-o", form})
		}
		if err := c.Execute(); err != nil || out.String() != want {
			t.Errorf("%s: %v\n%s", form, err, out.String())
		}
	}
}

func TestJSONKeepsWhatIsWritten(t *testing.T) {
	var out bytes.Buffer
	if err := WriteDocument(&out, JSON, shown().Lists[1].Objects); err != nil || !strings.Contains(out.String(), `"name": "imix > 1",`) {
		t.Errorf("%v\n%s", err, out.String())
	}
}

func TestTheFirstRowsSettleTheColumns(t *testing.T) {
	var out bytes.Buffer
	rows := NewRows(&out)
	for _, some := range [][]port{nil, {{Name: "east"}}, {{Name: "west", Down: true}}} {
		if err := rows.Write(List{"port", some}); err != nil {
			t.Fatal(err)
		}
	}
	if out.String() != "name,sent\neast,0\nwest,0\n" {
		t.Errorf("%s", out.String())
	}
}

func TestAFormThatTheCommandDoesNotHaveIsRefused(t *testing.T) {
	var flag Flag
	c := &cobra.Command{Use: "show", SilenceErrors: true, SilenceUsage: true, RunE: func(*cobra.Command, []string) error { return flag.Check() }}
	flag.Add(c, "md", "junit")
	for form, want := range map[string]string{"md": "", "junit": "", "html": "-o html: must be one of table, wide, json, yaml, csv, md, junit"} {
		c.SetArgs([]string{"-o", form})
		if err := c.Execute(); (err == nil) != (want == "") || err != nil && err.Error() != want {
			t.Errorf("%s: %v", form, err)
		}
	}
	if usage := c.Flags().Lookup("output").Usage; usage != "table, wide (all columns), json, yaml, csv, md or junit" {
		t.Error(usage)
	}
}
