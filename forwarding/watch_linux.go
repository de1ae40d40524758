package forwarding

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"
)

// openWatch watches a mailbox's new and the directories above it, up to the
// node's, with one inotify instance. It asks for arrivals alone: with fsnotify
// each of our own removals would wake us too.
func openWatch(dir string, told func(watchEvent)) (closer, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, os.NewSyscallError("inotify_init1", err)
	}
	w := &inotify{f: os.NewFile(uintptr(fd), "inotify"), told: told}
	const gone = unix.IN_DELETE_SELF | unix.IN_MOVE_SELF | unix.IN_ONLYDIR | unix.IN_DONT_FOLLOW
	mail := filepath.Dir(dir)
	for _, at := range []string{dir, mail, filepath.Dir(mail)} {
		mask := uint32(gone)
		if at == dir {
			mask |= unix.IN_MOVED_TO | unix.IN_CREATE
		}
		if _, err := unix.InotifyAddWatch(fd, at, mask); err != nil {
			w.f.Close()
			return nil, &os.PathError{Op: "inotify_add_watch", Path: at, Err: err}
		}
	}
	w.done.Go(w.read)
	return w, nil
}

type inotify struct {
	f    *os.File
	told func(watchEvent)
	done sync.WaitGroup
}

// Close ends the watch; nothing is told after it returns.
func (w *inotify) Close() error {
	err := w.f.Close()
	w.done.Wait()
	return err
}

func (w *inotify) read() {
	buf := make([]byte, 64*(unix.SizeofInotifyEvent+unix.NAME_MAX+1))
	for {
		n, err := w.f.Read(buf)
		if err != nil {
			if !isClosed(err) {
				w.told(watchEvent{err: err})
			}
			return
		}
		for b := buf[:n]; len(b) >= unix.SizeofInotifyEvent; {
			mask := binary.NativeEndian.Uint32(b[4:])
			size := unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(b[12:]))
			if size > len(b) {
				break
			}
			name, _, _ := bytes.Cut(b[unix.SizeofInotifyEvent:size], []byte{0})
			b = b[size:]
			switch {
			case mask&unix.IN_Q_OVERFLOW != 0:
				w.told(watchEvent{lost: true})
			case mask&(unix.IN_DELETE_SELF|unix.IN_MOVE_SELF|unix.IN_UNMOUNT) != 0:
				w.told(watchEvent{moved: true})
			case mask&(unix.IN_MOVED_TO|unix.IN_CREATE) != 0:
				w.told(watchEvent{name: string(name)})
			}
		}
	}
}
