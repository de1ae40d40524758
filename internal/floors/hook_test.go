package floors

import (
	"errors"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const hookCommand = "permd/cmd/permd-hook"

// hookImports is all that permd-hook links, but for the standard library's own
// internal packages. An entry more is paid for at every tool call: measure it
// (make bench BENCH=Hook) before it is entered here.
var hookImports = []string{
	"permd/api/hookwire",
	"permd/cmd/permd-hook",
	"permd/hook",
	"permd/internal/host",
	"permd/session",

	"golang.org/x/sys/unix",

	// os and what it stands on.
	"bytes", "cmp", "context", "errors", "io", "io/fs", "iter", "math", "math/bits", "os", "path", "path/filepath",
	"runtime", "slices", "strconv", "strings", "sync", "sync/atomic", "syscall", "time", "unicode", "unicode/utf8", "unsafe",
	// Byte order; reflect and sort come with it and with x/sys, and are not used.
	"encoding/binary", "reflect", "sort",
	// Session ids that do not fit are hashed.
	"crypto", "crypto/cipher", "crypto/fips140", "crypto/sha256", "crypto/subtle", "hash",
}

// hookImportsOn is what a system adds.
var hookImportsOn = map[string][]string{
	// The password database is asked through libSystem there.
	"darwin": {"os/user", "fmt"},
}

// tooHeavy are the packages that come in by accident, with what they cost, and
// what to use instead.
var tooHeavy = map[string]string{
	"fmt":           "formatting by reflection and its tables; use strconv and +",
	"encoding/json": "the hook reads no JSON; the node does",
	"encoding/hex":  "imports fmt; write the digits",
	"net":           "its resolver and poller cost as much as all that the hook does; use x/sys/unix",
	"net/http":      "1.2 × a hello-world by itself",
	"os/exec":       "looks into PATH, which is the agent's, and brings context and fmt; use syscall.ForkExec",
	"os/signal":     "the hook is withdrawn by its death, and handles no signal",
	"regexp":        "compiles at start",
	"flag":          "imports fmt and reflect",
	"log":           "imports fmt",
	"text/template": "reflection",
	"math/rand":     "seeds at start",
	"crypto/tls":    "nothing is sent anywhere",
	"permd/ask":     "brings JSON",
	"permd/api":     "brings JSON and net",
	"permd/node":    "is the other end",
}

func TestHookLinksWhatItMust(t *testing.T) {
	for _, goos := range systems {
		want := slices.Concat(hookImports, hookImportsOn[goos])
		got := strings.Fields(list(t, goos, "-deps", hookCommand))
		for _, fault := range hookFaults(got, want) {
			t.Errorf("%s: %s", goos, fault)
		}
		if goos != "linux" {
			continue
		}
		// What has gone is to be taken off the list.
		for _, pkg := range want {
			if !slices.Contains(got, pkg) {
				t.Errorf("the hook does not link %s any more; take it off the list", pkg)
			}
		}
	}
}

func hookFaults(got, allowed []string) []string {
	var out []string
	for _, pkg := range got {
		inside := strings.HasPrefix(pkg, "internal/") || strings.HasPrefix(pkg, "vendor/") ||
			strings.HasPrefix(pkg, "runtime/") || strings.HasPrefix(pkg, "crypto/internal/")
		switch why, heavy := tooHeavy[pkg]; {
		case slices.Contains(allowed, pkg):
		case heavy:
			out = append(out, "the hook links "+pkg+": "+why)
		case !inside:
			out = append(out, "the hook links "+pkg+", which is not on its list")
		}
	}
	return out
}

func TestHookFaults(t *testing.T) {
	for pkg, want := range map[string]string{
		"fmt": "strconv", "net": "x/sys/unix", "permd/ask": "JSON", "permd/policy": "not on its list",
		"unicode/utf16": "not on its list", "os": "", "internal/poll": "", "crypto/internal/boring": "", "permd/session": "",
	} {
		got := strings.Join(hookFaults([]string{pkg}, hookImports), "\n")
		if (want == "") != (got == "") || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", pkg, got, want)
		}
	}
}

// What a package may do at the start of the hook. The dearest that cannot be
// left out is os, with 9 allocations.
const (
	maxInitAllocs = 16
	maxInitBytes  = 2048
	// ours may make their errors, and no more.
	maxOurInitAllocs = 8
	// all is everything together; a bare hello-world has 24.
	maxAllInitAllocs = 64
)

// hookInits are the packages that do anything at start. It is the list of a
// hello-world and, after the line, what the hook adds.
var hookInits = []string{
	"internal/bytealg", "internal/runtime/gc/scan", "runtime", "errors", "iter", "sync", "internal/godebug", "syscall", "time",
	"internal/poll", "io/fs", "os",
	// ---
	"context", "math", "unicode", "reflect", "path/filepath", "golang.org/x/sys/unix",
	"crypto", "crypto/fips140", "crypto/sha256",
	"permd/api/hookwire", "permd/hook", "permd/internal/host", "permd/session",
}

// initTrace is one line of GODEBUG=inittrace=1.
type initTrace struct {
	pkg           string
	bytes, allocs int
}

func TestHookStartsWithNothingToDo(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the list is that of Linux")
	}
	noticed(t)
	program := filepath.Join(t.TempDir(), "permd-hook")
	build := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", program, hookCommand)
	build.Env = append(build.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	// Without a client it ends at once, with all its packages started.
	cmd := exec.Command(program)
	cmd.Env = []string{"GODEBUG=inittrace=1"}
	var stderr strings.Builder
	cmd.Stderr = &stderr
	var exit *exec.ExitError
	if err := cmd.Run(); !errors.As(err, &exit) || exit.ExitCode() != 2 {
		t.Fatalf("%v, want code 2\n%s", err, stderr.String())
	}
	trace := parseTrace(t, stderr.String())
	if !slices.ContainsFunc(trace, func(i initTrace) bool { return i.pkg == "os" }) {
		t.Fatalf("no trace: %q", stderr.String())
	}
	for _, fault := range initFaults(trace) {
		t.Error(fault)
	}
}

// parseTrace reads "init os @0.75 ms, 0.011 ms clock, 416 bytes, 9 allocs".
func parseTrace(t *testing.T, text string) []initTrace {
	t.Helper()
	var out []initTrace
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) != 11 || f[0] != "init" || f[10] != "allocs" {
			continue
		}
		bytes, err1 := strconv.Atoi(f[7])
		allocs, err2 := strconv.Atoi(f[9])
		if err1 != nil || err2 != nil {
			t.Fatalf("line %q", line)
		}
		out = append(out, initTrace{f[1], bytes, allocs})
	}
	return out
}

func initFaults(trace []initTrace) []string {
	var out []string
	all := 0
	for _, i := range trace {
		all += i.allocs
		most := maxInitAllocs
		if strings.HasPrefix(i.pkg, "permd/") {
			most = maxOurInitAllocs
		}
		what := i.pkg + " does " + strconv.Itoa(i.allocs) + " allocations of " + strconv.Itoa(i.bytes) + " bytes at the hook's start"
		switch {
		case i.allocs > most || i.bytes > maxInitBytes:
			out = append(out, what+", which is too much")
		case !slices.Contains(hookInits, i.pkg) && !strings.HasPrefix(i.pkg, "crypto/internal/"):
			out = append(out, what+", and is not on the list of those that may")
		}
	}
	if all > maxAllInitAllocs {
		out = append(out, "all packages together do "+strconv.Itoa(all)+" allocations at the hook's start, more than "+strconv.Itoa(maxAllInitAllocs))
	}
	return out
}

func TestInitFaults(t *testing.T) {
	for _, c := range []struct {
		trace []initTrace
		want  string
	}{
		{[]initTrace{{"os", 416, 9}}, ""},
		{[]initTrace{{"os", 416, 17}}, "too much"},
		{[]initTrace{{"unicode", 4096, 4}}, "too much"},
		{[]initTrace{{"permd/hook", 64, 9}}, "too much"},
		{[]initTrace{{"regexp", 10, 1}}, "not on the list"},
		{[]initTrace{{"permd/policy", 0, 0}}, "not on the list"},
		{slices.Repeat([]initTrace{{"os", 100, 13}}, 5), "all packages together"},
	} {
		got := strings.Join(initFaults(c.trace), "\n")
		if (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
			t.Errorf("%+v: %q, want %q", c.trace, got, c.want)
		}
	}
	line := "init os @0.75 ms, 0.011 ms clock, 416 bytes, 9 allocs\nhello\n"
	if got := parseTrace(t, line); !slices.Equal(got, []initTrace{{"os", 416, 9}}) {
		t.Errorf("%q is read as %+v", line, got)
	}
}
