// SPDX-License-Identifier: Apache-2.0

package counters

// This file answers: how is a feed shown in a terminal?

import (
	"context"
	"errors"
	"io"
	"os"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/colorprofile"

	"spate.dev/operator/internal/plugin/exit"
)

// Show draws a model, whose messages are the events of the feed and keys, until it quits or the limit is over (0: none).
func (f *Feed) Show(ctx context.Context, model tea.Model, to io.Writer, limit time.Duration) error {
	options := []tea.ProgramOption{tea.WithContext(ctx), tea.WithOutput(to), tea.WithoutSignalHandler()}
	if os.Getenv("NO_COLOR") != "" {
		options = append(options, tea.WithColorProfile(colorprofile.NoTTY)) // no style at all, where the library would leave bold
	}
	program := tea.NewProgram(model, options...)
	end := f.Start(ctx, func(event any) { program.Send(event) })
	if limit > 0 {
		timer := time.AfterFunc(limit, program.Quit)
		defer timer.Stop()
	}
	_, err := program.Run()
	end()
	if ctx.Err() != nil {
		return exit.With(exit.Interrupted, errors.New("interrupted"))
	}
	return err
}
