// Package review is the review log: what was asked, who decided and what came
// of it, in a form that shows whether somebody changed it afterwards.
//
// It promises that [Log.Commit] returns nil only when the record is on the
// disk, in a file that is still there under its name; that a record once
// acknowledged is never changed in place; that every line carries the hash of
// the line before it, over rotation and over files that were deleted
// underneath; that what a crash tore is set aside and said; that no text of an
// agent can end a line or hide on a screen; that a field nobody classified is
// not written in the clear; that every error is an error of the caller's
// decision too: no record, no allow.
//
// It does not promise a wall: who may write the files as the same user can
// build the whole chain anew, unless a head of it is held elsewhere. It
// decides nothing and redacts no command text, which arrives redacted. Records
// given to [Log.Append] may be lost when the machine, not the process, dies.
//
// Below Options.Dir, all directories 0700 and all files 0600:
//
//	.key                     random key for the digests of what is redacted
//	ledger/000001.jsonl      start and last head of every writer
//	<writer>/000001.jsonl    that writer's records, oldest first
//	<writer>/000001.jsonl.aside-<offset>-<n>   what a repair cut off, kept
//	<writer>/lock            held by the one process that writes
package review

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"permd/ask"
	"permd/internal/host"
)

// Sizes and times.
const (
	// Format is the version of a line.
	Format = 1
	// MaxLine is the most bytes a line may have, its newline included.
	MaxLine = 16 << 10
	// DefaultMaxFile is the size in bytes past which the next record begins
	// a new file.
	DefaultMaxFile = 8 << 20
	// DefaultDeadline is how long Commit, Checkpoint and Close wait for the
	// disk.
	DefaultDeadline = 10 * time.Second

	maxQueue   = 4 << 20
	repairWait = 100 * time.Millisecond
)

// Errors of a log. All that Append, Commit, Checkpoint and Close return wrap
// one of them; each means that the record may not be there.
var (
	// ErrEvent is a caller's mistake: the event cannot be written as it is.
	ErrEvent = errors.New("event cannot be recorded")
	// ErrClosed: the log was closed.
	ErrClosed = errors.New("review log is closed")
	// ErrBusy: the disk has not taken what is already waiting.
	ErrBusy = errors.New("review log is waiting for its disk")
	// ErrDeadline: the disk did not answer in time. The record may become
	// durable later.
	ErrDeadline = errors.New("review log's disk did not answer in time")
	// ErrDiskFull: what lets something run is refused while the disk is full;
	// everything else is written as long as the reserve lasts.
	ErrDiskFull = errors.New("disk of the review log is full; free space there")
	// ErrChanged: the file was deleted, replaced, cut or written to by
	// somebody else. A new file with a gap record is begun.
	ErrChanged = errors.New("review log was changed by another process")
	// ErrBroken: writing or syncing failed; the log is mended before the next
	// record, and until then nothing is recorded.
	ErrBroken = errors.New("review log cannot be written")
	// ErrInUse: another process writes this log.
	ErrInUse = errors.New("review log is in use by another process")
)

// Options say where a log is and who writes it.
type Options struct {
	// Dir is the review directory, <state>/review. It is made if missing.
	Dir string
	// Writer is the node's id, "desk" or "cmd"; an [ask.ValidID], not
	// "ledger".
	Writer string
	// Version is permd's version, for the header.
	Version string
	// Deadline bounds each wait for the disk; 0 is DefaultDeadline.
	Deadline time.Duration
	// MaxFile is where a file ends; 0 is DefaultMaxFile.
	MaxFile int64
	// Disk is the file system; nil is the real one.
	Disk Disk
}

func (o *Options) fill() error {
	if !ask.ValidID(o.Writer) || o.Writer == ledgerName {
		return fmt.Errorf("review log: %s is no name for a writer", ask.Quote(o.Writer))
	}
	if o.Deadline <= 0 {
		o.Deadline = DefaultDeadline
	}
	if o.MaxFile <= 0 {
		o.MaxFile = DefaultMaxFile
	}
	if o.Disk == nil {
		o.Disk = RealDisk{}
	}
	return nil
}

// Head is the last durable record of a log: who knows it can tell whether
// anything up to it was changed or cut.
type Head struct {
	Writer string     `json:"writer"`
	File   string     `json:"file"`
	Seq    uint64     `json:"seq"`
	Hash   ask.Digest `json:"hash"`
}

// Log is one writer's log. It is safe for concurrent use. Close it.
type Log struct {
	opt   Options
	keys  keys
	lock  *host.Lock
	head  atomic.Pointer[Head]
	state atomic.Pointer[error] // why nothing can be recorded now, if so
	wake  chan struct{}
	ended chan struct{}

	mu     sync.Mutex // never held over a call to the disk
	queue  batch
	closed bool
	dirty  bool // since the last checkpoint

	// What follows belongs to run alone.
	c        *chain
	spare    batch
	out      []byte
	results  []result // of the batch in l.out
	unfit    uint64   // records of that batch that the full disk has no room for
	saying   uint64   // lost records that its gap line tells of
	broken   *brokenError
	cut      *aside    // what was set aside in mending so far
	tried    time.Time // when mending last failed
	unlisted bool      // the file is not in the ledger yet
	lost     uint64    // records that were handed in and are nowhere
	said     unsaid
	closeErr error
}

// Head gives the last durable record.
func (l *Log) Head() Head { return *l.head.Load() }

// Err says why nothing can be recorded at the moment, nil if it can as far as
// is known.
func (l *Log) Err() error {
	if e := l.state.Load(); e != nil {
		return *e
	}
	return nil
}

func (l *Log) setState(err error) {
	if err == nil {
		l.state.Store(nil)
		return
	}
	l.state.Store(&err)
}
