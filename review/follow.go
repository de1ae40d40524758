package review

import (
	"context"
	"path/filepath"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
)

// How often everything is looked at: where the system tells of changes, in
// case it lost one; where it does not.
const (
	followSlow = 2 * time.Second
	followFast = 250 * time.Millisecond
)

// Follow is [Scan], and then gives fn what the writers, also new ones, add,
// until ctx ends or fn returns an error, which it returns. Records that arrive
// together come in the order of their times; one that arrives late comes late.
func Follow(ctx context.Context, dir string, f Filter, fn func(Record) error) error {
	return newFollower(dir, f, fn).run(ctx)
}

func newFollower(dir string, f Filter, fn func(Record) error) *follower {
	w := &follower{dir: dir, filter: f, streams: map[string]*stream{}, fn: fn}
	w.begin = func(streams []*stream) error { return merge(streams, f, fn) }
	return w
}

func (w *follower) run(ctx context.Context) error {
	events := w.watch()
	defer w.close()
	if err := w.start(); err != nil {
		return err
	}
	for {
		dirty, err := w.wait(ctx, events)
		if err != nil {
			return err
		}
		if err := w.round(dirty); err != nil {
			return err
		}
	}
}

type follower struct {
	dir       string
	filter    Filter
	fn        func(Record) error
	begin     func([]*stream) error // reads what is there at first
	streams   map[string]*stream
	watcher   *fsnotify.Watcher
	unwatched map[string]bool // directories that gave no watch
}

// watch begins to watch before anything is read, so that nothing falls between.
func (w *follower) watch() <-chan fsnotify.Event {
	w.unwatched = map[string]bool{}
	watcher, err := fsnotify.NewWatcher()
	if err == nil {
		w.watcher = watcher
	}
	w.add(w.dir)
	if w.watcher == nil {
		return nil
	}
	return watcher.Events
}

func (w *follower) add(dir string) {
	if w.watcher == nil || w.watcher.Add(dir) != nil {
		w.unwatched[dir] = true
		return
	}
	delete(w.unwatched, dir)
}

func (w *follower) close() {
	if w.watcher != nil {
		w.watcher.Close()
	}
	for _, s := range w.streams {
		s.pause()
	}
}

// start reads what is there.
func (w *follower) start() error {
	if err := w.discover(nil); err != nil {
		return err
	}
	return w.begin(w.chosen(nil))
}

// discover finds new writers and marks them in dirty.
func (w *follower) discover(dirty map[string]bool) error {
	names, err := writerDirs(w.dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if w.streams[name] != nil || w.filter.Writer != "" && w.filter.Writer != name {
			continue
		}
		at := filepath.Join(w.dir, name)
		w.add(at)
		w.streams[name] = &stream{dir: at, writer: name}
		if dirty != nil {
			dirty[name] = true
		}
	}
	return nil
}

// wait gives the writers that may have added something; nil means any.
func (w *follower) wait(ctx context.Context, events <-chan fsnotify.Event) (map[string]bool, error) {
	every := followSlow
	if len(w.unwatched) > 0 {
		every = followFast
	}
	tick := time.NewTimer(every)
	defer tick.Stop()
	var errs <-chan error
	if w.watcher != nil {
		errs = w.watcher.Errors
	}
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-tick.C:
		return nil, nil
	case <-errs:
		return nil, nil // an overflow: something was lost
	case e := <-events:
		dirty := map[string]bool{}
		w.note(dirty, e)
		for {
			select {
			case e := <-events:
				w.note(dirty, e)
			default:
				return dirty, nil
			}
		}
	}
}

func (w *follower) note(dirty map[string]bool, e fsnotify.Event) {
	rest, ok := strings.CutPrefix(e.Name, w.dir+string(filepath.Separator))
	if !ok {
		return
	}
	name, _, _ := strings.Cut(rest, string(filepath.Separator))
	dirty[name] = true
}

// round gives on what was added.
func (w *follower) round(dirty map[string]bool) error {
	look := dirty == nil
	for name := range dirty {
		look = look || w.streams[name] == nil
	}
	if look {
		// A directory that was removed and made again has lost its watch.
		w.add(w.dir)
		for dir := range w.unwatched {
			w.add(dir)
		}
		if err := w.discover(dirty); err != nil {
			return err
		}
	}
	return merge(w.chosen(dirty), w.filter, w.fn)
}

// chosen gives the streams of these writers, of all for nil.
func (w *follower) chosen(names map[string]bool) []*stream {
	var some []*stream
	for name, s := range w.streams {
		if names == nil || names[name] {
			some = append(some, s)
		}
	}
	return some
}
