//go:build !linux

package forwarding

import (
	"errors"
	"path/filepath"
	"sync"

	"github.com/fsnotify/fsnotify"
)

// openWatch watches a mailbox's new.
func openWatch(dir string, told func(watchEvent)) (closer, error) {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, err
	}
	if err := w.Add(dir); err != nil {
		w.Close()
		return nil, err
	}
	n := &notify{w: w}
	n.done.Go(func() {
		for {
			select {
			case e, ok := <-w.Events:
				switch {
				case !ok:
					return
				case e.Name == dir && (e.Has(fsnotify.Remove) || e.Has(fsnotify.Rename)):
					told(watchEvent{moved: true})
				case e.Has(fsnotify.Create):
					told(watchEvent{name: filepath.Base(e.Name)})
				}
			case err, ok := <-w.Errors:
				switch {
				case !ok:
					return
				case errors.Is(err, fsnotify.ErrEventOverflow):
					told(watchEvent{lost: true})
				default:
					told(watchEvent{err: err})
				}
			}
		}
	})
	return n, nil
}

type notify struct {
	w    *fsnotify.Watcher
	done sync.WaitGroup
}

// Close ends the watch; nothing is told after it returns.
func (n *notify) Close() error {
	err := n.w.Close()
	n.done.Wait()
	return err
}
