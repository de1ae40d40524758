package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"permd/api"
	"permd/session"
)

func init() { commands = append(commands, pauseCommand, confirmParentCommand) }

func pauseCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "pause DURATION",
		Short: "Leave calls to the clients' own prompts for a while (0 ends it)",
		Long: "pause leaves what policy does not deny to each client's own prompts. Deny rules and\n" +
			"self-protection still hold. It is refused for a session that would then run its calls\n" +
			"unasked, recorded, and shown on every surface. Only a person's own terminal may pause.\n\n" +
			"Exit codes: 0 all sessions paused, 1 some or all refused, 2 used wrongly.",
		Example: "  permd pause 30m\n  permd pause 0",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			d, err := a.dirs()
			if err != nil {
				return err
			}
			var dur time.Duration
			if args[0] != "0" {
				if dur, err = time.ParseDuration(args[0]); err != nil || dur < 0 {
					return usage("%q is no duration; write 30m or 90s, or 0 to end a pause", args[0])
				}
			}
			if err := a.person(d, "permd pause"); err != nil {
				return err
			}
			nodes, err := livingNodes(d)
			if err != nil {
				return err
			}
			if len(nodes) == 0 {
				return &exitError{1, errors.New("no session is running, so there is nothing to pause")}
			}
			return a.pauseAll(cmd, d, nodes, dur)
		},
	}
}

func (a *app) pauseAll(cmd *cobra.Command, d session.Dirs, nodes []string, dur time.Duration) error {
	var failed error
	for _, n := range nodes {
		var st api.Status
		if err := callNode(cmd.Context(), d, n, api.OpPause, api.PauseArgs{ForMS: dur.Milliseconds()}, &st); err != nil {
			failed = errors.Join(failed, fmt.Errorf("node %s: %w", n, err))
			continue
		}
		if dur == 0 {
			fmt.Fprintf(a.out, "%s: the pause has ended\n", n)
		} else {
			fmt.Fprintf(a.out, "%s: paused for %s; deny rules still hold\n", n, dur)
		}
	}
	if failed != nil {
		return &exitError{1, failed}
	}
	return nil
}

func confirmParentCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "confirm CHILD PARENT",
		Short: "Confirm that a claimed parent really is the parent, for this session only",
		Long: "A parent that is only claimed may deny, or bring an ask to a person; its rules, grants\n" +
			"and modes allow nothing. confirm takes your word that the claim is true. It is recorded.",
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			d, err := a.dirs()
			if err != nil {
				return err
			}
			if err := a.person(d, "permd confirm"); err != nil {
				return err
			}
			child, parent := session.Canonical(args[0]), session.Canonical(args[1])
			if child == "" || parent == "" {
				return usage("write session ids as permd sessions prints them")
			}
			node, err := session.Home(d, parent)
			if err != nil {
				return &exitError{1, fmt.Errorf("session %s is not running", parent)}
			}
			if err := callNode(cmd.Context(), d, node, api.OpConfirm, api.ConfirmArgs{Session: child, Parent: parent}, nil); err != nil {
				return &exitError{1, err}
			}
			fmt.Fprintf(a.out, "%s is confirmed as a child of %s\n", child, parent)
			return nil
		},
	}
}
