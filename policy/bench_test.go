package policy

import (
	"fmt"
	"strings"
	"testing"

	"mvdan.cc/sh/v3/syntax"

	"permd/ask"
	"permd/policy/paths"
)

// typical are commands of an ordinary session.
var typical = []string{
	"git status", "git status --short", "git diff --stat HEAD~1", "git log --oneline -10", "git add -A", "git commit -m 'fix: one thing'", "git push origin main", "git checkout -b topic",
	"ls -la", "ls src", "cat src/main.go", "head -50 README.md", "tail -n 20 log.txt", "wc -l src/a.go", "grep -n 'func main' src/a.go", "rg -n foo src", "find . -name '*.go' -type f",
	"go test ./...", "go build ./cmd/x", "go vet ./...", "npm test", "npm run lint", "npm ci", "make test", "python3 script.py --flag value", "cargo build --release",
	"cd packages/core && git status", "ls | head -5", "grep -rn foo src | wc -l", "go test ./... 2>&1 | tail -20", "mkdir -p out && cp a.txt out/", "for f in a b c; do echo $f; done",
	"cat > notes.md <<'EOF'\nsome text; with things\nEOF", "echo \"$(date)\" >> log.txt", "docker compose up -d", "kubectl get pods -n web", "curl -sSL https://example.org/x -o x", "sed -n '10,20p' a.go",
}

// ruleSet makes n rules of the kinds that people write.
func ruleSet(n int) *Policy {
	var b strings.Builder
	for i := range n {
		switch i % 5 {
		case 0:
			fmt.Fprintf(&b, "[[rule]]\naction = \"allow\"\ncommand = \"tool%d run *\"\n", i)
		case 1:
			fmt.Fprintf(&b, "[[rule]]\naction = \"deny\"\ncommand = \"danger%d *\"\n", i)
		case 2:
			fmt.Fprintf(&b, "[[rule]]\naction = \"deny\"\ntool = \"read\"\npath = \"**/secret%d/**\"\n", i)
		case 3:
			fmt.Fprintf(&b, "[[rule]]\naction = \"allow\"\nserver = \"server%d\"\nname = \"get*\"\n", i)
		case 4:
			fmt.Fprintf(&b, "[[rule]]\naction = \"ask\"\ncommand = \"deploy%d --to *\"\nexcept = [{ command = \"deploy%d --to test\" }]\n", i, i)
		}
	}
	f, err := Decode("bench", []byte(b.String()), LayerUser)
	if err != nil {
		panic(err)
	}
	return Compile(f)
}

// BenchmarkDecide compares a decision with the parser alone over the same
// commands: decide-x-parse-50, decide-x-parse-1000 and rules-1000-x-50.
func BenchmarkDecide(b *testing.B) {
	actions := make([]*ask.Action, len(typical))
	for i, c := range typical {
		actions[i] = bash(c)
	}
	parser := syntax.NewParser(syntax.Variant(syntax.LangBash))
	b.Run("parse", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			for _, c := range typical {
				if _, err := parser.Parse(strings.NewReader(c), ""); err != nil {
					b.Fatal(err)
				}
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(typical)), "ns/command")
	})
	for _, n := range []int{50, 1000} {
		p := ruleSet(n).rebound(paths.Fixed{}, proj, home)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				for _, a := range actions {
					decide(p, a)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(typical)), "ns/command")
		})
	}
}

func BenchmarkLoadRules(b *testing.B) {
	p := ruleSet(1000)
	values, _ := p.Rules()
	text := Format(nil, values)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Decode("bench", text, LayerUser); err != nil {
			b.Fatal(err)
		}
	}
}
