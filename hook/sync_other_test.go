//go:build !linux

package hook

import "os"

func syncData(f *os.File) error { return f.Sync() }
