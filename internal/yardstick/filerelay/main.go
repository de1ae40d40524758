// Command filerelay is the bare relay of asks through files: fsnotify on both
// sides, a temporary file in a sibling folder, a rename, no sync. The parent
// answers whatever it is asked.
//
//	filerelay parent DIR       prints "ready", serves until standard input ends
//	filerelay child DIR COUNT  asks COUNT times, one after the other, and prints
//	                           what each took from ask to answer in nanoseconds
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/fsnotify/fsnotify"

	"permd/internal/yardstick/mailbox"
)

func main() {
	err := errors.New("usage: filerelay parent DIR | filerelay child DIR COUNT")
	switch {
	case len(os.Args) == 3 && os.Args[1] == "parent":
		err = parent(os.Args[2])
	case len(os.Args) == 4 && os.Args[1] == "child":
		var count int
		if count, err = strconv.Atoi(os.Args[3]); err == nil {
			err = child(os.Args[2], count)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "filerelay:", err)
		os.Exit(1)
	}
}

func watch(folder string) (*fsnotify.Watcher, error) {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, err
	}
	return w, w.Add(folder)
}

func parent(dir string) error {
	ask, answer, err := mailbox.Make(dir)
	if err != nil {
		return err
	}
	w, err := watch(ask.New())
	if err != nil {
		return err
	}
	ended := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(ended)
	}()
	fmt.Println("ready")
	for {
		select {
		case <-ended:
			return nil
		case err := <-w.Errors:
			return err
		case ev := <-w.Events:
			if !ev.Has(fsnotify.Create) {
				continue
			}
			name := filepath.Base(ev.Name)
			message, err := ask.Take(name)
			if errors.Is(err, os.ErrNotExist) {
				continue
			}
			if err != nil {
				return err
			}
			if err := answer.Put(name, message); err != nil {
				return err
			}
		}
	}
}

func child(dir string, count int) error {
	ask, answer, err := mailbox.Make(dir)
	if err != nil {
		return err
	}
	w, err := watch(answer.New())
	if err != nil {
		return err
	}
	message := make([]byte, mailbox.Size)
	for i := range count {
		name := strconv.Itoa(os.Getpid()) + "-" + strconv.Itoa(i)
		begun := time.Now()
		if err := ask.Put(name, message); err != nil {
			return err
		}
		if err := await(w, answer, name); err != nil {
			return err
		}
		fmt.Println(time.Since(begun).Nanoseconds())
	}
	return nil
}

// patience is when a relay is broken and not slow.
const patience = 10 * time.Second

func await(w *fsnotify.Watcher, answer mailbox.Box, name string) error {
	late := time.NewTimer(patience)
	defer late.Stop()
	for {
		select {
		case <-late.C:
			return errors.New("no answer")
		case err := <-w.Errors:
			return err
		case ev := <-w.Events:
			if !ev.Has(fsnotify.Create) || filepath.Base(ev.Name) != name {
				continue
			}
			_, err := answer.Take(name)
			return err
		}
	}
}
