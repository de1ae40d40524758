package hook

import (
	"os"
	"syscall"
)

func syncData(f *os.File) error { return syscall.Fdatasync(int(f.Fd())) }
