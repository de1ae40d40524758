package main

import "syscall"

// peakKiB: macOS counts bytes.
func peakKiB(r *syscall.Rusage) int64 { return r.Maxrss >> 10 }
