package desk

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"permd/session"
)

// TestMain makes a desk process of the test binary when it is started as one.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == Command {
		os.Exit(deskProcess(os.Args[2:]))
	}
	goleak.VerifyTestMain(m)
}

// deskProcess is what the hidden command does, without its flags.
func deskProcess(args []string) int {
	ready, lock := os.NewFile(4, "ready"), os.NewFile(3, "lock")
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	say := func(text string) {
		fmt.Fprintln(ready, text)
		ready.Close()
		lock.Close()
	}
	if len(args) != 2 || args[0] != "--root" {
		say(fmt.Sprintf("arguments %q", args))
		return 2
	}
	d, err := session.Find(args[1])
	if err != nil {
		say(err.Error())
		return 2
	}
	if why, err := os.ReadFile(args[1] + "/refuse"); err == nil {
		say(string(why))
		return 1
	}
	if wd, err := os.Getwd(); err != nil || wd != "/" {
		say("it was started in " + wd)
		return 1
	}
	err = Run(ctx, Options{Dirs: d, Build: "test", Started: func() { say("ok") }})
	if errors.Is(err, ErrRunning) {
		say("ok")
		return 0
	}
	if err != nil {
		say(err.Error())
		return 1
	}
	return 0
}
