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

	"spate.dev/operator/internal/plugin/output"
)

// printer writes events.
type printer struct {
	to   io.Writer
	form *output.Flag
	// namespaces is true where there may be several.
	namespaces bool
	now        func() time.Time

	// widths of the columns so far; nil before the headings.
	widths  []int
	csv     *output.Rows
	printed seen
}

func newPrinter(to io.Writer, form *output.Flag, namespaces bool) *printer {
	return &printer{to: to, form: form, namespaces: namespaces, now: time.Now, csv: output.NewRows(to), printed: seen{}}
}

// all writes a list that nothing follows.
func (p *printer) all(list *corev1.EventList) error {
	switch {
	case p.form.IsTable() && len(list.Items) == 0:
		_, err := fmt.Fprintln(p.to, "No events.")
		return err
	case p.form.IsTable():
		return p.rows(list.Items)
	case p.form.Form() == output.CSV:
		return p.lines(list.Items)
	}
	list.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "EventList"}
	if list.Items == nil {
		list.Items = []corev1.Event{}
	}
	for i := range list.Items {
		typed(&list.Items[i])
	}
	return output.WriteDocument(p.to, p.form.Form(), list)
}

// line is an event as a row of CSV.
type line struct {
	Namespace string `json:"namespace"`
	LastSeen  string `json:"lastSeen"` // as in RFC 3339
	FirstSeen string `json:"firstSeen"`
	Count     int32  `json:"count"`
	Type      string `json:"type"`
	Reason    string `json:"reason"`
	Kind      string `json:"kind"`
	Name      string `json:"name"` // of the object
	Source    string `json:"source"`
	Message   string `json:"message"`
	Event     string `json:"event"` // its name
}

// lines writes rows of CSV, and the names of the columns before the first.
func (p *printer) lines(all []corev1.Event) error {
	lines := make([]line, 0, len(all))
	for i := range all {
		e := &all[i]
		at := func(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }
		lines = append(lines, line{
			e.Namespace, at(lastSeen(e)), at(firstSeen(e)), occurrences(e), e.Type, e.Reason, e.InvolvedObject.Kind, e.InvolvedObject.Name, sourceOf(e), e.Message, e.Name,
		})
	}
	return p.csv.Write(output.List{Name: "event", Objects: lines})
}

// sourceOf names the component that has written an event, and its host.
func sourceOf(e *corev1.Event) string {
	source := cmp.Or(e.Source.Component, e.ReportingController)
	if host := cmp.Or(e.Source.Host, e.ReportingInstance); host != "" && source != "" {
		source += ", " + host
	}
	return source
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
	switch {
	case p.form.IsTable():
		return p.rows(fresh)
	case p.form.Form() == output.CSV:
		return p.lines(fresh)
	}
	for i := range fresh {
		typed(&fresh[i])
		text, err := json.Marshal(&fresh[i])
		if err == nil && p.form.Form() == output.YAML {
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
		if p.form.Form() == output.Wide {
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
	if p.form.Form() == output.Wide {
		row = []string{last, e.Type, e.Reason, e.InvolvedObject.Kind + "/" + e.InvolvedObject.Name, sourceOf(e), message, ago(firstSeen(e)), strconv.Itoa(int(occurrences(e))), e.Name}
	}
	if p.namespaces {
		row = append([]string{e.Namespace}, row...)
	}
	return row
}
