package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"permd/ask"
)

// maxFiles is how many files one layer may have.
const maxFiles = 100

// owners are the users that may own a layer's files: root, and for the user's
// own rules the user. nil means that anybody may.
type owners []uint32

// source is where a layer's rules lie.
type source struct {
	layer Layer
	file  string // one file, "" for none
	dir   string // a directory of *.toml, "" for none
	// trusted are who may own them. A project's file may be anybody's: it can
	// only tighten.
	trusted owners
}

// stamp is a file as stat saw it. Two equal stamps are the same content,
// unless the file was changed in the moment before the first was taken.
type stamp struct {
	there        bool
	dev, ino     uint64
	size         int64
	mtime, ctime int64
	mode, uid    uint32
}

// fresh is how long a change may hide behind an equal stamp: the resolution
// of time stamps, with room.
const fresh = 100 * time.Millisecond

func look(name string) (stamp, error) {
	var st unix.Stat_t
	for {
		err := unix.Stat(name, &st)
		switch err {
		case nil:
			return stampOf(&st), nil
		case unix.EINTR:
			continue
		case unix.ENOENT, unix.ENOTDIR:
			return stamp{}, nil
		}
		return stamp{}, &fs.PathError{Op: "stat", Path: name, Err: err}
	}
}

func (s stamp) settled(now time.Time) bool {
	return !s.there || now.UnixNano()-s.ctime > int64(fresh) && now.UnixNano() >= s.ctime
}

// loaded is a layer as it was last read.
type loaded struct {
	stamps  map[string]stamp
	settled bool
	names   []string // the files that were read
	sum     [sha256.Size]byte
	sums    []string // SHA-256 of each of good, in hex

	good     []*File // last read without a fault
	everGood bool
	salvaged []*File // rules without a fault of files with one
	problems Problems
}

// changed reports whether the source may have changed since it was read.
func (l *loaded) changed(s *source) bool {
	if l.stamps == nil || !l.settled {
		return true
	}
	for name, was := range l.stamps {
		is, err := look(name)
		if err != nil || is != was {
			return true
		}
	}
	return false
}

// load reads the source again. It reports whether anything is different.
func (l *loaded) load(s *source) bool {
	now := time.Now()
	l.stamps, l.settled = map[string]stamp{}, true
	var problems Problems
	note := func(name string) stamp {
		st, err := look(name)
		if err != nil {
			problems = append(problems, Problem{File: name, Text: "cannot be looked at: " + err.Error()})
			l.settled = false
		}
		l.stamps[name] = st
		l.settled = l.settled && st.settled(now)
		return st
	}
	var names []string
	if s.file != "" && note(s.file).there {
		names = append(names, s.file)
	}
	if s.dir != "" && note(s.dir).there {
		more, err := list(s.dir)
		if err != nil {
			problems = append(problems, Problem{File: s.dir, Text: err.Error()})
		}
		for _, n := range more {
			note(n)
		}
		names = append(names, more...)
	}
	h := sha256.New()
	type content struct {
		name string
		data []byte
	}
	var files []content
	for _, n := range names {
		data, err := readRules(n, s.trusted)
		if err != nil {
			problems = append(problems, Problem{File: n, Text: err.Error()})
		}
		fmt.Fprintf(h, "%q %d ", n, len(data))
		h.Write(data)
		files = append(files, content{n, data})
	}
	for _, p := range problems {
		fmt.Fprintf(h, "%q", p.Error())
	}
	sum := [sha256.Size]byte(h.Sum(nil))
	if l.names != nil && sum == l.sum && slices.Equal(l.names, names) {
		return false
	}
	l.sum, l.names = sum, append([]string{}, names...)
	var read []*File
	var sums []string
	for _, c := range files {
		one := sha256.Sum256(c.data)
		sums = append(sums, hex.EncodeToString(one[:]))
		f, err := Decode(c.name, c.data, s.layer)
		var ps Problems
		if errors.As(err, &ps) {
			problems = append(problems, ps...)
		}
		read = append(read, f)
	}
	l.problems, l.salvaged = problems, nil
	if len(problems) > 0 {
		l.salvaged = read
		return true
	}
	l.good, l.everGood, l.sums = read, true, sums
	return true
}

// allows reports whether any of the rules would loosen.
func (l *loaded) allows() bool {
	for _, f := range l.good {
		for _, r := range f.rules {
			if r.Action == ask.Allow {
				return true
			}
		}
	}
	return false
}

func list(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("cannot be listed: %w", err)
	}
	var names []string
	for _, e := range entries {
		if n := e.Name(); strings.HasSuffix(n, ".toml") && !strings.HasPrefix(n, ".") {
			names = append(names, filepath.Join(dir, n))
		}
	}
	sort.Strings(names)
	if len(names) > maxFiles {
		return names[:maxFiles], fmt.Errorf("more than %d files; join some", maxFiles)
	}
	return names, nil
}

// readRules reads a rule file that only the trusted can have written.
func readRules(name string, trusted owners) ([]byte, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, fmt.Errorf("cannot be read: %w", err)
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return nil, fmt.Errorf("cannot be looked at: %w", err)
	}
	if uint32(st.Mode)&unix.S_IFMT != unix.S_IFREG {
		return nil, errors.New("is not a regular file; remove it")
	}
	if trusted != nil {
		if err := trusted.check(uint32(st.Mode), st.Uid); err != nil {
			return nil, err
		}
		if err := trusted.directory(filepath.Dir(name)); err != nil {
			return nil, err
		}
	}
	data, err := io.ReadAll(io.LimitReader(f, MaxFile+1))
	if err != nil {
		return nil, fmt.Errorf("cannot be read: %w", err)
	}
	if len(data) > MaxFile {
		return nil, fmt.Errorf("has more than %d bytes; split it into files of policy.d", MaxFile)
	}
	return data, nil
}

func (o owners) check(mode, uid uint32) error {
	if !slices.Contains(o, uid) {
		return fmt.Errorf("belongs to uid %d, who may not write rules here; chown it", uid)
	}
	if mode&0o022 != 0 {
		return fmt.Errorf("has mode %04o: other users may write it; chmod go-w it", mode&0o7777)
	}
	return nil
}

func (o owners) directory(dir string) error {
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		return fmt.Errorf("its directory cannot be looked at: %w", err)
	}
	if err := o.check(uint32(st.Mode), st.Uid); err != nil {
		return fmt.Errorf("its directory %w", err)
	}
	return nil
}
