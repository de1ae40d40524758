package policy

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"permd/ask"
)

// allowedRules allow what people allow for an ordinary session.
var allowedRules = []string{"go test *", "go build *", "go vet *", "npm test", "npm run lint", "make", "make test", "pytest *", "cargo test *", "git add *", "git commit *", "golangci-lint run *"}

// allowedCommands are allowed by one of these rules, or only read.
var allowedCommands = [][]string{
	{"go", "test", "./..."}, {"go", "test", "-run", "TestA|TestB", "./policy"}, {"go", "build", "./..."}, {"go", "vet", "./..."}, {"npm", "test"}, {"npm", "run", "lint"}, {"make"}, {"make", "test"},
	{"pytest", "-q", "tests/test_a.py"}, {"cargo", "test", "--all"}, {"git", "add", "src/a.go"}, {"git", "commit", "-m", "fix: a; b && c"}, {"golangci-lint", "run", "./..."},
	{"git", "status", "--short"}, {"git", "diff", "--stat"}, {"git", "log", "--oneline", "-5"}, {"ls", "-la", "src"}, {"cat", "go.mod"}, {"grep", "-rn", "func main", "src"}, {"wc", "-l", "go.mod"},
}

// first are ways to begin in another directory.
var first = around("%s", " %s ", "# a note\n%s", "\n\n%s", "cd src && %s", "cd src; %s", "cd . && %s", "( cd src && %s )", "cd '"+proj+"/src' && %s", "cd "+proj+" && %s", "cd "+proj+"\n%s", "pushd src && %s", "cd src || exit 1; %s")

// filters are readers at the end of a pipe.
var filters = []string{"head", "head -20", "head -n 5", "tail -5", "tail -n +2", "grep -v ok", "grep -iE 'fail|error'", "wc -l", "sort", "sort -u", "sort | uniq -c", "cat", "cut -d: -f1", "tr a-z A-Z", "sed -n 1,20p", "uniq", "nl", "rev"}

// What agents like to put around one simple command, inside out.
var (
	starters  = around("%s", "timeout 60 %s", "timeout -k 5 60 %s", "nice %s", "nice -n 10 %s", "stdbuf -oL %s", "command %s", "env TZ=UTC %s", "timeout 5 nice %s")
	variables = around("%s", "%s", "%s", "TZ=UTC %s", "LC_ALL=C %s", "NO_COLOR=1 %s", "CI=1 LANG=C %s", "FORCE_COLOR=0 %s", "time %s", "time -p %s")
	streams   = around("%s", "%s", "%s", "%s 2>&1", "%s 2>/dev/null", "%s >/dev/null", "%s > /dev/null 2>&1", "%s &>/dev/null", "%s 1>&2", "%s </dev/null")
)

// decorations are what they like to put around any. None changes what it does.
var decorations = []func(r *rand.Rand, cmd string) string{
	around("%s && echo done", "%s || echo failed", "%s; echo $?", "echo start; %s", "echo \"a; b\" && %s", "true && %s", "%s || true", "%s && %s", "%s; %s", "echo '---'; %s", "%s\necho ok", "pwd && %s", "date; %s", "%s &&\n%s"),
	around("( %s )", "{ %s; }", "if %s; then echo ok; fi", "if true; then %s; else echo no; fi", "for i in 1 2 3; do %s; done", "for f in a.go b.go; do echo $f; %s; done", "while false; do %s; done", "! %s", "time %s", "[ -d src ] && %s", "test -f go.mod && %s", "[[ -f go.mod ]] && %s", "case a in a) %s;; esac"),
	around("set -e; %s", "set -o pipefail; %s", "set -euo pipefail\n%s"),
	func(r *rand.Rand, cmd string) string { return cmd + " | " + pick(r, filters) },
	func(r *rand.Rand, cmd string) string { return cmd + " 2>&1 | " + pick(r, filters) },
	func(r *rand.Rand, cmd string) string {
		return cmd + " 2>&1 | " + pick(r, filters) + " | " + pick(r, filters)
	},
	func(r *rand.Rand, cmd string) string {
		return cmd + pick(r, []string{" && ", "; ", " || ", "\n"}) + plainCommand(r)
	},
	func(r *rand.Rand, cmd string) string {
		return plainCommand(r) + pick(r, []string{" && ", "; ", " || ", "\n"}) + cmd
	},
}

func around(of ...string) func(*rand.Rand, string) string {
	return func(r *rand.Rand, cmd string) string { return place1(pick(r, of), cmd) }
}

// plainCommand writes one of the commands, its words quoted in one way or
// another.
func plainCommand(r *rand.Rand) string {
	var words []string
	for _, w := range pick(r, allowedCommands) {
		write := plainly
		if r.IntN(4) == 0 {
			write = pick(r, []func(string) string{single, double})
		}
		words = append(words, write(w))
	}
	return strings.Join(words, pick(r, []string{" ", " ", " ", "  ", " \\\n  "}))
}

func decorate(r *rand.Rand) string {
	cmd := streams(r, variables(r, starters(r, plainCommand(r))))
	for range r.IntN(3) {
		if cmd = pick(r, decorations)(r, strings.TrimSpace(cmd)); strings.HasPrefix(cmd, "! ") {
			break // no second one before it
		}
	}
	return first(r, cmd) + pick(r, []string{"", "", "", ";", " # a note", " #", " \\\n", "\n\n"})
}

// However an allowed command is decorated, it does not ask: people who are
// asked about what they allowed stop reading.
func TestT8NoDecorationAsks(t *testing.T) {
	const least = 2000
	n := 2 * least
	if inCI() && !raceOn {
		n *= 10
	}
	text := ""
	for _, c := range allowedRules {
		text += fmt.Sprintf("[[rule]]\naction = \"allow\"\ncommand = %q\n", c)
	}
	p, r := Compile(file(t, "policy.toml", text, LayerUser)), rand.New(rand.NewPCG(9, 2026))
	seen, failed := map[string]bool{}, map[string]string{}
	for len(seen) < n {
		text := decorate(r)
		if seen[text] {
			continue
		}
		seen[text] = true
		if res := decide(p, bash(text)); res.Verdict != ask.Allow {
			failed[text] = res.Verdict.String() + ": " + res.Reason
		}
	}
	shortest(t, failed)
	t.Logf("%d decorations of %d commands, %d asked", len(seen), len(allowedCommands), len(failed))
}
