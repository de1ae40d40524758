// Command spawn runs programs in turn, round after round, and prints for each
// run the program's number, wall and CPU time in nanoseconds, its peak memory
// in KiB and its exit code (-1 for death by a signal):
//
//	spawn ROUNDS STDIN PROGRAM [ARG...] [-- PROGRAM [ARG...]]...
//
// STDIN is the file that each run gets as standard input; the outputs go to
// /dev/null, the environment is spawn's own. The time is from just before the
// fork to just after the wait.
//
// It is a small program of its own because of the memory: the kernel counts
// what the parent had at the fork into the peak of the child, and a test binary
// has more than a hook.
package main

import (
	"os"
	"strconv"
	"syscall"
	"time"
)

func main() {
	if len(os.Args) < 4 {
		fail("usage: spawn ROUNDS STDIN PROGRAM [ARG...] [-- PROGRAM [ARG...]]...")
	}
	rounds, err := strconv.Atoi(os.Args[1])
	if err != nil || rounds < 1 {
		fail("ROUNDS is not a number above 0")
	}
	programs := split(os.Args[3:])
	for range rounds {
		for i, argv := range programs {
			run(i, argv, os.Args[2])
		}
	}
}

func split(args []string) [][]string {
	programs := [][]string{nil}
	for _, a := range args {
		last := len(programs) - 1
		if a == "--" {
			programs = append(programs, nil)
			continue
		}
		programs[last] = append(programs[last], a)
	}
	for _, p := range programs {
		if len(p) == 0 {
			fail("a program is missing")
		}
	}
	return programs
}

func run(number int, argv []string, stdin string) {
	in := open(stdin, syscall.O_RDONLY)
	out := open(os.DevNull, syscall.O_WRONLY)
	attr := &syscall.ProcAttr{Env: os.Environ(), Files: []uintptr{uintptr(in), uintptr(out), uintptr(out)}}
	var status syscall.WaitStatus
	var used syscall.Rusage
	begun := time.Now()
	pid, err := syscall.ForkExec(argv[0], argv, attr)
	if err != nil {
		fail(argv[0] + ": " + err.Error())
	}
	for {
		_, err = syscall.Wait4(pid, &status, 0, &used)
		if err != syscall.EINTR {
			break
		}
	}
	wall := time.Since(begun)
	if err != nil {
		fail("wait: " + err.Error())
	}
	_ = syscall.Close(in)
	_ = syscall.Close(out)
	line := strconv.Itoa(number) +
		" " + strconv.FormatInt(int64(wall), 10) +
		" " + strconv.FormatInt(used.Utime.Nano()+used.Stime.Nano(), 10) +
		" " + strconv.FormatInt(peakKiB(&used), 10) +
		" " + strconv.Itoa(status.ExitStatus()) + "\n"
	if _, err := os.Stdout.WriteString(line); err != nil {
		os.Exit(1)
	}
}

func open(path string, how int) int {
	fd, err := syscall.Open(path, how|syscall.O_CLOEXEC, 0)
	if err != nil {
		fail(path + ": " + err.Error())
	}
	return fd
}

func fail(why string) {
	os.Stderr.WriteString("spawn: " + why + "\n")
	os.Exit(2)
}
