// Command hello is the floor of a hook that keeps a record: a static Go
// program starts, appends 220 bytes to the file "hello" in the directory given,
// syncs its data, and prints one line.
//
//	hello DIR
//
// Build it as permd-hook is built: CGO_ENABLED=0, -trimpath, -ldflags "-s -w".
package main

import (
	"bytes"
	"os"
	"path/filepath"
)

func main() {
	if len(os.Args) != 2 {
		os.Stderr.WriteString("usage: hello DIR\n")
		os.Exit(2)
	}
	if err := record(filepath.Join(os.Args[1], "hello")); err != nil {
		os.Stderr.WriteString(err.Error() + "\n")
		os.Exit(1)
	}
	os.Stdout.WriteString("hello\n")
}

func record(path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	line := append(bytes.Repeat([]byte{'.'}, 219), '\n')
	if _, err := f.Write(line); err != nil {
		return err
	}
	return syncData(f)
}
