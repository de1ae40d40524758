package policy

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"permd/ask"
	"permd/policy/paths"
)

// grant makes a grant as a surface would.
func grant(r ask.Rule, scope ask.Scope, session string) ask.Grant {
	return ask.Grant{ID: "g-" + session, Scope: scope, Session: session, Rule: r, By: ask.By{Kind: ask.KindUser, Surface: "terminal"}, Given: "2026-01-02T03:04:05Z"}
}

func keepAny(t *testing.T, r ask.Rule, a *ask.Action, scope ask.Scope, session string) Kept {
	t.Helper()
	k, err := Keep(grant(r, scope, session), a, paths.Fixed{}, Clock{Boot: "boot"})
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestOffers(t *testing.T) {
	for _, c := range []struct {
		a    *ask.Action
		want string // the rule, "" for no offer
	}{
		{bash("git push origin x"), `allow tool = "bash", command = "git push origin x", client = "claude"`},
		{bash("git commit -m 'a b; c'"), `allow tool = "bash", command = "git commit -m 'a b; c'", client = "claude"`},
		{bash("make"), `allow tool = "bash", command = "make", client = "claude"`},
		{bash("echo '*' > /dev/null"), ""},
		{bash("npm run 'x:*'"), `allow tool = "bash", command = "npm run 'x:*'", client = "claude"`},
		{bash("a; b"), ""}, {bash("a | b"), ""}, {bash("a $x"), ""}, {bash("a *.go"), ""}, {bash("A=1 b"), ""}, {bash("a &"), ""},
		{bash("sudo ls -la"), ""}, {bash("env a"), ""}, {bash("xargs rm"), ""}, {bash("bash -c 'a'"), ""}, {bash("busybox sh -c 'echo hi'"), ""}, {bash("/bin/zsh -lc 'whoami'"), ""}, {bash("find . -exec a {} +"), ""}, {bash("timeout 5 a"), ""}, {bash("eval a"), ""},
		{bash("tmux send-keys x"), ""}, {bash("crontab x"), ""}, {bash("docker run -v /:/x y"), ""}, {bash("git config core.pager x"), ""}, {bash("tee .envrc"), ""},
		{bash("claude -p x"), ""}, {bash("permd run -- x"), ""},
		{bash("python3 gone.py"), ""}, {bash("./gone.sh"), ""}, // what cannot be pinned
		{bash("python3 -c 'print(1)'"), `allow tool = "bash", command = "python3 -c 'print(1)'", client = "claude"`},
		{onFile(ask.ToolWrite, "a.go"), `allow tool = "write", path = "/home/dev/proj/a.go", client = "claude"`},
		{onFile(ask.ToolEdit, "a[1].go"), `allow tool = "edit", path = "/home/dev/proj/a\\[1\\].go", client = "claude"`},
		{onFile(ask.ToolRead, "/etc/hosts"), `allow tool = "read", path = "/etc/hosts", client = "claude"`},
		{onFile(ask.ToolWrite, "a", "b"), ""}, {onFile(ask.ToolWrite, ".git/hooks/x"), ""}, {onFile(ask.ToolWrite, "link"), ""}, {onFile(ask.ToolWrite, "/"), `allow tool = "write", path = "/", client = "claude"`},
		{mcp("db", "get"), `allow tool = "mcp", server = "db", name = "get", client = "claude"`},
		{mcp("db", "g*"), ""},
		{fetch("https://docs.example.org/a"), `allow tool = "webfetch", domain = "docs.example.org", client = "claude"`},
		{fetch("http://localhost:8080/"), `allow tool = "webfetch", domain = "localhost:8080", client = "claude"`},
		{fetch("https://u@docs.example.org/a"), ""}, {fetch("file:///x"), ""},
		{action(ask.ToolWebSearch, "WebSearch"), ""}, {action(ask.ToolOther, "SlashCommand"), ""},
	} {
		in := input(CompileAlone(), c.a)
		in.View = paths.Fixed{Links: map[string]string{proj + "/link": "/etc/shadow"}}
		offers := Offers(in, Decide(in))
		if c.want == "" {
			if len(offers) > 0 {
				t.Errorf("%s %+v: offered %s", c.a.Command, c.a.Paths, Line(&offers[0].Rule))
			}
			continue
		}
		if c.want == `allow tool = "write", path = "/", client = "claude"` { // the root is a directory with all in it
			if len(offers) > 0 {
				t.Errorf("offered the whole file system: %s", Line(&offers[0].Rule))
			}
			continue
		}
		var scopes []ask.Scope
		for _, o := range offers {
			if !strings.HasSuffix(o.ID, "-sub") {
				scopes = append(scopes, o.Scope)
			}
		}
		if !slices.Equal(scopes, []ask.Scope{ask.ScopeSession, ask.ScopeTree, ask.ScopeProject, ask.ScopeUser}) || Line(&offers[0].Rule) != c.want {
			t.Errorf("%s %+v %s: %+v", c.a.Command, c.a.Paths, c.a.URL, offers)
		}
		if _, err := ask.OffersDigest(offers); err != nil {
			t.Error(err)
		}
	}
	project := mcp("db", "get")
	project.MCP.Source = "project"
	in := input(CompileAlone(), project)
	if o := Offers(in, Decide(in)); len(o) > 0 {
		t.Errorf("a project's server: %+v", o)
	}
	in = input(CompileAlone(), bash("make"))
	in.Node = Claimed
	if o := Offers(in, Decide(in)); len(o) > 0 {
		t.Errorf("to a session that only claims to be below: %+v", o)
	}
}

func TestGrantsCoverExactlyWhatWasGranted(t *testing.T) {
	give := bash("make clean")
	k := keepAny(t, ask.Rule{Action: ask.Allow, Tool: "bash", Command: "make clean", Client: "claude"}, give, ask.ScopeSession, "s1")
	elsewhere := bash("make clean")
	elsewhere.Cwd = home + "/other"
	codex := bash("make clean")
	codex.Client = "codex"
	for _, c := range []struct {
		why  string
		in   Input
		want ask.Verdict
	}{
		{"the same", input(Compile(), bash("make clean")), ask.Allow},
		{"more words", input(Compile(), bash("make clean all")), ask.Prompt},
		{"fewer", input(Compile(), bash("make")), ask.Prompt},
		{"other spacing", input(Compile(), bash("make   clean")), ask.Allow},
		{"with something before it", input(Compile(), bash("x; make clean")), ask.Prompt},
		{"with a redirection", input(Compile(), bash("make clean > x")), ask.Prompt},
		{"with a variable", input(Compile(), bash("A=1 make clean")), ask.Prompt},
		{"behind a wrapper", input(Compile(), bash("sudo make clean")), ask.Prompt},
		{"by a path", input(Compile(), bash("./make clean")), ask.Prompt},
		{"another directory", input(Compile(), elsewhere), ask.Prompt},
		{"another client", input(Compile(), codex), ask.Prompt},
	} {
		c.in.Grants = []Kept{k}
		r := Decide(c.in)
		if r.Verdict != c.want {
			t.Errorf("%s: %s, want %s", c.why, r.Verdict, c.want)
		}
		if r.Verdict == ask.Allow && (r.By.Kind != ask.KindGrant || r.By.Grant != "g-s1") {
			t.Errorf("%s: by %+v", c.why, r.By)
		}
	}
	other := input(Compile(), bash("make clean"))
	other.Origin, other.Grants = "s2", []Kept{k}
	if r := Decide(other); r.Verdict != ask.Prompt {
		t.Errorf("another session: %s", r.Verdict)
	}
}

func TestAGrantCoversTheFilesOfItsCommand(t *testing.T) {
	p := Compile(file(t, "p", "[[rule]]\naction = \"ask\"\noutside = \"project\"\n[[rule]]\naction = \"deny\"\npath = \"/etc/shadow\"\n", LayerUser))
	for cmd, want := range map[string]ask.Verdict{"cat /etc/hosts": ask.Allow, "mytool /srv/x": ask.Allow, "cat /etc/shadow": ask.Deny} {
		in := input(p, bash(cmd))
		if r := Decide(in); r.Verdict == ask.Allow {
			t.Fatalf("%q is allowed anyway", cmd)
		}
		in.Grants = []Kept{keepAny(t, ask.Rule{Action: ask.Allow, Command: cmd}, bash(cmd), ask.ScopeSession, "s1")}
		if r := Decide(in); r.Verdict != want {
			t.Errorf("%q: %s, want %s: %s", cmd, r.Verdict, want, r.Reason)
		}
	}
}

func TestTreeGrants(t *testing.T) {
	k := keepAny(t, ask.Rule{Action: ask.Allow, Command: "make x"}, bash("make x"), ask.ScopeTree, "root")
	for _, c := range []struct {
		origin, here string
		above        []string
		node         Node
		want         ask.Verdict
	}{
		{"root", "root", nil, Origin, ask.Allow},
		{"child", "root", []string{"root"}, Verified, ask.Allow},
		{"grandchild", "root", []string{"child", "root"}, Verified, ask.Allow},
		{"child", "child", []string{"root"}, Origin, ask.Allow},
		{"child", "root", []string{"root"}, Claimed, ask.Prompt},
		{"stranger", "stranger", nil, Origin, ask.Prompt},
	} {
		a := bash("make x")
		Complete(a, paths.Fixed{})
		in := input(Compile(), a)
		in.Origin, in.Here, in.Above, in.Node, in.Grants = c.origin, c.here, c.above, c.node, []Kept{k}
		if r := Decide(in); r.Verdict != c.want {
			t.Errorf("%+v: %s", c, r.Verdict)
		}
	}
}

func TestExpiry(t *testing.T) {
	g := grant(ask.Rule{Action: ask.Allow, Command: "make x"}, ask.ScopeSession, "s1")
	g.ExpiresMS = 60_000
	k, err := Keep(g, bash("make x"), paths.Fixed{}, Clock{Boot: "b1", Up: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		now  Clock
		want ask.Verdict
	}{
		{Clock{"b1", time.Hour}, ask.Allow},
		{Clock{"b1", time.Hour + 59_999*time.Millisecond}, ask.Allow},
		{Clock{"b1", time.Hour + 60_000*time.Millisecond}, ask.Prompt},
		{Clock{"b1", 2 * time.Hour}, ask.Prompt},
		{Clock{"b1", time.Minute}, ask.Prompt}, // before it was given
		{Clock{"b2", time.Hour}, ask.Prompt},   // after a restart
		{Clock{"", time.Hour}, ask.Prompt},
	} {
		in := input(Compile(), bash("make x"))
		in.Now, in.Grants = c.now, []Kept{k}
		if r := Decide(in); r.Verdict != c.want {
			t.Errorf("%+v: %s", c.now, r.Verdict)
		}
	}
	if left, ok := k.Left(Clock{"b1", time.Hour + 20*time.Second}); !ok || left != 40*time.Second {
		t.Errorf("left %v %v", left, ok)
	}
	if left, ok := k.Left(Clock{"b2", 0}); !ok || left != 0 {
		t.Errorf("left after a restart %v %v", left, ok)
	}
	k.Grant.ExpiresMS = 0
	if _, ok := k.Left(Clock{}); ok {
		t.Error("a grant without an end has time left")
	}
}

func TestPins(t *testing.T) {
	dir := t.TempDir()
	script := filepath.Join(dir, "run.sh")
	write := func(s string) {
		if err := os.WriteFile(script, []byte(s), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, cmd := range []string{"./run.sh a", "sh run.sh a", "sh -e " + script} {
		write("echo one")
		a := bash(cmd)
		a.Cwd, a.Project = dir, dir
		in := input(Compile(), a)
		in.View = paths.Disk{}
		offers := Offers(in, Decide(in))
		if len(offers) == 0 {
			t.Errorf("%q: nothing is offered", cmd)
			continue
		}
		k, err := Keep(grant(offers[0].Rule, ask.ScopeSession, "s1"), a, paths.Disk{}, Clock{})
		if err != nil || len(k.Pins) != 1 {
			t.Fatalf("%q: %+v, %v", cmd, k, err)
		}
		in.Grants = []Kept{k}
		if r := Decide(in); r.Verdict != ask.Allow {
			t.Errorf("%q: %s", cmd, r.Verdict)
		}
		write("echo two")
		if r := Decide(in); r.Verdict != ask.Prompt {
			t.Errorf("%q: %s after the script changed", cmd, r.Verdict)
		}
		if err := os.Remove(script); err != nil {
			t.Fatal(err)
		}
		if r := Decide(in); r.Verdict != ask.Prompt {
			t.Errorf("%q: %s after the script was removed", cmd, r.Verdict)
		}
	}
}

func TestKeepRefuses(t *testing.T) {
	for _, c := range []struct {
		rule ask.Rule
		a    *ask.Action
	}{
		{ask.Rule{Action: ask.Allow, Command: "git *"}, bash("git push x")},
		{ask.Rule{Action: ask.Allow, Command: "git push"}, bash("git push x")}, // another command than was asked about
		{ask.Rule{Action: ask.Allow, Tool: "bash"}, bash("git push x")},
		{ask.Rule{Action: ask.Allow, Command: "*"}, bash("git push x")},
		{ask.Rule{Action: ask.Allow, Class: "read-only"}, bash("ls")},
		{ask.Rule{Action: ask.Allow, Command: "sudo ls"}, bash("sudo ls")},
		{ask.Rule{Action: ask.Allow, Command: "at now"}, bash("at now")},
		{ask.Rule{Action: ask.Allow, Tool: "read", Path: "/**"}, onFile(ask.ToolRead, "x")},
		{ask.Rule{Action: ask.Allow, Tool: "read", Path: "src/*"}, onFile(ask.ToolRead, "src/x")},
		{ask.Rule{Action: ask.Allow, Tool: "read", Path: "src/"}, onFile(ask.ToolRead, "src/x")},
		{ask.Rule{Action: ask.Allow, Tool: "read", Outside: "project"}, onFile(ask.ToolRead, "/x")},
		{ask.Rule{Action: ask.Allow, Tool: "read"}, onFile(ask.ToolRead, "x")},
		{ask.Rule{Action: ask.Allow, Path: "/x"}, onFile(ask.ToolRead, "/x")},
		{ask.Rule{Action: ask.Allow, Tool: "write", Path: proj + "/.envrc"}, onFile(ask.ToolWrite, ".envrc")},
		{ask.Rule{Action: ask.Allow, Server: "db"}, mcp("db", "x")},
		{ask.Rule{Action: ask.Allow, Server: "db", Name: "g*"}, mcp("db", "get")},
		{ask.Rule{Action: ask.Allow, Domain: "*"}, fetch("https://x.org")},
		{ask.Rule{Action: ask.Allow, Domain: "*.x.org"}, fetch("https://a.x.org")},
		{ask.Rule{Action: ask.Allow, Tool: "websearch"}, action(ask.ToolWebSearch, "WebSearch")},
		{ask.Rule{Action: ask.Allow, Tool: "task"}, action(ask.ToolTask, "Task")},
		{ask.Rule{Action: ask.Allow, Tool: "SlashCommand"}, action(ask.ToolOther, "SlashCommand")},
		{ask.Rule{Action: ask.Allow, Command: "a; b"}, bash("a; b")},
	} {
		if _, err := Keep(grant(c.rule, ask.ScopeSession, "s1"), c.a, paths.Fixed{}, Clock{}); !errors.Is(err, ErrNotGrantable) {
			t.Errorf("%s: %v", Line(&c.rule), err)
		}
	}
	if _, err := Keep(grant(ask.Rule{Action: ask.Deny, Command: "x"}, ask.ScopeSession, "s1"), bash("x"), paths.Fixed{}, Clock{}); err == nil {
		t.Error("kept a grant that denies")
	}
}

func openGrants(t *testing.T) (*Grants, string) {
	t.Helper()
	state := filepath.Join(t.TempDir(), "state")
	g, err := OpenGrants(state)
	if err != nil {
		t.Fatal(err)
	}
	return g, state
}

func TestGrantsAreKept(t *testing.T) {
	g, state := openGrants(t)
	now := Clock{Boot: "boot", Up: time.Hour}
	a := keepAny(t, ask.Rule{Action: ask.Allow, Command: "make x"}, bash("make x"), ask.ScopeSession, "s1")
	b := keepAny(t, ask.Rule{Action: ask.Allow, Tool: "read", Path: "/x"}, onFile(ask.ToolRead, "/x"), ask.ScopeTree, "s1")
	b.Grant.ID = "g-tree"
	c := keepAny(t, ask.Rule{Action: ask.Allow, Server: "db", Name: "get"}, mcp("db", "get"), ask.ScopeSession, "s2")
	for _, k := range []Kept{a, b, c} {
		if err := g.Add(k); err != nil {
			t.Fatal(err)
		}
	}
	again, err := OpenGrants(state) // another process, or a resume
	if err != nil {
		t.Fatal(err)
	}
	for _, store := range []*Grants{g, again} {
		got, _, err := store.Of(now, "s1", "s2", "s1", "s3")
		if err != nil || len(got) != 3 {
			t.Fatalf("%+v, %v", got, err)
		}
		all, err := store.List(now)
		if err != nil || len(all) != 3 || all[0].Grant.ID != "g-s1" || all[2].Grant.Session != "s2" {
			t.Fatalf("%+v, %v", all, err)
		}
	}
	in := input(Compile(), bash("make x"))
	in.Grants, _, _ = again.Of(now, "s1")
	if r := Decide(in); r.Verdict != ask.Allow {
		t.Errorf("a grant that was read back: %s", r.Verdict)
	}
	if err := again.Revoke("s1", "g-s1"); err != nil {
		t.Fatal(err)
	}
	if got, _, _ := g.Of(now, "s1"); len(got) != 1 || got[0].Grant.ID != "g-tree" {
		t.Errorf("after a revocation in another process: %+v", got)
	}
	if err := g.Revoke("s1", "g-s1"); !errors.Is(err, ErrNoGrant) {
		t.Errorf("%v", err)
	}
	if err := g.End("s1"); err != nil {
		t.Fatal(err)
	}
	if got, _ := again.List(now); len(got) != 1 {
		t.Errorf("the tree has ended: %+v", got)
	}
	if err := g.End("s9"); err != nil {
		t.Errorf("a tree without grants: %v", err)
	}
	if entries, _ := filepath.Glob(filepath.Join(state, "grants", "*.json")); len(entries) != 1 {
		t.Errorf("left over: %q", entries)
	}
	if info, err := os.Stat(filepath.Join(state, "grants", "s2.json")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info, err)
	}
}

func TestBadGrantFiles(t *testing.T) {
	now := Clock{Boot: "boot"}
	for name, spoil := range map[string]func(file string) error{
		"half":       func(f string) error { return os.Truncate(f, 20) },
		"not ours":   func(f string) error { return os.Chmod(f, 0o666) },
		"a link":     func(f string) error { return errors.Join(os.Rename(f, f+"x"), os.Symlink(f+"x", f)) },
		"a pipe":     func(f string) error { return errors.Join(os.Remove(f), mkfifo(f)) },
		"of another": func(f string) error { return replace(f, `"session":"s1","grants"`, `"session":"s2","grants"`) },
		"a deny":     func(f string) error { return replace(f, `"action":"allow"`, `"action":"deny"`) },
		"a wide one": func(f string) error { return replace(f, `"command":"make x"`, `"command":"make *"`) },
		"a space":    func(f string) error { return replace(f, `{"v":1`, `{ "v":1`) },
		"a new key":  func(f string) error { return replace(f, `{"v":1`, `{"x":1,"v":1`) },
		"a version":  func(f string) error { return replace(f, `{"v":1`, `{"v":2`) },
		"too large":  func(f string) error { return os.Truncate(f, maxGrantsFile+1) },
	} {
		t.Run(name, func(t *testing.T) {
			g, state := openGrants(t)
			for _, s := range []string{"s1", "s0"} {
				if err := g.Add(keepAny(t, ask.Rule{Action: ask.Allow, Command: "make x"}, bash("make x"), ask.ScopeSession, s)); err != nil {
					t.Fatal(err)
				}
			}
			if err := spoil(filepath.Join(state, "grants", "s1.json")); err != nil {
				t.Fatal(err)
			}
			fresh, err := OpenGrants(state)
			if err != nil {
				t.Fatal(err)
			}
			got, _, err := fresh.Of(now, "s1", "s0")
			if err == nil || len(got) != 1 || got[0].Grant.Session != "s0" {
				t.Errorf("%+v, %v", got, err)
			}
			if err := fresh.Add(keepAny(t, ask.Rule{Action: ask.Allow, Command: "make y"}, bash("make y"), ask.ScopeSession, "s1")); err == nil {
				t.Error("wrote over a file that could not be read")
			}
		})
	}
	g, _ := openGrants(t)
	for _, id := range []string{"", ".", "..", "a/b", "../x"} {
		if _, _, err := g.Of(now, id); err == nil {
			t.Errorf("session id %q", id)
		}
		if err := g.Revoke(id, "x"); err == nil {
			t.Errorf("session id %q", id)
		}
	}
	if err := g.Add(Kept{Grant: grant(ask.Rule{Action: ask.Allow, Command: "x"}, ask.ScopeSession, "s1")}); err == nil {
		t.Error("added what Keep did not make")
	}
}

func replace(name, from, to string) error {
	data, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	if !strings.Contains(string(data), from) {
		return fmt.Errorf("%s has no %s", data, from)
	}
	return os.WriteFile(name, []byte(strings.Replace(string(data), from, to, 1)), 0o600)
}

func TestGrantsOfManyWriters(t *testing.T) {
	g, state := openGrants(t)
	var wg sync.WaitGroup
	const writers, each = 4, 8
	for w := range writers {
		store := g
		if w%2 == 1 {
			var err error
			if store, err = OpenGrants(state); err != nil {
				t.Fatal(err)
			}
		}
		wg.Go(func() {
			for i := range each {
				k := keepAny(t, ask.Rule{Action: ask.Allow, Command: fmt.Sprintf("make x%d-%d", w, i)}, bash(fmt.Sprintf("make x%d-%d", w, i)), ask.ScopeSession, "s1")
				k.Grant.ID = fmt.Sprintf("g%d-%d", w, i)
				if err := store.Add(k); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if got, _, err := g.Of(Clock{}, "s1"); err != nil || len(got) != writers*each {
		t.Errorf("%d grants of %d, %v", len(got), writers*each, err)
	}
}

func TestTooManyGrants(t *testing.T) {
	g, _ := openGrants(t)
	k := keepAny(t, ask.Rule{Action: ask.Allow, Command: "make x"}, bash("make x"), ask.ScopeSession, "s1")
	var many []Kept
	for i := range maxGrants {
		c := k
		c.Grant.ID = fmt.Sprintf("g%d", i)
		many = append(many, c)
	}
	if err := g.write("s1", many); err != nil {
		t.Fatal(err)
	}
	if err := g.Add(k); err == nil {
		t.Error("no bound")
	}
	k.Grant.ID = "g7"
	if err := g.Add(k); err != nil {
		t.Errorf("replacing one: %v", err)
	}
}
