package tui

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	tea "charm.land/bubbletea/v2"
	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"permd/api"
	"permd/internal/host"
)

// Run is the full screen on the terminal in and out. It returns when the
// person detaches, on SIGINT, SIGTERM, SIGHUP and SIGQUIT, when ctx is done
// (nil each) or when the desk process ends ([ErrEnded]). However it ends, the
// terminal is left as it was found, and nothing is answered by it.
func Run(ctx context.Context, dial Dial, in, out *os.File) error {
	return run(ctx, newModel(), dial, in, out)
}

func run(ctx context.Context, m *model, dial Dial, in, out *os.File) error {
	first, err := dial(ctx) // its error is to be read on a plain screen
	if err != nil {
		return err
	}
	found, err := term.GetState(int(in.Fd()))
	if err != nil {
		first.Close()
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	m.ctx = ctx
	p := tea.NewProgram(m, tea.WithInput(in), tea.WithOutput(out), tea.WithoutSignalHandler())
	var work sync.WaitGroup
	signals := newSignals(p)
	m.suspend = signals.suspend
	var lost error
	contained := func(f func()) func() {
		return func() {
			defer func() {
				if r := recover(); r != nil {
					lost = fmt.Errorf("internal error: %v", r)
					p.Kill()
				}
			}()
			f()
		}
	}
	work.Go(contained(func() {
		again := func(ctx context.Context) (*api.Answerer, error) {
			if a := first; a != nil {
				first = nil
				return a, nil
			}
			return dial(ctx)
		}
		lost = stay(ctx, again, func(x any) { p.Send(told{x}) })
		p.Quit()
	}))
	work.Go(contained(func() { signals.serve(ctx) }))
	_, err = p.Run()
	cancel()
	work.Wait()
	if err != nil {
		restore(in, out, found)
	}
	if lost != nil {
		return lost
	}
	if errors.Is(err, tea.ErrProgramKilled) && !errors.Is(err, tea.ErrProgramPanic) {
		return nil
	}
	return err
}

// restore puts the terminal back after the program could not: screen, cursor,
// pasting, focus reports, and its settings.
func restore(in, out *os.File, found *term.State) {
	_, _ = out.WriteString("\x1b[?2004l\x1b[?1004l\x1b[?1049l\x1b[?25h\x1b[m\r\n")
	_ = term.Restore(int(in.Fd()), found)
}

// signals ends or suspends the screen when the process is told to.
type signals struct {
	p    *tea.Program
	ends chan os.Signal
	stop chan os.Signal
}

func newSignals(p *tea.Program) *signals {
	s := &signals{p: p, ends: make(chan os.Signal, 4), stop: make(chan os.Signal, 1)}
	signal.Notify(s.ends, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	signal.Notify(s.stop, syscall.SIGTSTP)
	return s
}

// serve handles signals until ctx is done.
func (s *signals) serve(ctx context.Context) {
	defer signal.Stop(s.ends)
	defer signal.Stop(s.stop)
	for {
		select {
		case <-ctx.Done():
			s.p.Quit()
			return
		case <-s.ends:
			s.p.Quit()
		case <-s.stop:
			s.suspend()
			s.p.Send(tea.ResumeMsg{})
		}
	}
}

// stoppedWithin is how long the system may take to stop a process that has
// told itself to.
const stoppedWithin = 200 * time.Millisecond

// suspend gives the terminal back and stops the job until it is continued. A
// Go program that has once caught SIGTSTP can no longer be stopped by it, so it
// is SIGSTOP, and only where somebody is there to continue it.
func (s *signals) suspend() {
	if !hasShell() || s.p.ReleaseTerminal() != nil {
		return
	}
	goesOn := make(chan os.Signal, 1)
	signal.Notify(goesOn, syscall.SIGCONT)
	defer signal.Stop(goesOn)
	if syscall.Kill(0, syscall.SIGSTOP) == nil {
		select {
		case <-goesOn:
		case <-time.After(stoppedWithin):
		}
	}
	_ = s.p.RestoreTerminal()
}

// hasShell reports whether a shell with job control started this process's
// group: a group without one, the system says, is orphaned, and would stay
// stopped for ever.
func hasShell() bool {
	group, err := unix.Getpgid(0)
	if err != nil {
		return false
	}
	session, err := unix.Getsid(0)
	if err != nil {
		return false
	}
	for up := os.Getppid(); up > 1; {
		if g, err := unix.Getpgid(up); err != nil || g != group {
			sid, serr := unix.Getsid(up)
			return err == nil && serr == nil && sid == session
		}
		if up, err = host.ParentPID(up); err != nil {
			return false
		}
	}
	return false
}
