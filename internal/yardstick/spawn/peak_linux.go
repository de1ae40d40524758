package main

import "syscall"

func peakKiB(r *syscall.Rusage) int64 { return int64(r.Maxrss) }
