package host

import "testing"

// The program goes on after its own pages were dropped.
func TestTrimStart(t *testing.T) {
	for range 3 {
		if err := TrimStart(); err != nil {
			t.Fatal(err)
		}
		if _, err := BootID(); err != nil {
			t.Fatal(err)
		}
	}
}
