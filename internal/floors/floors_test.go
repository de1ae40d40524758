package floors

import (
	"io/fs"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

// floor says where a package stands, and with it all that lies under it, unless
// that is entered itself. A package may import what is on its own floor or
// below.
var floor = map[string]int{
	"permd/internal/host": 0,

	"permd/ask":       1,
	"permd/session":   1,
	"permd/api":       1,
	"permd/review":    1,
	"permd/heartbeat": 1,

	"permd/policy":   2,
	"permd/liveness": 2,
	"permd/broker":   2,
	"permd/clients":  2,

	"permd/authority":  3,
	"permd/forwarding": 3,
	"permd/remote":     3,

	"permd/selection": 4,

	"permd/node": 5,
	"permd/desk": 5,

	"permd/hook":           6,
	"permd/cmd/permd-hook": 6,
	"permd/cmd/permd":      6,

	// Beside the floors: they stand on nothing but each other, and the floors
	// may use what is not for tests alone.
	"permd/internal/standin":    0,
	"permd/internal/realclient": 0,
	// Whole-system tests stand on everything and nothing stands on them.
	"permd/internal/e2e":         6,
	"permd/internal/claudecheck": 6,
	"permd/internal/yardstick":   0,
	"permd/internal/benchtable":  0,
	"permd/internal/floors":      0,
	"permd/scripts":              0,
}

// never are imports that the floors would allow. Each has its reason.
var never = []struct{ from, to, why string }{
	{"permd/desk", "permd/node", "the desk attaches to nodes over api, and is restarted without them"},
	{"permd/node", "permd/desk", "a node does not know who answers"},
	{"permd/hook", "permd/api", "the hook's dialect is api/hookwire: api brings JSON"},
	{"permd/api/hookwire", "permd", "the hook links hookwire, which stands alone"},
	{"permd/session", "permd/ask", "the hook links session, and ask brings JSON"},
	{"permd", "permd/internal/yardstick", "a yardstick is built and run by benchmarks, never linked"},
	{"permd", "permd/internal/realclient", "it is for tests"},
	{"permd", "permd/scripts", "they are for building"},
	{"permd/internal/standin", "permd", "the stand-in for a model is no part of what it tests"},
	{"permd/internal/yardstick", "permd", "a yardstick is bare"},
}

// among are exceptions to never: these use what lies beside them.
var among = []string{"permd/internal/yardstick", "permd/internal/realclient", "permd/internal/standin", "permd/scripts", "permd/node", "permd/desk"}

// allowed are single exceptions to never.
var allowed = map[[2]string]bool{
	{"permd/hook", "permd/api/hookwire"}:                    true,
	{"permd/internal/realclient", "permd/internal/standin"}: true,
}

// commandsOnly are outside libraries for commands alone.
var commandsOnly = map[string]string{
	"github.com/spf13/viper": "settings are read once, by the commands; it costs every program that links it 1 ms at start",
	"github.com/spf13/cobra": "command lines are the commands' business",
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// systems are those that permd is built for.
var systems = []string{"linux", "darwin"}

// imports lists what each package of the module imports, without its tests.
func imports(t *testing.T, goos string) map[string][]string {
	t.Helper()
	out := list(t, goos, "-e", "-f", `{{.ImportPath}} {{join .Imports " "}}`, "permd/...")
	pkgs := map[string][]string{}
	for line := range strings.Lines(out) {
		f := strings.Fields(line)
		pkgs[f[0]] = f[1:]
	}
	if len(pkgs) == 0 {
		t.Fatal("no packages found")
	}
	return pkgs
}

// noticed lets the go command's test cache notice every change of the module's
// sources: it does not see what the go list and go build in here read.
func noticed(t *testing.T) {
	t.Helper()
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && (d.Name() == ".git" || d.Name() == "testdata") {
			return filepath.SkipDir
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func list(t *testing.T, goos string, args ...string) string {
	t.Helper()
	noticed(t)
	cmd := exec.Command("go", append([]string{"list"}, args...)...)
	cmd.Env = append(cmd.Environ(), "GOOS="+goos, "CGO_ENABLED=0")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list %q: %v\n%s", args, err, stderr.String())
	}
	return string(out)
}

// under says whether pkg is dir or lies under it.
func under(dir, pkg string) bool {
	return pkg == dir || strings.HasPrefix(pkg, dir+"/")
}

// floorOf finds the floor of a package by the nearest entry.
func floorOf(pkg string) (int, bool) {
	best, at := "", 0
	for dir, n := range floor {
		if under(dir, pkg) && len(dir) > len(best) {
			best, at = dir, n
		}
	}
	return at, best != ""
}

func TestNothingImportsUpward(t *testing.T) {
	for _, goos := range systems {
		for pkg, deps := range imports(t, goos) {
			for _, fault := range faults(pkg, deps) {
				t.Errorf("%s: %s", goos, fault)
			}
		}
	}
}

// faults is what is wrong with what a package imports.
func faults(pkg string, deps []string) []string {
	var out []string
	own, known := floorOf(pkg)
	if !known {
		out = append(out, pkg+" is on no floor; enter it in the table of internal/floors")
	}
	for _, dep := range deps {
		if why, found := commandsOnly[dep]; found && !under("permd/cmd", pkg) {
			out = append(out, pkg+" imports "+dep+": "+why)
		}
		if !under("permd", dep) {
			continue
		}
		if at, found := floorOf(dep); known && found && at > own {
			out = append(out, pkg+" imports "+dep+", which is above it")
		}
		if strings.HasSuffix(dep, "test") && !strings.HasSuffix(pkg, "test") {
			out = append(out, pkg+" imports "+dep+": packages of that name are for tests")
		}
		if allowed[[2]string{pkg, dep}] || beside(pkg, dep) {
			continue
		}
		for _, n := range never {
			if under(n.from, pkg) && under(n.to, dep) {
				out = append(out, pkg+" imports "+dep+": "+n.why)
			}
		}
	}
	return out
}

func beside(pkg, dep string) bool {
	return slices.ContainsFunc(among, func(dir string) bool { return under(dir, pkg) && under(dir, dep) })
}

// The rules themselves find what they are for.
func TestFaults(t *testing.T) {
	for _, c := range []struct {
		pkg, dep string
		want     string // "" for none
	}{
		{"permd/node", "permd/selection", ""},
		{"permd/selection", "permd/node", "above"},
		{"permd/ask", "permd/policy", "above"},
		{"permd/ask", "permd/internal/host", ""},
		{"permd/internal/host", "permd/ask", "above"},
		{"permd/policy", "permd/policy/shell", ""},
		{"permd/policy/shell", "permd/authority", "above"},
		{"permd/remote/wire", "permd/broker", ""},
		{"permd/clients/claude", "permd/node", "above"},
		{"permd/desk/tui", "permd/node", "attaches"},
		{"permd/desk/tui", "permd/desk", ""},
		{"permd/hook", "permd/api", "JSON"},
		{"permd/hook", "permd/api/hookwire", ""},
		{"permd/cmd/permd", "permd/hook", ""},
		{"permd/cmd/permd", "permd/internal/standin", ""},
		{"permd/node", "permd/internal/yardstick/mailbox", "never linked"},
		{"permd/internal/yardstick/filerelay", "permd/internal/yardstick/mailbox", ""},
		{"permd/internal/yardstick/filerelay", "permd/session", "bare"},
		{"permd/internal/realclient/fetch", "permd/internal/realclient", ""},
		{"permd/node", "permd/internal/realclient", "for tests"},
		{"permd/cmd/permd", "github.com/spf13/viper", ""},
		{"permd/session", "github.com/spf13/viper", "1 ms"},
		{"permd/desk", "github.com/spf13/cobra", "commands"},
		{"permd/util", "strings", "on no floor"},
		{"permd/cmdx", "strings", "on no floor"},
		{"permd/internal/new", "strings", "on no floor"},
		{"permd/api/hookwire", "permd/internal/host", "alone"},
		{"permd/review", "permd/review/reviewtest", "are for tests"},
		{"permd/review/reviewtest", "permd/review", ""},
		{"permd/internal/realclient", "permd/internal/standin", ""},
		{"permd/node", "permd/internal/realclient/fetch", "for tests"},
	} {
		got := strings.Join(faults(c.pkg, []string{c.dep}), "\n")
		if (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s importing %s: %q, want %q", c.pkg, c.dep, got, c.want)
		}
	}
}
