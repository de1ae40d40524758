package tui

import (
	"fmt"
	"os"
	"testing"
	"time"

	"permd/desk/desktest"
)

func TestLook(t *testing.T) {
	if os.Getenv("LOOK") == "" {
		t.Skip("by hand")
	}
	d := desktest.Dirs(t)
	n := desktest.Start(t, d, "n-1")
	fmt.Println(d.Root)
	n.Put("make -C build all && rm -rf \u202eevil")
	long := ""
	for i := range 60 {
		long += fmt.Sprintf("echo line %d\n", i)
	}
	n.Put(long)
	time.Sleep(300 * time.Second)
}
