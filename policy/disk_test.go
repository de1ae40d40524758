package policy

import (
	"os"
	"path/filepath"
	"testing"

	"permd/ask"
	"permd/policy/paths"
)

// onDisk is a project on the real file system, and an input for actions in it.
func onDisk(t *testing.T, p *Policy) (dir string, in func(a *ask.Action) Input) {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{"proj", "home", "elsewhere"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return dir, func(a *ask.Action) Input {
		a.Project, a.Home = filepath.Join(dir, "proj"), filepath.Join(dir, "home")
		if a.Cwd == proj {
			a.Cwd = a.Project
		}
		in := input(p, a)
		in.View = paths.Disk{}
		return in
	}
}

func put(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Patterns of the shell are what they match on the disk.
func TestPatternsOnDisk(t *testing.T) {
	p := Compile(file(t, "policy.toml", "[[rule]]\naction = \"deny\"\ntool = \"read\"\npath = \"**/key.txt\"\n", LayerUser))
	dir, in := onDisk(t, p)
	at := filepath.Join(dir, "proj")
	for _, n := range []string{"a.go", "b.go", "key.txt", ".env", "x y.go2"} {
		put(t, filepath.Join(at, n), "text")
	}
	if err := os.Symlink("/etc/hosts", filepath.Join(at, "out.md")); err != nil {
		t.Fatal(err)
	}
	for cmd, want := range map[string]ask.Verdict{
		"cat *.go":                            ask.Allow,
		"wc -l *.go | tail -1":                ask.Allow,
		"cat " + at + "/[ab].go":              ask.Allow,
		"for f in *.go; do head -1 $f; done":  ask.Allow,
		"for f in *.go2; do cat \"$f\"; done": ask.Allow,
		"for f in *.go2; do cat $f; done":     ask.Prompt,
		"cat k*":                              ask.Deny,
		"cat k[e]y.tx?":                       ask.Deny,
		"cat *":                               ask.Deny,
		"cat .e*":                             ask.Prompt,
		"cat *.md":                            ask.Prompt,
		"cat none*":                           ask.Prompt,
		"cd / && cat *.go":                    ask.Prompt,
	} {
		if r := Decide(in(bash(cmd))); r.Verdict != want {
			t.Errorf("%q: %s, want %s: %s", cmd, r.Verdict, want, r.Reason)
		}
	}
	put(t, filepath.Join(at, "-n.go"), "text")
	if r := Decide(in(bash("cat *.go"))); r.Verdict != ask.Prompt {
		t.Errorf("a file that is named like an option: %s", r.Verdict)
	}
}

// To write a file that has a second name is to write another file.
func TestASecondNameIsNoWayIn(t *testing.T) {
	p := Compile(file(t, "policy.toml", "[[rule]]\naction = \"allow\"\ntool = \"write\"\npath = \"**\"\n[[rule]]\naction = \"deny\"\ntool = \"write\"\npath = \"~/settings\"\n", LayerUser))
	dir, in := onDisk(t, p)
	at := filepath.Join(dir, "proj", "notes")
	put(t, filepath.Join(dir, "home", "settings"), "text")
	put(t, at, "text")
	for _, a := range []*ask.Action{onFile(ask.ToolWrite, at), bash("echo x > notes")} {
		if r := Decide(in(a)); r.Verdict != ask.Allow {
			t.Errorf("%s %v: %s, %s", a.Command, a.Paths, r.Verdict, r.Reason)
		}
	}
	if err := os.Remove(at); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(filepath.Join(dir, "home", "settings"), at); err != nil {
		t.Fatal(err)
	}
	for _, a := range []*ask.Action{onFile(ask.ToolWrite, at), onFile(ask.ToolEdit, at), bash("echo x > notes")} {
		if r := Decide(in(a)); r.Verdict == ask.Allow {
			t.Errorf("%s %v: allowed through a second name", a.Command, a.Paths)
		}
	}
}

// A link that is exchanged between the question and the answer is seen when
// the action is judged again.
func TestMovedOnDisk(t *testing.T) {
	dir, in := onDisk(t, Compile())
	link := filepath.Join(dir, "proj", "link")
	for _, d := range []string{"one", "two"} {
		if err := os.Mkdir(filepath.Join(dir, "elsewhere", d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	point := func(to string) {
		_ = os.Remove(link)
		if err := os.Symlink(filepath.Join(dir, "elsewhere", to), link); err != nil {
			t.Fatal(err)
		}
	}
	cwd := bash("rm -rf out")
	cwd.Cwd = link
	for _, a := range []*ask.Action{onFile(ask.ToolWrite, "link/x"), bash("cp a link/x"), bash("ls | tee link/x"), bash("echo hi > link/x"), bash("cd link && make"), cwd} {
		point("one")
		in(a)
		Complete(a, paths.Disk{})
		if m := Moved(a, paths.Disk{}); m != "" {
			t.Errorf("%s %v: %s has moved, and nothing has", a.Command, a.Paths, m)
		}
		point("two")
		if m := Moved(a, paths.Disk{}); m == "" {
			t.Errorf("%s %v: the exchanged link is not seen", a.Command, a.Paths)
		}
	}
}
