// SPDX-License-Identifier: Apache-2.0

package report

// This file answers: how is a chart drawn? As SVG without scripts, in the colors of the page's style. Texts are escaped.

import (
	"fmt"
	"html"
	"html/template"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"spate.dev/operator/internal/plugin/figures"
)

// chart is a picture with its legend.
type chart struct {
	Title  string
	Legend []key
	SVG    template.HTML
}

// key of a legend: the style of a line, and what it shows.
type key struct {
	Class int
	Name  string
}

// axes are a picture before it is drawn. Positions are shares of the width and, from below, of the height: 0 to 1.
type axes struct {
	xTicks, yTicks []tick
	marks          []tick // instants, each with what begins then
	lines          []polyline
	hints          []tick // texts that are shown at the pointer
}

// tick is a text at a position.
type tick struct {
	at   float64
	text string
}

type point struct{ x, y float64 }

// polyline has one of the styles 0 to 7. A point that is not a number is a gap.
type polyline struct {
	class  int
	points []point
}

// Sizes in the picture's units, which are about as large as a pixel where two pictures are side by side: labels can be read on a telephone, too.
const (
	width, height            = 480.0, 190.0
	left, right, top, bottom = 60.0, 16.0, 18.0, 24.0
	letter                   = 6.5 // the mean width of a letter of a label
	styles                   = 8
	mostHints                = 120
)

func (t point) place() (x, y float64) {
	return left + t.x*(width-left-right), top + (1-t.y)*(height-top-bottom)
}

// draw writes the picture.
func (a *axes) draw(title string) template.HTML {
	var b strings.Builder
	fmt.Fprintf(&b, `<svg viewBox="0 0 %g %g" role="img" aria-label="%s">`, width, height, html.EscapeString(title))
	for _, t := range a.yTicks {
		_, y := point{0, t.at}.place()
		fmt.Fprintf(&b, `<line class="grid" x1="%g" x2="%g" y1="%.1f" y2="%.1f"/><text class="y" x="%g" y="%.1f">%s</text>`, left, width-right, y, y, left-6, y+4, html.EscapeString(t.text))
	}
	for _, t := range a.xTicks {
		x, _ := point{t.at, 0}.place()
		fmt.Fprintf(&b, `<line class="grid" x1="%.1f" x2="%.1f" y1="%g" y2="%g"/><text class="x" x="%.1f" y="%g">%s</text>`, x, x, top, height-bottom, min(x, width-letter*float64(len(t.text))/2), height-bottom+16, html.EscapeString(t.text))
	}
	for i, m := range a.marks {
		x, y := point{m.at, 1}.place()
		fmt.Fprintf(&b, `<line class="mark" x1="%.1f" x2="%.1f" y1="%g" y2="%g"/>`, x, x, top, height-bottom)
		room := width - x
		if i < len(a.marks)-1 {
			room = (a.marks[i+1].at - m.at) * (width - left - right)
		}
		fmt.Fprintf(&b, `<text class="mark" x="%.1f" y="%.1f">%s</text>`, x, y-6, html.EscapeString(within(room, m.text)))
	}
	for _, l := range a.lines {
		l.draw(&b)
	}
	for i, h := range a.hints {
		from, to := 0.0, 1.0
		if i > 0 {
			from = (a.hints[i-1].at + h.at) / 2
		}
		if i < len(a.hints)-1 {
			to = (h.at + a.hints[i+1].at) / 2
		}
		x, y := point{from, 1}.place()
		end, floor := point{to, 0}.place()
		fmt.Fprintf(&b, `<rect class="hint" x="%.1f" y="%.1f" width="%.1f" height="%.1f"><title>%s</title></rect>`, x, y, max(end-x, 0), floor-y, html.EscapeString(h.text))
	}
	b.WriteString("</svg>")
	return template.HTML(b.String()) // its texts are escaped, and all else are numbers
}

// within shortens a label to a width.
func within(room float64, text string) string {
	letters := []rune(text)
	most := int(room / letter)
	switch {
	case len(letters) <= most:
		return text
	case most < 3:
		return ""
	}
	return string(letters[:most-1]) + "…"
}

func (l polyline) draw(b *strings.Builder) {
	points := 0
	end := func() {
		if points > 0 {
			b.WriteString(`"/>`)
		}
		points = 0
	}
	for i, p := range l.points {
		if math.IsNaN(p.y) {
			end()
			continue
		}
		x, y := p.place()
		alone := (i == 0 || math.IsNaN(l.points[i-1].y)) && (i == len(l.points)-1 || math.IsNaN(l.points[i+1].y))
		if alone {
			fmt.Fprintf(b, `<circle class="s%d" cx="%.1f" cy="%.1f" r="2"/>`, l.class%styles, x, y)
			continue
		}
		if points++; points == 1 {
			fmt.Fprintf(b, `<polyline class="s%d" points="`, l.class%styles)
		}
		fmt.Fprintf(b, "%.1f,%.1f ", x, y)
	}
	end()
}

// mark is what begins at a time since the start of the traffic.
type mark struct {
	at   time.Duration
	name string
}

// lineChart draws values over time, in a unit of which they are multiples. It draws nothing if there is no value but 0.
func lineChart(title, unit string, times []int64, marks []mark, all []line) (chart, bool) {
	c := chart{Title: title}
	greatest := 0.0
	all = slices.DeleteFunc(slices.Clone(all), func(l line) bool {
		highest := 0.0
		for _, value := range l.values {
			if !math.IsNaN(value) {
				highest = max(highest, value)
			}
		}
		greatest = max(greatest, highest)
		return highest == 0 && len(all) > 2 // two lines belong together
	})
	if greatest == 0 {
		return c, false
	}
	step := niceStep(greatest / 4)
	ceiling := step * math.Ceil(greatest/step)
	a := axes{}
	for n := 0.0; n*step <= ceiling*1.0001; n++ {
		a.yTicks = append(a.yTicks, tick{n * step / ceiling, figures.WithUnit(n*step, unit)})
	}
	until := float64(max(times[len(times)-1], 1))
	span := time.Duration(until)
	every := timeStep(span)
	for at := time.Duration(0); at <= span; at += every {
		a.xTicks = append(a.xTicks, tick{float64(at) / until, clockTime(at, every)})
	}
	for i, l := range all {
		if len(l.values) == 0 {
			continue
		}
		path := polyline{class: i}
		for k, value := range l.values {
			path.points = append(path.points, point{float64(times[k]) / until, max(value, 0) / ceiling})
		}
		a.lines = append(a.lines, path)
		c.Legend = append(c.Legend, key{i % styles, l.name})
	}
	for _, m := range marks {
		if at := float64(m.at) / until; at <= 1 {
			a.marks = append(a.marks, tick{at, m.name})
		}
	}
	stride := (len(times) + mostHints - 1) / mostHints
	for k := 0; k < len(times); k += stride {
		hint := []string{"at " + time.Duration(times[k]).Round(time.Millisecond).String()}
		for _, l := range all {
			if k < len(l.values) && !math.IsNaN(l.values[k]) {
				hint = append(hint, l.name+": "+figures.WithUnit(l.values[k], unit))
			}
		}
		a.hints = append(a.hints, tick{float64(times[k]) / until, strings.Join(hint, "\n")})
	}
	c.SVG = a.draw(title)
	return c, true
}

// niceStep is the least of 1, 2 and 5 times a power of ten that is not less than a number.
func niceStep(least float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(least)))
	for _, factor := range []float64{1, 2, 5} {
		if factor*power >= least*0.9999 {
			return factor * power
		}
	}
	return 10 * power
}

// timeStep divides a time into at most 8 parts.
func timeStep(span time.Duration) time.Duration {
	for _, step := range []time.Duration{
		time.Millisecond, 10 * time.Millisecond, 100 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond, time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 15 * time.Second,
		30 * time.Second, time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 30 * time.Minute, time.Hour, 2 * time.Hour, 4 * time.Hour, 8 * time.Hour, 12 * time.Hour, 24 * time.Hour,
	} {
		if span/step <= 8 {
			return step
		}
	}
	const day = 24 * time.Hour
	return (span/8/day + 1) * day
}

// clockTime writes a time on an axis with such steps.
func clockTime(at, step time.Duration) string {
	switch {
	case step < time.Second:
		return strconv.FormatFloat(at.Seconds(), 'g', 4, 64) + "s"
	case step >= 24*time.Hour:
		return strconv.Itoa(int(at/(24*time.Hour))) + "d"
	case at >= time.Hour:
		return fmt.Sprintf("%d:%02d:%02d", int(at.Hours()), int(at.Minutes())%60, int(at.Seconds())%60)
	}
	return fmt.Sprintf("%d:%02d", int(at.Minutes()), int(at.Seconds())%60)
}
