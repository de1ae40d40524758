package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"permd/api"
	"permd/desk"
	"permd/internal/host"
	"permd/session"
)

func init() { commands = append(commands, stopCommand) }

func stopCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "stop",
		Short: "End the desk process, and never a node",
		Long: "stop ends the desk process and with it every terminal attached to it. Agents and their\n" +
			"nodes go on: what waits goes on waiting, and is there again at the next permd desk. Only a\n" +
			"person's own terminal may stop the desk.\n\n" +
			"Exit codes: 0 no desk process runs any more, 1 it could not be ended, or this may not do it.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			d, err := a.dirs()
			if err != nil {
				return err
			}
			if err := a.person(d, "permd stop"); err != nil {
				return err
			}
			var st api.Status
			err = callDesk(cmd.Context(), d, api.OpStop, &st)
			if noDesk(err) {
				fmt.Fprintln(a.out, "no desk process is running")
				return nil
			}
			if err != nil {
				return err
			}
			if err := deskGone(cmd.Context(), d); err != nil {
				return err
			}
			fmt.Fprintf(a.out, "the desk process (%d) has ended; nothing was answered by that\n", st.PID)
			return nil
		},
	}
}

// callDesk runs one operation at the desk process.
func callDesk(ctx context.Context, d session.Dirs, op string, result any) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	c, err := api.DialControl(ctx, desk.Sock(d), version)
	if err != nil {
		return err
	}
	defer c.Close()
	return c.Call(ctx, op, nil, result)
}

// noDesk reports whether err means that no desk process runs.
func noDesk(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED)
}

// deskGone waits until the desk's lock is free.
func deskGone(ctx context.Context, d session.Dirs) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	for {
		held, err := host.Held(desk.LockFile(d))
		if errors.Is(err, fs.ErrNotExist) || err == nil && !held {
			return nil
		}
		if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the desk process was told to end and still holds %q; end it (fuser or lsof names it)", desk.LockFile(d))
		case <-time.After(10 * time.Millisecond):
		}
	}
}
