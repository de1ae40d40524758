package host

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

// Uptime is the time since boot, with the time that the machine slept. Steps
// of the wall clock do not touch it. Compare it within one BootID only.
func Uptime() (time.Duration, error) {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		return 0, errors.Join(errors.New("boot-time clock"), err)
	}
	return time.Duration(ts.Nano()), nil
}

// BootID names the time since the last boot: 36 characters, the same for
// every process until the next boot.
func BootID() (string, error) {
	fd, err := openFD("/proc/sys/kernel/random/boot_id", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", errors.Join(errNoBootID, err)
	}
	defer unix.Close(fd)
	b, err := readFD(fd, 64)
	if err != nil {
		return "", errors.Join(errNoBootID, err)
	}
	return checkBootID(string(b))
}

// HideMemory makes this process one that others of the same user can neither
// trace nor read: memory, environment, descriptors. Call it at start, before
// any key exists.
//
// It ends core dumps and attaching a profiler or debugger. What is in
// /proc/<pid> then belongs to root: the process still reads its own, others
// of the same user still read stat, status and cmdline, but no longer exe,
// environ, cwd and fd. Exec ends it, a fork keeps it.
func HideMemory() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return errors.Join(errors.New("cannot hide memory"), err)
	}
	return nil
}
