// Command poll250 is the relay of asks through files as it is mostly built:
// both sides look into their folder every 250 ms. Its usage is that of
// filerelay.
//
//	poll250 parent DIR
//	poll250 child DIR COUNT
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"permd/internal/yardstick/mailbox"
)

const period = 250 * time.Millisecond

func main() {
	err := errors.New("usage: poll250 parent DIR | poll250 child DIR COUNT")
	switch {
	case len(os.Args) == 3 && os.Args[1] == "parent":
		err = parent(os.Args[2])
	case len(os.Args) == 4 && os.Args[1] == "child":
		var count int
		if count, err = strconv.Atoi(os.Args[3]); err == nil {
			err = child(os.Args[2], count)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "poll250:", err)
		os.Exit(1)
	}
}

func parent(dir string) error {
	ask, answer, err := mailbox.Make(dir)
	if err != nil {
		return err
	}
	ended := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(ended)
	}()
	fmt.Println("ready")
	tick := time.NewTicker(period)
	defer tick.Stop()
	for {
		select {
		case <-ended:
			return nil
		case <-tick.C:
		}
		names, err := ask.Names()
		if err != nil {
			return err
		}
		for _, name := range names {
			message, err := ask.Take(name)
			if err != nil {
				return err
			}
			if err := answer.Put(name, message); err != nil {
				return err
			}
		}
	}
}

// patience is how many looks it takes to call a relay broken.
const patience = 40

func child(dir string, count int) error {
	ask, answer, err := mailbox.Make(dir)
	if err != nil {
		return err
	}
	message := make([]byte, mailbox.Size)
	for i := range count {
		name := strconv.Itoa(os.Getpid()) + "-" + strconv.Itoa(i)
		begun := time.Now()
		if err := ask.Put(name, message); err != nil {
			return err
		}
		for look := 0; ; look++ {
			time.Sleep(period)
			_, err := answer.Take(name)
			if err == nil {
				break
			}
			if !errors.Is(err, os.ErrNotExist) || look == patience {
				return err
			}
		}
		fmt.Println(time.Since(begun).Nanoseconds())
	}
	return nil
}
