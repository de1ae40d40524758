package host

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

// Uptime is the time since boot, with the time that the machine slept (on
// macOS the monotonic clock counts it). Steps of the wall clock do not touch
// it. Compare it within one BootID only.
func Uptime() (time.Duration, error) {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return 0, errors.Join(errors.New("boot-time clock"), err)
	}
	return time.Duration(ts.Nano()), nil
}

// BootID names the time since the last boot: 36 characters, the same for
// every process until the next boot.
func BootID() (string, error) {
	id, err := unix.Sysctl("kern.bootsessionuuid")
	if err != nil {
		return "", errors.Join(errNoBootID, err)
	}
	return checkBootID(id)
}

// HideMemory makes this process one that no debugger can attach to. Call it
// at start, before any key exists. A process that is already traced is ended
// by the system with code 45.
func HideMemory() error {
	if err := unix.PtraceDenyAttach(); err != nil {
		return errors.Join(errors.New("cannot hide memory"), err)
	}
	return nil
}
