package hook

import (
	"flag"
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"go.uber.org/goleak"
)

// TestMain makes programs of the test binary, in one directory at the front of
// PATH: permd-hook is the hook, permd beside it a node that does what its root
// says (fakenode_test.go), lockholder takes a lock and keeps it.
func TestMain(m *testing.M) {
	testscript.Main(leakless{m}, map[string]func(){
		"permd-hook": func() { os.Exit(Main(os.Args[1:], os.Environ(), 0, 1, 2)) },
		"permd":      func() { os.Exit(fakeNode(os.Args[1:])) },
		"ensurer":    func() { os.Exit(ensurer(os.Args[1:])) },
		"lockholder": func() { os.Exit(lockHolder(os.Args[1:])) },
	})
}

// leakless is goleak.VerifyTestMain for testscript, which ends the process
// itself.
type leakless struct{ *testing.M }

func (l leakless) Run() int {
	// Most tests wait for a deadline of the hook most of the time.
	flag.Parse()
	_ = flag.Set("test.parallel", "12")
	code := l.M.Run()
	if err := goleak.Find(); code == 0 && err != nil {
		os.Stderr.WriteString("goroutines are left: " + err.Error() + "\n")
		return 1
	}
	return code
}
