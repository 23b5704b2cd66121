// SPDX-License-Identifier: Apache-2.0

// Package junit answers: how are verdicts written for CI systems that read JUnit's XML?
package junit

import (
	"encoding/xml"
	"io"
	"strconv"
	"time"
)

// Suites are several suites in one file.
type Suites struct {
	XMLName xml.Name `xml:"testsuites"`
	Suites  []Suite  `xml:"testsuite"`
}

// Suite is the test cases of a run or of a search.
type Suite struct {
	XMLName  xml.Name `xml:"testsuite"`
	Name     string   `xml:"name,attr"`
	Tests    int      `xml:"tests,attr"`
	Failures int      `xml:"failures,attr"`
	Errors   int      `xml:"errors,attr"`
	Skipped  int      `xml:"skipped,attr,omitempty"`
	Cases    []Case   `xml:"testcase"`
}

// Case is a test case. It has passed if it has neither Failure nor Error nor Skipped.
type Case struct {
	Name    string   `xml:"name,attr"`
	Class   string   `xml:"classname,attr"`
	Time    string   `xml:"time,attr"`
	Failure *Message `xml:"failure"`
	Error   *Message `xml:"error"`
	Skipped *Message `xml:"skipped"`
	Output  string   `xml:"system-out,omitempty"`
}

// Message says why a case has not passed.
type Message struct {
	Text string `xml:"message,attr"`
}

// Seconds is a time as JUnit has it.
func Seconds(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', 3, 64) }

// Add adds a case to the suite, and counts it.
func (s *Suite) Add(c Case) {
	c.Class = s.Name
	s.Cases = append(s.Cases, c)
	s.Tests++
	switch {
	case c.Failure != nil:
		s.Failures++
	case c.Error != nil:
		s.Errors++
	case c.Skipped != nil:
		s.Skipped++
	}
}

// Write writes the suite as a file of its own.
func (s *Suite) Write(w io.Writer) error { return write(w, s) }

// Write writes the suites as one file.
func (s *Suites) Write(w io.Writer) error { return write(w, s) }

func write(w io.Writer, root any) error {
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	encoder := xml.NewEncoder(w)
	encoder.Indent("", "  ")
	if err := encoder.Encode(root); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}
