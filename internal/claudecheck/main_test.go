package claudecheck

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"permd/internal/e2e"
)

func TestMain(m *testing.M) {
	e2e.Main(m, func(code int) {
		if code == 0 {
			if err := goleak.Find(); err != nil {
				fmt.Fprintln(os.Stderr, err)
				code = 1
			}
		}
		os.Exit(code)
	})
}
