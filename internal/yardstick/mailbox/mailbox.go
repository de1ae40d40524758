// Package mailbox is a directory through which one process asks another, with
// nothing but what the file system gives: a message is written in one folder
// and renamed into the other, which its reader watches or looks at.
//
//	DIR/ask/{tmp,new}       from the child
//	DIR/answer/{tmp,new}    from the parent, under the same name
//
// It syncs nothing, checks nothing, and has room for one child.
package mailbox

import (
	"os"
	"path/filepath"
)

// Size is the size of a message in bytes: an ask with a short command.
const Size = 600

// Box is one direction.
type Box string

// Make makes the folders and returns both directions.
func Make(dir string) (ask, answer Box, err error) {
	ask, answer = Box(filepath.Join(dir, "ask")), Box(filepath.Join(dir, "answer"))
	for _, b := range []Box{ask, answer} {
		for _, folder := range []string{b.tmp(), b.New()} {
			if err := os.MkdirAll(folder, 0o700); err != nil {
				return "", "", err
			}
		}
	}
	return ask, answer, nil
}

// New is the folder in which messages arrive.
func (b Box) New() string { return filepath.Join(string(b), "new") }

func (b Box) tmp() string { return filepath.Join(string(b), "tmp") }

// Put makes a message appear whole.
func (b Box) Put(name string, message []byte) error {
	tmp := filepath.Join(b.tmp(), name)
	if err := os.WriteFile(tmp, message, 0o600); err != nil {
		return err
	}
	return os.Rename(tmp, filepath.Join(b.New(), name))
}

// Take reads a message and removes it. The error is os.ErrNotExist while there
// is none of that name.
func (b Box) Take(name string) ([]byte, error) {
	path := filepath.Join(b.New(), name)
	message, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return message, os.Remove(path)
}

// Names lists what has arrived.
func (b Box) Names() ([]string, error) {
	entries, err := os.ReadDir(b.New())
	if err != nil {
		return nil, err
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names, nil
}
