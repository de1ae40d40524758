// Command permd is one permission authority for every coding agent a person
// runs. Each command has a file of its own; this one starts them.
//
// Exit codes, the same for every command unless its help says more:
// 0 done, 1 the answer is no or the thing failed, 2 the command was used
// wrongly or permd itself could not work.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"permd/hook"
	"permd/session"
)

// version is set by the linker at release.
var version = "dev"

// exitError ends a command with a code of its own. A nil Err prints nothing.
type exitError struct {
	Code int
	Err  error
}

func (e *exitError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit %d", e.Code)
	}
	return e.Err.Error()
}

func (e *exitError) Unwrap() error { return e.Err }

func main() { os.Exit(permd()) }

// permd runs the command line of this process and returns its exit code. The
// hook comes first: it is called at every tool call and needs none of the
// rest.
func permd() int {
	if len(os.Args) > 1 && os.Args[1] == "hook" {
		return hook.Main(os.Args[2:], os.Environ(), 0, 1, 2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	a := &app{out: os.Stdout, err: os.Stderr, in: os.Stdin}
	root := a.command()
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	var x *exitError
	if errors.As(err, &x) {
		if x.Err != nil {
			fmt.Fprintln(os.Stderr, "permd: "+x.Err.Error())
		}
		return x.Code
	}
	fmt.Fprintln(os.Stderr, "permd: "+err.Error())
	if strings.HasPrefix(err.Error(), "unknown command") {
		return 2 // cobra's own, before any command of ours
	}
	return 1
}

// app is what all commands share.
type app struct {
	root string
	in   *os.File
	out  io.Writer
	err  io.Writer
}

// dirs returns the directories of this user, or of --root.
func (a *app) dirs() (session.Dirs, error) {
	d, err := session.Find(a.root)
	if err != nil {
		return d, &exitError{2, err}
	}
	return d, nil
}

// usage is an error of how a command was called.
func usage(format string, v ...any) error { return &exitError{2, fmt.Errorf(format, v...)} }

func (a *app) command() *cobra.Command {
	root := &cobra.Command{
		Use:   "permd",
		Short: "One permission authority for all the coding agents you run",
		Long: "permd answers what agents ask before they act: policy answers what it can,\n" +
			"what is left reaches you once, and every step is on a record.\n\n" +
			"Exit codes, unless a command's help says more: 0 done, 1 the answer is no or it failed,\n" +
			"2 used wrongly.",
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetOut(a.out)
	root.SetErr(a.err)
	root.PersistentFlags().StringVar(&a.root, "root", "", "keep configuration, state and sockets under this absolute directory")
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return &exitError{2, err} })
	for _, c := range commands {
		root.AddCommand(c(a))
	}
	for _, c := range root.Commands() {
		strict(c)
	}
	return root
}

// strict makes wrong arguments a wrong use, and a group of commands called
// without one of them, too.
func strict(c *cobra.Command) {
	if check := c.Args; check != nil {
		c.Args = func(c *cobra.Command, args []string) error {
			if err := check(c, args); err != nil {
				return &exitError{2, err}
			}
			return nil
		}
	}
	var names []string
	for _, sub := range c.Commands() {
		strict(sub)
		names = append(names, sub.Name())
	}
	if len(names) > 0 && !c.Runnable() {
		c.RunE = func(c *cobra.Command, _ []string) error {
			return usage("%s needs one of: %s", c.CommandPath(), strings.Join(names, ", "))
		}
	}
}

// commands is filled in by each command's file.
var commands []func(*app) *cobra.Command
