package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/term"

	"permd/api"
	"permd/internal/host"
	"permd/review"
	"permd/session"
)

// confirm asks the person at the terminal; only the typed word yes is a yes.
// Without a terminal there is nobody to ask.
func (a *app) confirm(question string) (bool, error) {
	if !term.IsTerminal(int(a.in.Fd())) {
		return false, errors.New("there is no terminal to ask at; use --yes")
	}
	fmt.Fprintf(a.out, "%s Type yes: ", question)
	line, err := bufio.NewReader(a.in).ReadString('\n')
	if err != nil {
		return false, err
	}
	return strings.TrimSpace(line) == "yes", nil
}

// note writes one record of a command, durably. Commands share one writer, so
// a second one waits for the first.
func (a *app) note(d session.Dirs, e review.Event) error {
	if err := host.MakeDir(d.State); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	for {
		l, err := review.Open(review.Options{Dir: d.Review(), Writer: "cmd", Version: version})
		if errors.Is(err, review.ErrInUse) && ctx.Err() == nil {
			select {
			case <-time.After(20 * time.Millisecond):
			case <-ctx.Done():
			}
			continue
		}
		if err != nil {
			return err
		}
		return errors.Join(l.Commit(ctx, e), l.Close())
	}
}

// person refuses a command to anything but a person's own terminal: it must
// have one, and must not run below an agent that permd governs.
func (a *app) person(d session.Dirs, what string) error {
	if n := governedBy(d); n != "" {
		// Best effort: it is refused whether or not that can be written.
		_ = a.note(d, review.Event{Name: review.SurfaceRefused, Reason: "a process below an agent called " + what,
			Fields: []review.Field{{Key: review.KeyNode, Value: n}, {Key: review.KeyPID, Value: strconv.Itoa(os.Getpid())}}})
		return &exitError{1, fmt.Errorf("%s is refused: this process runs below the agent of node %s; use a terminal of your own", what, n)}
	}
	return nil
}

// governedBy names the living node whose agent this process descends from.
func governedBy(d session.Dirs) string {
	up, err := host.Ancestors(os.Getpid())
	if err != nil {
		return "unknown"
	}
	for _, p := range up {
		dir := d.Node(session.NodeID(p.PID, p.Start))
		held, err := host.Held(dir.Lock())
		if held || err != nil && !errors.Is(err, fs.ErrNotExist) {
			return dir.ID() // what cannot be looked at is taken for governed
		}
	}
	return ""
}

// flat puts a text of several lines on one.
func flat(s string) string { return strings.Join(strings.Fields(s), " ") }

// stopDesk ends the desk process, if one runs, and waits for its end.
func (a *app) stopDesk(ctx context.Context, d session.Dirs) error {
	err := callDesk(ctx, d, api.OpStop, nil)
	if noDesk(err) {
		return nil
	}
	if err != nil {
		return err
	}
	return deskGone(ctx, d)
}
