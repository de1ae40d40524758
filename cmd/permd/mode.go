package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"permd/api"
	"permd/policy"
	"permd/session"
)

func init() { commands = append(commands, modeCommand) }

// modeText says what a mode does before it is switched on.
var modeText = map[policy.Mode]string{
	policy.ModeAcceptEdits: "accept-edits allows writes and edits of files inside the project that only the default asks about.",
	policy.ModeYolo: "yolo allows what would be asked. Deny rules and what protects permd itself hold; what drives a\n" +
		"terminal or runs later, and what an administrator wants asked, is asked as before.",
}

func modeCommand(a *app) *cobra.Command {
	var dur time.Duration
	var id string
	var yes bool
	c := &cobra.Command{
		Use:   "mode normal|accept-edits|yolo",
		Short: "Let running sessions ask less for a while",
		Long: "mode switches a mode on for the sessions that run now, or for one with its subagents, or\n" +
			"off again with normal.\n\n" +
			"accept-edits allows writes and edits of files inside the project that only the default\n" +
			"asks about: no rule, no secret. yolo allows what would be asked; deny rules and what\n" +
			"protects permd itself hold, and what drives a terminal or runs later, or what an\n" +
			"administrator wants asked, is asked as before. A session that ran something that was not\n" +
			"let go asks for everything whatever its mode.\n\n" +
			"A mode ends with its time, measured on a clock that nobody can set, and with the node;\n" +
			"it never survives a restart, and sessions that start later are not in it. It is recorded,\n" +
			"and shown by permd status, permd sessions and every desk. Only a person's own terminal\n" +
			"may switch it.\n\n" +
			"Exit codes: 0 switched in all sessions, 1 refused, or not switched in some, 2 used wrongly.",
		Example: "  permd mode accept-edits --for 1h\n  permd mode yolo --for 20m --session claude-1f3a\n  permd mode normal",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			d, err := a.dirs()
			if err != nil {
				return err
			}
			mode, err := policy.ParseMode(args[0])
			if err != nil {
				return usage("%w", err)
			}
			switch {
			case mode == policy.ModeNormal && cmd.Flags().Changed("for"):
				return usage("normal lasts until another mode is switched on; leave --for out")
			case mode != policy.ModeNormal && dur <= 0:
				return usage("say for how long: permd mode %s --for 1h", mode)
			}
			if err := a.person(d, "permd mode"); err != nil {
				return err
			}
			nodes, err := livingNodes(d)
			if err != nil {
				return err
			}
			args1 := api.ModeArgs{Mode: string(mode), ForMS: dur.Milliseconds()}
			if id != "" {
				if args1.Session = session.Canonical(id); args1.Session == "" {
					return usage("%q is no session id; permd sessions lists them", id)
				}
				home, err := session.Home(d, args1.Session)
				if err != nil {
					return &exitError{1, fmt.Errorf("session %s is not running", args1.Session)}
				}
				nodes = []string{home}
			}
			if len(nodes) == 0 {
				return &exitError{1, errors.New("no session is running; a mode is for sessions that run")}
			}
			if mode != policy.ModeNormal && !yes {
				fmt.Fprintln(a.out, modeText[mode])
				ok, err := a.confirm("Switch it on?")
				if err != nil || !ok {
					return &exitError{1, errors.Join(errors.New("nothing was switched"), err)}
				}
			}
			return a.modeAll(cmd, d, nodes, args1)
		},
	}
	c.Flags().DurationVar(&dur, "for", 0, "how long it lasts, at most 8h")
	c.Flags().StringVar(&id, "session", "", "only this session, with its subagents")
	c.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask before switching it on")
	return c
}

func (a *app) modeAll(cmd *cobra.Command, d session.Dirs, nodes []string, m api.ModeArgs) error {
	var failed error
	for _, n := range nodes {
		if err := callNode(cmd.Context(), d, n, api.OpMode, m, nil); err != nil {
			failed = errors.Join(failed, fmt.Errorf("node %s: %w", n, err))
			continue
		}
		text := n
		if m.Session != "" {
			text = m.Session
		}
		text += ": mode " + m.Mode
		if m.ForMS > 0 {
			text += " for " + (time.Duration(m.ForMS) * time.Millisecond).String() + "; deny rules still hold"
		}
		fmt.Fprintln(a.out, text)
	}
	if failed != nil {
		return &exitError{1, failed}
	}
	return nil
}
