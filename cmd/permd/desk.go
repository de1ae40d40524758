package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"permd/api"
	"permd/ask"
	"permd/desk"
	"permd/desk/tui"
	"permd/internal/host"
	"permd/review"
)

func init() { commands = append(commands, deskCommand, deskProcessCommand) }

func deskCommand(a *app) *cobra.Command {
	var plain bool
	c := &cobra.Command{
		Use:   "desk",
		Short: "Answer what your agents ask, from all of them in one place",
		Long: "desk attaches this terminal to the desk process, which it starts if none runs. What your\n" +
			"agents ask waits there, oldest first. Closing the terminal only detaches it: what waits\n" +
			"goes on waiting, and nothing is answered by that. Any number of terminals may be attached.\n\n" +
			"With --plain, on a dumb terminal or without one it prints lines and reads commands, for\n" +
			"screen readers and scripts; help lists them.\n\n" +
			"Only a person's own terminal may attach: below a governed agent it is refused.\n\n" +
			"Exit codes: 0 detached, or the desk process was ended on purpose, 1 it could not attach.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			d, err := a.dirs()
			if err != nil {
				return err
			}
			if err := d.Make(); err != nil {
				return &exitError{2, err}
			}
			if err := a.person(d, "permd desk"); err != nil {
				return err
			}
			dial := func(ctx context.Context) (*api.Answerer, error) {
				return desk.Connect(ctx, d, version, api.Attach{Surface: "terminal", Label: terminalName(a.in), Faces: 1, Cap: ask.ScopeUser})
			}
			out, isFile := a.out.(*os.File)
			if plain || !isFile || dumb(a.in, out) {
				err = tui.Plain(cmd.Context(), dial, a.in, a.out)
			} else {
				err = tui.Run(cmd.Context(), dial, a.in, out)
			}
			if errors.Is(err, tui.ErrEnded) {
				fmt.Fprintln(a.out, "permd: "+err.Error())
				return nil
			}
			return err
		},
	}
	c.Flags().BoolVar(&plain, "plain", false, "print lines instead of drawing a screen")
	return c
}

// dumb reports whether lines are all that this terminal can do.
func dumb(in, out *os.File) bool {
	t := os.Getenv("TERM")
	return t == "" || t == "dumb" || !term.IsTerminal(int(in.Fd())) || !term.IsTerminal(int(out.Fd()))
}

// terminalName is how others are told of this terminal: "pts/3".
func terminalName(in *os.File) string {
	if !term.IsTerminal(int(in.Fd())) {
		return "without a tty"
	}
	for _, link := range []string{fmt.Sprintf("/proc/self/fd/%d", in.Fd()), fmt.Sprintf("/dev/fd/%d", in.Fd())} {
		if name, err := filepath.EvalSymlinks(link); err == nil && strings.HasPrefix(name, "/dev/") {
			return strings.TrimPrefix(name, "/dev/")
		}
	}
	return "tty"
}

func deskProcessCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:    desk.Command,
		Short:  "Be the desk process (started by permd desk)",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ready := inherited(readyFD, os.ModeNamedPipe)
			starting := inherited(lockFD, 0)
			say := func(text string) {
				if ready != nil {
					fmt.Fprintln(ready, text)
					ready.Close()
				}
				if starting != nil {
					starting.Close()
				}
			}
			err := a.runDesk(cmd.Context(), func() { say("ok") })
			switch {
			case errors.Is(err, desk.ErrRunning):
				say("ok")
				return nil
			case err != nil:
				say(err.Error())
			}
			return err
		},
	}
}

func (a *app) runDesk(ctx context.Context, started func()) error {
	if err := host.HideMemory(); err != nil {
		return err
	}
	d, err := a.dirs()
	if err != nil {
		return err
	}
	if err := a.person(d, "permd "+desk.Command); err != nil {
		return err
	}
	return desk.Run(ctx, desk.Options{Dirs: d, Build: version, Started: started, Open: func() (desk.Recorder, error) {
		return review.Open(review.Options{Dir: d.Review(), Writer: desk.Name, Version: version})
	}})
}
