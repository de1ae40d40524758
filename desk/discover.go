package desk

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"

	"permd/internal/host"
	"permd/session"
)

// Events are a hint, a scan decides. It is slow while there are events.
const (
	scanSlow = time.Second
	scanFast = 250 * time.Millisecond
)

// discover finds nodes until ctx is done. A file system without events, or a
// user without a watch to spare, costs at most scanFast.
func (d *desk) discover(ctx context.Context) error {
	events, closeWatch := d.watch()
	defer func() { closeWatch() }()
	tick := time.NewTicker(pace(events))
	defer tick.Stop()
	d.scan(ctx)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			if events == nil {
				events, closeWatch = d.watch()
				tick.Reset(pace(events))
			}
			d.scan(ctx)
		case e, ok := <-events:
			switch {
			case !ok || e.Name == d.opt.Dirs.Nodes():
				// The directory itself went: whoever makes it anew is not seen.
				closeWatch()
				events, closeWatch = nil, func() {}
				tick.Reset(scanFast)
			case e.Has(fsnotify.Create) && session.Valid(filepath.Base(e.Name)):
				d.connect(ctx, filepath.Base(e.Name), true)
			}
		}
	}
}

func pace(events <-chan fsnotify.Event) time.Duration {
	if events == nil {
		return scanFast
	}
	return scanSlow
}

// watch begins to watch the directory of nodes. Without events the channel is
// nil.
func (d *desk) watch() (events <-chan fsnotify.Event, closeWatch func()) {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, func() {}
	}
	if err := w.Add(d.opt.Dirs.Nodes()); err != nil {
		w.Close()
		return nil, func() {}
	}
	done := make(chan struct{})
	go func() { // overflow and the like: the scan makes up for it
		defer close(done)
		for range w.Errors {
		}
	}()
	return w.Events, func() {
		w.Close()
		<-done
	}
}

// scan links every node that lives.
func (d *desk) scan(ctx context.Context) {
	names, err := os.ReadDir(d.opt.Dirs.Nodes())
	if err != nil {
		return
	}
	for _, e := range names {
		node := e.Name()
		if !session.Valid(node) || d.linked(node) {
			continue
		}
		if held, err := host.Held(d.opt.Dirs.Node(node).Lock()); err == nil && held {
			d.connect(ctx, node, false)
		}
	}
}

func (d *desk) linked(node string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.links[node] != nil
}
