// SPDX-License-Identifier: Apache-2.0

package events

// This file answers: how are events written? The columns are those of kubectl.

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/yaml"

	"spate.dev/operator/internal/plugin/result"
)

// printer writes events.
type printer struct {
	to io.Writer
	// output is json, yaml, wide, or empty for a table.
	output string
	// namespaces is true where there may be several.
	namespaces bool
	now        func() time.Time

	// widths of the columns so far; nil before the headings.
	widths  []int
	printed seen
}

func newPrinter(to io.Writer, output string, namespaces bool) *printer {
	return &printer{to: to, output: output, namespaces: namespaces, now: time.Now, printed: seen{}}
}

// all writes a list that nothing follows.
func (p *printer) all(list *corev1.EventList) error {
	switch {
	case p.output != "json" && p.output != "yaml" && len(list.Items) == 0:
		_, err := fmt.Fprintln(p.to, "No events.")
		return err
	case p.output != "json" && p.output != "yaml":
		return p.rows(list.Items)
	}
	list.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "EventList"}
	if list.Items == nil {
		list.Items = []corev1.Event{}
	}
	for i := range list.Items {
		typed(&list.Items[i])
	}
	return result.WriteDocument(p.to, p.output, list)
}

// typed completes an event as a document.
func typed(e *corev1.Event) {
	e.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Event"}
	e.ManagedFields = nil
}

// follow writes events that others may follow: for programs a document for each. Those that were written are omitted.
func (p *printer) follow(all []corev1.Event) error {
	var fresh []corev1.Event
	for i := range all {
		if p.printed.isNew(&all[i]) {
			fresh = append(fresh, all[i])
		}
	}
	if p.output != "json" && p.output != "yaml" {
		return p.rows(fresh)
	}
	for i := range fresh {
		typed(&fresh[i])
		text, err := json.Marshal(&fresh[i])
		if err == nil && p.output == "yaml" {
			text, err = yaml.JSONToYAML(text)
			text = append([]byte("---\n"), text...)
		} else {
			text = append(text, '\n')
		}
		if err == nil {
			_, err = p.to.Write(text)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// rows writes rows of the table, and the headings before the first.
func (p *printer) rows(all []corev1.Event) error {
	if len(all) == 0 {
		return nil
	}
	var rows [][]string
	if p.widths == nil {
		headings := []string{"LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"}
		if p.output == "wide" {
			headings = []string{"LAST SEEN", "TYPE", "REASON", "OBJECT", "SOURCE", "MESSAGE", "FIRST SEEN", "COUNT", "NAME"}
		}
		if p.namespaces {
			headings = append([]string{"NAMESPACE"}, headings...)
		}
		rows, p.widths = append(rows, headings), make([]int, len(headings))
	}
	for i := range all {
		rows = append(rows, p.row(&all[i]))
	}
	for _, row := range rows {
		for i, cell := range row {
			p.widths[i] = max(p.widths[i], utf8.RuneCountInString(cell))
		}
	}
	for _, row := range rows {
		var line strings.Builder
		for i, cell := range row {
			line.WriteString(cell)
			if i < len(row)-1 {
				line.WriteString(strings.Repeat(" ", p.widths[i]-utf8.RuneCountInString(cell)+3))
			}
		}
		if _, err := fmt.Fprintln(p.to, line.String()); err != nil {
			return err
		}
	}
	return nil
}

func (p *printer) row(e *corev1.Event) []string {
	ago := func(at time.Time) string { return duration.HumanDuration(max(p.now().Sub(at), 0)) }
	last := ago(lastSeen(e))
	if count := occurrences(e); count > 1 {
		last = fmt.Sprintf("%s (x%d over %s)", last, count, ago(firstSeen(e)))
	}
	message := strings.Join(strings.Fields(e.Message), " ")
	row := []string{last, e.Type, e.Reason, e.InvolvedObject.Kind + "/" + e.InvolvedObject.Name, message}
	if p.output == "wide" {
		source := cmp.Or(e.Source.Component, e.ReportingController)
		if host := cmp.Or(e.Source.Host, e.ReportingInstance); host != "" && source != "" {
			source += ", " + host
		}
		row = []string{last, e.Type, e.Reason, e.InvolvedObject.Kind + "/" + e.InvolvedObject.Name, source, message, ago(firstSeen(e)), strconv.Itoa(int(occurrences(e))), e.Name}
	}
	if p.namespaces {
		row = append([]string{e.Namespace}, row...)
	}
	return row
}
