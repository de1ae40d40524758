package host

import (
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// TrimStart gives back the pages of this program's own file that start-up has
// touched and a running process does not: the read-only mappings are dropped
// and come back from the file where they are needed. A process that lives for
// hours should not hold what it used for milliseconds. An error is of no
// consequence.
func TrimStart() error {
	exe, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return err
	}
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(maps)) {
		f := strings.Fields(line)
		// Only clean pages of a private file mapping can be read again.
		if len(f) < 6 || f[5] != exe || f[1] != "r-xp" && f[1] != "r--p" {
			continue
		}
		from, to, ok := strings.Cut(f[0], "-")
		if !ok {
			continue
		}
		a, err1 := strconv.ParseUint(from, 16, 64)
		b, err2 := strconv.ParseUint(to, 16, 64)
		if err1 != nil || err2 != nil || b <= a {
			continue
		}
		if _, _, e := unix.Syscall(unix.SYS_MADVISE, uintptr(a), uintptr(b-a), unix.MADV_DONTNEED); e != 0 {
			err = e
		}
	}
	return err
}
