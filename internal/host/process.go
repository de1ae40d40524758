package host

import (
	"context"
	"os"
	"sync"
)

// ProcessID names one process for as long as the machine is up: numbers are
// used again, a number together with its start time is not.
type ProcessID struct {
	PID int
	// Start is opaque: clock ticks since boot on Linux, microseconds on macOS.
	// Compare it for equality with another Start of the same boot, no more.
	Start uint64
}

// Process is one process, pinned: what it answers stays about that process
// even after its number has been given to another. Safe for concurrent use.
type Process struct {
	id ProcessID

	mu     sync.Mutex
	pin    pin
	closed bool
}

// OpenProcess pins the process that has this number now. The error is
// ErrNoProcess when there is none or it is a zombie. The caller closes it.
func OpenProcess(pid int) (*Process, error) {
	if pid <= 0 {
		return nil, &ProcessError{"open", pid, ErrNoProcess}
	}
	pin, err := openPin(pid)
	if err != nil {
		return nil, &ProcessError{"open", pid, err}
	}
	return newProcess(pid, pin)
}

// newProcess takes over pin, which must already refer to the process.
func newProcess(pid int, pin pin) (*Process, error) {
	start, err := pin.startTime(pid)
	if err != nil {
		_ = pin.close()
		return nil, &ProcessError{"open", pid, err}
	}
	return &Process{id: ProcessID{pid, start}, pin: pin}, nil
}

// PID is the number, good as a label; it may since belong to another process.
func (p *Process) PID() int { return p.id.PID }

// StartTime is when the process started, as in ProcessID.
func (p *Process) StartTime() uint64 { return p.id.Start }

// ID names the process for a record or a later comparison.
func (p *Process) ID() ProcessID { return p.id }

// Alive says whether the process runs or could run again: a stopped process
// is alive, a zombie is not. After Close it is false.
func (p *Process) Alive() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.closed && !p.pin.ended()
}

// Wait blocks until the process has ended (nil, within milliseconds) or ctx
// is done (its error). It starts no goroutine that outlives it and does not
// poll; any number of callers may wait at once, and Close does not wake them.
// It reaps nothing: a child that has ended still needs its parent's wait.
func (p *Process) Wait(ctx context.Context) error {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return &ProcessError{"wait", p.id.PID, os.ErrClosed}
	}
	w, err := p.pin.waiter()
	p.mu.Unlock()
	if err != nil {
		return &ProcessError{"wait", p.id.PID, err}
	}
	defer w.close()
	ended, err := w.wait(ctx)
	switch {
	case ended:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	default:
		return &ProcessError{"wait", p.id.PID, err}
	}
}

// Descends says whether this process is the ancestor or one of its
// descendants, as the function Descends does, and that it was still this
// process when that had been found out.
func (p *Process) Descends(ancestor int, ancestorStart uint64) (bool, error) {
	yes, err := descends(statProcess, p.id, ancestor, ancestorStart)
	if err != nil {
		return false, err
	}
	if !p.Alive() {
		return false, &ProcessError{"ancestors", p.id.PID, ErrNoProcess}
	}
	return yes, nil
}

// Close gives the pin back. Closing twice does no harm.
func (p *Process) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil
	}
	p.closed = true
	return p.pin.close()
}
