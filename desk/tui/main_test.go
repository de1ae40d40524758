package tui

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"permd/api"
	"permd/ask"
	"permd/desk"
	"permd/session"
)

// TestMain makes programs of the test binary: a terminal on the desk, and the
// desk process that it starts.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "terminal":
			os.Exit(terminal(os.Args[2]))
		case desk.Command:
			os.Exit(deskProcess(os.Args[3]))
		}
	}
	goleak.VerifyTestMain(m)
}

// terminal is what permd desk does, without its flags.
func terminal(root string) int {
	d, err := session.Find(root)
	if err != nil {
		fmt.Println(err)
		return 2
	}
	m := newModel()
	if os.Getenv("TEST_PANIC") != "" {
		began := time.Now()
		m.now = func() time.Time {
			if time.Since(began) > time.Second {
				panic("on purpose")
			}
			return time.Now()
		}
	}
	err = run(context.Background(), m, func(ctx context.Context) (*api.Answerer, error) {
		return desk.Connect(ctx, d, "test", api.Attach{Surface: "terminal", Label: "test", Faces: 1, Cap: ask.ScopeUser})
	}, os.Stdin, os.Stdout)
	if err != nil {
		fmt.Println("ended:", err)
		if errors.Is(err, ErrEnded) {
			return 0
		}
		return 1
	}
	return 0
}

func deskProcess(root string) int {
	ready := os.NewFile(4, "ready")
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	d, err := session.Find(root)
	if err == nil {
		err = desk.Run(ctx, desk.Options{Dirs: d, Build: "test", Started: func() {
			fmt.Fprintln(ready, "ok")
			ready.Close()
			os.NewFile(3, "lock").Close()
		}})
	}
	if err != nil {
		fmt.Fprintln(ready, err)
		return 1
	}
	return 0
}
