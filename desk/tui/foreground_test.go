package tui

import (
	"os"

	"golang.org/x/sys/unix"
)

// foreground is the process group that has the terminal, as kill wants it.
func foreground(tty *os.File) (int, error) {
	group, err := unix.IoctlGetInt(int(tty.Fd()), unix.TIOCGPGRP)
	return -group, err
}
