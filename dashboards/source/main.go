// SPDX-License-Identifier: Apache-2.0

// The program source writes the Grafana dashboards (`make generate-dashboards`): each is a function of this package, made with Grafana's
// foundation SDK, and is checked in as the JSON that Grafana imports.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

// all are the dashboards by the names of their files.
var all = []struct {
	file string
	make func() *dashboard.DashboardBuilder
}{
	{"fleet", fleet},
	{"run", run},
	{"latency", latency},
	{"applications", applications},
	{"ports", ports},
	{"operator", operator},
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: source FOLDER  (writes a file of JSON for each dashboard)")
		os.Exit(2)
	}
	for _, d := range all {
		text, err := encoded(d.make())
		if err == nil {
			err = os.WriteFile(filepath.Join(os.Args[1], d.file+".json"), text, 0o644)
		}
		if err != nil {
			fmt.Fprintf(os.Stderr, "source: %s: %v\n", d.file, err)
			os.Exit(1)
		}
	}
}

// input is what Grafana asks for when a dashboard is imported. `${DS_PROMETHEUS}` is then replaced by the answer.
type input struct {
	Name        string `json:"name"`
	Label       string `json:"label"`
	Description string `json:"description"`
	Type        string `json:"type"`
	PluginID    string `json:"pluginId"`
	PluginName  string `json:"pluginName"`
}

// requirement is what a dashboard needs of Grafana.
type requirement struct {
	Type    string `json:"type"`
	ID      string `json:"id"`
	Name    string `json:"name"`
	Version string `json:"version"`
}

// file is a dashboard as Grafana exports it for others to import.
type file struct {
	Inputs   []input       `json:"__inputs"`
	Requires []requirement `json:"__requires"`
	dashboard.Dashboard
}

// encoded returns the JSON of a dashboard, with a number for each panel.
func encoded(builder *dashboard.DashboardBuilder) ([]byte, error) {
	built, err := builder.Build()
	if err != nil {
		return nil, err
	}
	number := uint32(0)
	for i := range built.Panels {
		number++
		if panel := built.Panels[i].Panel; panel != nil {
			id := number
			panel.Id = &id
		} else {
			built.Panels[i].RowPanel.Id = number
		}
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	err = encoder.Encode(file{
		Inputs: []input{{
			Name: prometheusInput, Label: "Prometheus", Description: "The Prometheus that scrapes the engines and the operator",
			Type: "datasource", PluginID: "prometheus", PluginName: "Prometheus",
		}},
		Requires: []requirement{
			{Type: "grafana", ID: "grafana", Name: "Grafana", Version: "11.0.0"},
			{Type: "datasource", ID: "prometheus", Name: "Prometheus", Version: "1.0.0"},
		},
		Dashboard: built,
	})
	return out.Bytes(), err
}
