// Command ticker is the floor of a process that shows that it lives: a bare Go
// ticker that writes a beat in place. It prints "ready" and ends when its
// standard input does.
//
//	ticker FILE [PERIOD]    PERIOD is 2s unless given
package main

import (
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"time"
)

// size is that of a beat: a counter, a boot id, a clock.
const size = 64

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "ticker:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	period := 2 * time.Second
	switch len(args) {
	case 1:
	case 2:
		var err error
		if period, err = time.ParseDuration(args[1]); err != nil || period <= 0 {
			return fmt.Errorf("%q is not a period", args[1])
		}
	default:
		return fmt.Errorf("usage: ticker FILE [PERIOD]")
	}
	f, err := os.OpenFile(args[0], os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	ended := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(ended)
	}()
	fmt.Println("ready")
	tick := time.NewTicker(period)
	defer tick.Stop()
	var beat [size]byte
	for count := uint64(1); ; count++ {
		select {
		case <-ended:
			return nil
		case now := <-tick.C:
			binary.BigEndian.PutUint64(beat[:], count)
			binary.BigEndian.PutUint64(beat[8:], uint64(now.UnixNano()))
			if _, err := f.WriteAt(beat[:], 0); err != nil {
				return err
			}
		}
	}
}
