package policy

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"permd/ask"
)

const triage = "[[authorizer]]\nexec = [\"/usr/local/bin/triage\", \"--short\"]\n"

func TestDecodeAuthorizers(t *testing.T) {
	f, err := Decode("p", []byte(denyRM+triage+"[[authorizer]]\nname = \"second\"\nexec = [\"/bin/x\"]\ntimeout = \"2s\"\npaths = true\noutside = true\n"+allowMake), LayerUser)
	if err != nil {
		t.Fatal(err)
	}
	if len(f.Links) != 2 || len(f.rules) != 2 {
		t.Fatalf("%+v, %d rules", f.Links, len(f.rules))
	}
	a, b := f.Links[0], f.Links[1]
	if a.Name != "triage" || len(a.Exec) != 2 || a.Timeout() != DefaultLinkTimeout || a.Paths || a.Outside || a.Ref.Line != 4 {
		t.Errorf("%+v", a)
	}
	if b.Name != "second" || b.Timeout() != 2*time.Second || !b.Paths || !b.Outside {
		t.Errorf("%+v", b)
	}
	for text, want := range map[string]string{
		"[[authorizer]]\n": "no exec", "[[authorizer]]\nexec = []\n": "0 words", "[[authorizer]]\nexec = \"/bin/x\"\n": "a list", "[[authorizer]]\nexec = [\"triage\"]\n": "no absolute path",
		"[[authorizer]]\nexec = [\"./x\"]\n": "no absolute path", "[[authorizer]]\nexec = [\"/bin/../tmp/x\"]\n": "no absolute path", "[[authorizer]]\nexec = [\"/bin/x\", 1]\n": "text in quotes",
		"[[authorizer]]\nexec = [\"/bin/x\"]\nexce = 1\n": "exce", "[[authorizer]]\nexec = [\"/bin/x\"]\ntimeout = \"2\"\n": "duration", "[[authorizer]]\nexec = [\"/bin/x\"]\ntimeout = \"2h\"\n": "at most",
		"[[authorizer]]\nexec = [\"/bin/x\"]\ntimeout = \"0s\"\n": "duration", "[[authorizer]]\nexec = [\"/bin/x\"]\npaths = \"yes\"\n": "true or false", "[authorizer]\nexec = [\"/bin/x\"]\n": "[[authorizer]]",
		triage + triage: "second authorizer", "[[authorizer]]\nname = \"a b\"\nexec = [\"/bin/x\"]\n": "no name", "[[authorizers]]\nexec = [\"/bin/x\"]\n": "authorizer",
	} {
		f, err := Decode("p", []byte(text), LayerUser)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
		if text != triage+triage && len(f.Links) > 0 {
			t.Errorf("%q: %+v", text, f.Links)
		}
	}
	if f, err := Decode("p", []byte(triage), LayerProject); err == nil || len(f.Links) > 0 {
		t.Errorf("a project names an authorizer: %v", err)
	}
}

// A new authorizer can allow, so it waits for a person; one that is taken out
// is gone at once; an administrator's holds at once.
func TestAuthorizersWaitForAPerson(t *testing.T) {
	b := newBench(t)
	b.write(user, denyRM)
	names := func() string { return linkList(b.store.Policy(b.project).Links()) }
	if names() != "" {
		t.Fatal(names())
	}
	b.write(user, denyRM+triage)
	if names() != "" {
		t.Errorf("it holds without a person: %s", names())
	}
	p := b.store.Pending()
	if p == nil || !strings.Contains(p.Text, "+ authorizer triage exec /usr/local/bin/triage --short") {
		t.Fatalf("%+v", p)
	}
	b.apply()
	if names() != "triage" {
		t.Errorf("%s", names())
	}
	b.reopen()
	if names() != "triage" {
		t.Errorf("in another process: %s", names())
	}
	b.write(user, denyRM+strings.Replace(triage, "--short", "--long", 1))
	if names() != "" || b.store.Pending() == nil {
		t.Errorf("changed: %s", names())
	}
	b.write(user, denyRM+triage+"\n# a comment\n")
	b.reopen()
	if names() != "" {
		t.Errorf("what was taken out came back without a person: %s", names())
	}
	b.apply()
	b.write("managed/a.toml", "[[authorizer]]\nname = \"company\"\nexec = [\"/bin/x\"]\n")
	if names() != "company triage" {
		t.Errorf("%s", names())
	}
	b.write(user, denyRM)
	if names() != "company" || b.store.Pending() != nil {
		t.Errorf("taken out: %s, %+v", names(), b.store.Pending())
	}
	b.write(projectFile, triage)
	if names() != "company" || b.store.Problem() == nil {
		t.Errorf("a project's: %s", names())
	}
}

// A program in permd's own directory that changes is not the one that was
// applied: it waits for a person again, at once where it is looked for.
func TestAnAuthorizerThatChangesWaits(t *testing.T) {
	b := newBench(t)
	program := filepath.Join(b.places.Config, "triage")
	write := func(text string) {
		if err := os.WriteFile(program, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	write("#!/bin/sh\n")
	b.write(user, "[[authorizer]]\nexec = [\""+program+"\"]\n")
	links := func() []Link { return b.store.Policy(b.project).Links() }
	if l := links(); len(l) != 1 || len(l[0].Pins) != 1 || l[0].CheckProgram(b.places.Config) != nil {
		t.Fatalf("%+v", l)
	}
	write("#!/bin/sh\necho '{\"decision\":\"allow\"}'\n")
	if err := links()[0].CheckProgram(b.places.Config); err == nil {
		t.Error("it is run")
	}
	p := b.store.Pending()
	if p == nil || !strings.Contains(p.Text, "triage with content ") {
		t.Fatalf("%+v", p)
	}
	if l := links(); len(l) != 0 {
		t.Errorf("%+v", l)
	}
	write("#!/bin/sh\necho '{\"decision\":\"deny\"}'\n")
	if err := b.store.Apply("dev", p.ID); err == nil {
		t.Error("another content than the one that was shown is applied")
	}
	b.apply()
	if l := links(); len(l) != 1 || l[0].CheckProgram(b.places.Config) != nil {
		t.Errorf("%+v", l)
	}
	b.reopen()
	if l := links(); len(l) != 1 || b.store.Pending() != nil {
		t.Errorf("%+v, %+v", l, b.store.Pending())
	}
}

func linkList(l []Link) string {
	var out []string
	for _, x := range l {
		out = append(out, x.Name)
	}
	return strings.Join(out, " ")
}

// The envelope: what a decider may be asked about.
func TestWhatAuthorizersMayDecide(t *testing.T) {
	p := Compile(file(t, "u", "[[rule]]\naction = \"deny\"\ncommand = \"rm *\"\n[[rule]]\naction = \"ask\"\npath = \"<project>/asked/**\"\n", LayerUser),
		file(t, "m", "[[rule]]\naction = \"ask\"\ncommand = \"terraform apply *\"\n", LayerManaged))
	broken := Compile()
	broken.broken = "the rules cannot be read"
	for _, c := range []struct {
		why                      string
		p                        *Policy
		a                        *ask.Action
		plain, paths, outs, both bool
	}{
		{"a command", p, bash("make x"), true, true, true, true},
		{"a command on a file of the project", p, bash("mytool src/a"), true, true, true, true},
		{"a fetch", p, fetch("https://example.org"), true, true, true, true},
		{"a tool of a server", p, mcp("db", "get"), true, true, true, true},
		{"a command on a file outside", p, bash("mytool /srv/x"), false, false, true, true},
		{"a file that a rule asks about", p, bash("cat asked/x"), false, true, false, true},
		{"a write", p, onFile(ask.ToolWrite, "a.go"), false, true, false, true},
		{"a read outside", p, onFile(ask.ToolRead, "/srv/x"), false, false, false, true},
		{"what is not understood", p, bash("eval \"$x\""), false, false, false, true},
		{"what an administrator wants asked", p, bash("terraform apply x"), false, false, false, false},
		{"what drives a terminal", p, bash("tmux send-keys x"), false, false, false, false},
		{"what runs later", p, bash("crontab x"), false, false, false, false},
		{"while rules are broken", broken, bash("make x"), false, false, false, false},
		{"what is denied", p, bash("rm x"), false, false, false, false},
		{"what is allowed", p, bash("ls"), false, false, false, false},
	} {
		in := input(c.p, c.a)
		r := Decide(in)
		for _, x := range []struct {
			paths, outside, want bool
		}{{false, false, c.plain}, {true, false, c.paths}, {false, true, c.outs}, {true, true, c.both}} {
			l := &Link{Paths: x.paths, Outside: x.outside}
			if why := l.May(in, r); (why == "") != x.want {
				t.Errorf("%s, paths %t, outside %t: %q (%s: %s)", c.why, x.paths, x.outside, why, r.Verdict, r.Reason)
			}
			claimed := in
			claimed.Node = Claimed
			if l.May(claimed, r) == "" {
				t.Errorf("%s: for a session that only claims to be below", c.why)
			}
		}
	}
}

// A program that agents of this user could have written is not run.
func TestAuthorizerPrograms(t *testing.T) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	own, other := filepath.Join(root, "own"), filepath.Join(root, "other")
	for _, dir := range []string{own, other} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	write := func(dir, name string, mode os.FileMode) string {
		f := filepath.Join(dir, name)
		if err := os.WriteFile(f, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(f, mode); err != nil {
			t.Fatal(err)
		}
		return f
	}
	link := filepath.Join(own, "link")
	if err := os.Symlink(write(other, "target", 0o777), link); err != nil {
		t.Fatal(err)
	}
	isRoot := os.Geteuid() == 0
	for _, c := range []struct {
		why  string
		exec []string
		ok   bool
	}{
		{"root's", []string{"/bin/true"}, true},
		{"in permd's own directory", []string{write(own, "a", 0o700)}, true},
		{"anybody may write it", []string{write(own, "b", 0o777)}, false},
		{"its group may write it", []string{write(own, "c", 0o770)}, false},
		{"no program", []string{write(own, "d", 0o600)}, false},
		{"a directory", []string{own}, false},
		{"not there", []string{filepath.Join(own, "gone")}, false},
		{"a link to what anybody may write", []string{link}, false},
		{"the user's, elsewhere", []string{write(other, "e", 0o700)}, isRoot},
		{"a script that anybody may write", []string{"/bin/sh", write(other, "f", 0o666)}, false},
		{"a script in permd's own directory", []string{"/bin/sh", write(own, "g", 0o600)}, true},
		{"an argument that is no file", []string{"/bin/sh", "/no/such/file", "-x"}, true},
	} {
		l := Link{Exec: c.exec}.pinned(own)
		if err := l.CheckProgram(own); (err == nil) != c.ok {
			t.Errorf("%s: %v", c.why, err)
		}
	}
	a := filepath.Join(own, "a")
	if err := (&Link{Exec: []string{a}}).CheckProgram(own); err == nil {
		t.Error("one that was not there when it was applied")
	}
	l := Link{Exec: []string{"/bin/sh", filepath.Join(own, "g")}}.pinned(own)
	if err := os.WriteFile(filepath.Join(own, "g"), []byte("echo other"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := l.CheckProgram(own); err == nil || !strings.Contains(err.Error(), "changed since it was applied") {
		t.Errorf("a script that changed: %v", err)
	}
	if err := os.Chmod(own, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := (&Link{Exec: []string{filepath.Join(own, "a")}}).CheckProgram(own); err == nil {
		t.Error("in a directory that anybody may write")
	}
}
