package policy

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"permd/ask"
)

func lint(t *testing.T, rules string) []Warning {
	t.Helper()
	faults, w := Lint(Text{"p.toml", []byte(rules), LayerUser})
	if faults != nil {
		t.Fatal(faults)
	}
	return w
}

// toml writes rules from one line each: "allow command=git push *; …".
func ruleLines(lines ...string) string {
	var b strings.Builder
	for _, l := range lines {
		verdict, rest, _ := strings.Cut(l, " ")
		fmt.Fprintf(&b, "[[rule]]\naction = %q\n", verdict)
		for part := range strings.SplitSeq(rest, "; ") {
			key, value, _ := strings.Cut(part, "=")
			if key == "except" {
				k, v, _ := strings.Cut(value, "=")
				fmt.Fprintf(&b, "except = [{ %s = %q }]\n", k, v)
				continue
			}
			fmt.Fprintf(&b, "%s = %q\n", key, value)
		}
	}
	return b.String()
}

func TestLint(t *testing.T) {
	for _, x := range []struct {
		rules string
		want  string // kinds with their lines, in order
	}{
		{ruleLines("allow command=go test *", "deny command=git push *", "ask path=~/.ssh"), ""},
		{"default = \"ask\"\n", ""},
		{"# rules\n  default = \"allow\"\n", "wide:2:3"},
		// A stricter rule holds of all that it matches.
		{ruleLines("allow command=git push origin main", "deny command=git push *"), "shadowed:1:3"},
		{ruleLines("allow command=git push", "deny command=git push *"), "shadowed:1:3"},
		{ruleLines("ask command=git push", "deny command=git *"), "shadowed:1:3"},
		{ruleLines("deny command=git push", "ask command=git *"), ""},
		{ruleLines("deny command=git push", "allow command=git log *"), ""},
		{ruleLines("allow tool=read; path=~/.ssh/config", "deny path=~/.ssh"), "shadowed:1:3"},
		{ruleLines("allow tool=read; path=~/.ssh/config", "deny path=~/.sshx"), ""},
		{ruleLines("allow tool=read; path=src/a", "deny tool=write; path=src/**"), ""},
		{ruleLines("allow tool=edit; path=src/a", "ask path=src/**"), "shadowed:1:3"},
		{ruleLines("allow server=db; name=drop_x", "deny server=*; name=drop_*"), "shadowed:1:3"},
		{ruleLines("allow server=db; name=get_x", "deny server=*; name=drop_*"), ""},
		{ruleLines("allow domain=a.example.org", "deny domain=*.example.org"), "shadowed:1:3"},
		{ruleLines("allow domain=example.org", "deny domain=*.example.org"), ""},
		{ruleLines("allow command=make x; client=claude", "deny command=make *"), "shadowed:1:3"},
		{ruleLines("allow command=make x", "deny command=make *; client=claude"), ""},
		{ruleLines("allow command=rm -r build", "deny command=rm *; except=command=rm -r build"), ""},
		// Another one says the same.
		{ruleLines("allow command=go test *", "allow command=go test *"), "repeated:4:3"},
		{ruleLines("allow command=go test ./a", "allow command=go test *"), "repeated:1:3"},
		{ruleLines("allow command=go test *", "allow command=go test ./a"), "repeated:4:3"},
		{ruleLines("deny command=rm -rf x; reason=because of x", "deny command=rm *"), ""},
		{ruleLines("ask command=git push --force *; risk=high", "ask command=git push *"), ""},
		{ruleLines("allow command=go test", "allow command=go test *"), ""}, // a star stands for one word at least
		// It forbids less than it looks.
		{ruleLines("deny command=git push --force"), "narrow:3:1"},
		{ruleLines("deny command=git push --force*", "ask command=npm run deploy*", "deny command=git push", "allow command=npm run lint*", "deny command=sudo"), ""},
		// It allows more than it looks.
		{ruleLines("allow tool=bash"), "wide:1:3"},
		{ruleLines("allow command=*"), "wide:3:1"},
		{ruleLines("allow command=git *"), "wide:3:1"},
		{ruleLines("allow command=python3 *"), "wide:3:1"},
		{ruleLines("allow command=python3.12 *"), "wide:3:1"},
		{ruleLines("allow command=/usr/bin/env *"), "wide:3:1"},
		{ruleLines("allow command=bash *"), "wide:3:1"},
		{ruleLines("allow command=sudo *"), "wide:3:1"},
		{ruleLines("allow command=xargs *"), "wide:3:1"},
		{ruleLines("allow command=rm *"), "wide:3:1"},
		{ruleLines("allow command=curl *"), "wide:3:1"},
		{ruleLines("allow command=python3 scripts/x.py *", "allow command=git log *", "allow command=make *", "allow class=read-only"), ""},
		{ruleLines("deny command=git *", "ask command=python3 *"), ""},
		{ruleLines("allow tool=write"), "wide:1:3"},
		{ruleLines("allow tool=read"), "wide:1:3"},
		{ruleLines("allow tool=edit; path=/**"), "wide:4:1"},
		{ruleLines("allow tool=edit; path=~/**"), "wide:4:1"},
		{ruleLines("allow tool=read; path=/**"), "wide:4:1"},
		{ruleLines("allow outside=project; tool=write"), "wide:1:3"},
		{ruleLines("allow tool=edit; path=<project>/**", "allow tool=read; path=/usr/share/**", "allow tool=read; path=**/README.md"), ""},
		{ruleLines("allow domain=*"), "wide:3:1"},
		{ruleLines("allow tool=webfetch"), "wide:1:3"},
		// The exception swallows its rule, or never matches.
		{ruleLines("deny command=git push *; except=command=git *"), "swallowed:4:13"},
		{ruleLines("deny path=src/gen/**; except=path=src/**"), "swallowed:4:13"},
		{ruleLines("deny domain=a.example.org; except=domain=*.example.org"), "swallowed:4:13"},
		{ruleLines("deny command=git push *; except=command=git push origin"), ""},
		{ruleLines("deny command=git push *; except=command=npm test"), "dead:4:13"},
		{ruleLines("deny command=git push *; except=command=git pull"), "dead:4:13"},
		{ruleLines("deny path=src/**; except=path=docs/**"), "dead:4:13"},
		{ruleLines("deny path=**/.env*; except=path=**/.env.example"), ""},
		{ruleLines("deny path=src/**; except=path=src/gen/**"), ""},
		{ruleLines("deny path=src/**; except=client=claude"), ""},
		{ruleLines("deny server=a; except=server=b"), "dead:4:13"},
		// It never has an effect.
		{ruleLines("allow tool=edit; path=~/.claude/settings.json"), "dead:4:1"},
		{ruleLines("allow tool=write; path=.permd/policy.toml"), "dead:4:1"},
		{ruleLines("allow tool=write; path=~/.bashrc"), "dead:4:1"},
		{ruleLines("allow tool=read; path=~/.bashrc"), ""},
	} {
		var got []string
		for _, w := range lint(t, x.rules) {
			got = append(got, fmt.Sprintf("%s:%d:%d", w.Kind, w.Line, w.Col))
			if w.File != "p.toml" || !strings.Contains(w.Text, ";") && w.Kind != LackSwallowed && w.Kind != LackDead {
				t.Errorf("%s\nno file or remedy: %+v", x.rules, w)
			}
		}
		if strings.Join(got, " ") != x.want {
			t.Errorf("%s\n%v, want %q\n%+v", x.rules, got, x.want, lint(t, x.rules))
		}
	}
}

// Rules of one file are held against those of the others; a file with a fault
// counts for nothing, and its faults are told.
func TestLintSeveralFiles(t *testing.T) {
	faults, warnings := Lint(
		Text{"a.toml", []byte(ruleLines("allow command=make deploy")), LayerUser},
		Text{"b.toml", []byte(ruleLines("deny command=make *")), LayerManaged},
		Text{"c.toml", []byte(ruleLines("deny comand=make *")), LayerUser},
		Text{"d.toml", []byte(ruleLines("allow command=make x y")), LayerProject},
	)
	if len(faults) != 1 || faults[0].File != "c.toml" {
		t.Errorf("%v", faults)
	}
	if len(warnings) != 2 || warnings[0].File != "a.toml" || !strings.Contains(warnings[0].Text, "b.toml line 1") || warnings[1].File != "d.toml" {
		t.Errorf("%+v", warnings)
	}
}

// What lint calls idle is: taking the rule out changes no verdict.
func TestIdleRulesAreIdle(t *testing.T) {
	rules := []string{
		"allow command=git push *", "deny command=git push *", "ask command=git *", "allow command=git log -n 5", "allow command=git log *", "deny path=src/**",
		"allow tool=edit; path=src/a.go", "ask path=src/gen", "allow tool=read; path=src/gen/x", "allow server=s; name=get*", "deny server=*; name=get_x", "ask server=s; name=get_x",
		"allow domain=*.example.org", "deny domain=a.example.org", "allow domain=a.example.org",
	}
	actions := []*ask.Action{
		bash("git push"), bash("git push x"), bash("git log -n 5"), bash("git log"), bash("git log x"), bash("cat src/a.go"), onFile(ask.ToolEdit, "src/a.go"), onFile(ask.ToolRead, "src/gen/x"),
		mcp("s", "get_x"), mcp("s", "get_y"), mcp("t", "get_x"), fetch("https://a.example.org/"), fetch("https://b.example.org/"),
	}
	seen := 0
	for i := range rules {
		for k := range rules {
			if i == k {
				continue
			}
			for _, w := range lint(t, ruleLines(rules[i], rules[k])) {
				if w.Kind != LackShadowed && w.Kind != LackRepeated {
					continue
				}
				seen++
				left := rules[k]
				if w.Line > 2 {
					left = rules[i]
				}
				for _, a := range actions {
					both, one := Decide(input(policyOf(t, ruleLines(rules[i], rules[k])), a)), Decide(input(policyOf(t, ruleLines(left)), a))
					if both.Verdict != one.Verdict {
						t.Errorf("%s and %s: %s; %s alone: %s, of %+v", rules[i], rules[k], both.Verdict, left, one.Verdict, a)
					}
				}
			}
		}
	}
	if seen < 10 {
		t.Errorf("only %d idle rules: the test is blind", seen)
	}
}

func policyOf(t *testing.T, text string) *Policy {
	t.Helper()
	f, err := Decode("p.toml", []byte(text), LayerUser)
	if err != nil {
		t.Fatal(err)
	}
	return Compile(f)
}

func TestExamine(t *testing.T) {
	good := "[[rule]]\naction = \"allow\"\ncommand = \"make\"\nmatch = [\"make\"]\nnot_match = [\"make x\", \"mak\"]\n"
	if faults, n := Examine(Text{"a", []byte(good), LayerUser}); faults != nil || n != 3 {
		t.Errorf("%v, %d", faults, n)
	}
	if faults, _ := Examine(Text{"a", []byte(good + "match_not = 1\n"), LayerUser}); len(faults) != 1 || faults[0].Line != 6 {
		t.Errorf("%v", faults)
	}
}

// Many rules are held against each other by program, not each against each.
func TestLintOfManyRules(t *testing.T) {
	var lines []string
	for i := range 2000 {
		lines = append(lines, fmt.Sprintf("allow command=tool%d run *", i), fmt.Sprintf("deny path=src/p%d/**", i))
	}
	began := time.Now()
	if w := lint(t, ruleLines(lines...)); len(w) != 0 {
		t.Errorf("%+v", w[0])
	}
	t.Logf("4,000 rules in %v", time.Since(began))
}

// Whatever a file says, lint ends, and speaks of no line that is not there.
func FuzzLint(f *testing.F) {
	f.Add(ruleLines("allow command=git *", "deny command=git push *; except=command=git push x", "ask path=~/.ssh/**", "allow server=s; name=g*"))
	f.Add("default = \"allow\"\n\n[[rule]]\naction = \"deny\"\nclass = \"read-only\"\npath = \"/etc/**\"\n[[rule.except]]\npath = \"/etc/x\"\n")
	f.Add("[[rule]]\naction=\"allow\"\ntool=\"task\"\nagent=\"a\"\n[[rule]]\naction=\"allow\"\ntool=\"task\"\nagent=\"a\"")
	f.Fuzz(func(t *testing.T, s string) {
		if len(s) > 8<<10 {
			return
		}
		faults, warnings := Lint(Text{"p.toml", []byte(s), LayerUser}, Text{"q.toml", []byte("[[rule]]\naction = \"deny\"\ntool = \"bash\"\n"), LayerManaged})
		lines := strings.Count(s, "\n") + 1
		for _, w := range warnings {
			if w.File == "p.toml" && (len(faults) > 0 || w.Line < 1 || w.Line > lines || w.Col < 1 || w.Text == "") {
				t.Errorf("%q: %+v, %v", s, w, faults)
			}
		}
	})
}
