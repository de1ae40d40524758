package policy

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"permd/ask"
	"permd/policy/paths"
)

const (
	denyRM    = "[[rule]]\naction = \"deny\"\ncommand = \"rm *\"\n"
	denyMV    = "[[rule]]\naction = \"deny\"\ncommand = \"mv *\"\n"
	allowMake = "[[rule]]\naction = \"allow\"\ncommand = \"make *\"\n"
	allowGo   = "[[rule]]\naction = \"allow\"\ncommand = \"go test *\"\n"
)

// bench is a store over directories of a test.
type bench struct {
	t       *testing.T
	root    string
	places  Places
	store   *Store
	project string
}

func newBench(t *testing.T) *bench {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{t: t, root: root, project: filepath.Join(root, "home", "proj")}
	b.places = Places{Managed: filepath.Join(root, "managed"), Config: filepath.Join(root, "config"), State: filepath.Join(root, "state"), Home: filepath.Join(root, "home"),
		ManagedOwners: []uint32{uint32(os.Geteuid())}}
	for _, dir := range []string{b.places.Managed, filepath.Join(b.places.Config, "policy.d"), filepath.Join(b.project, ".permd")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	b.reopen()
	return b
}

// reopen is another process.
func (b *bench) reopen() { b.store = OpenStore(b.places) }

// write replaces a file as an editor does, or removes it for "".
func (b *bench) write(name, text string) {
	b.t.Helper()
	name = filepath.Join(b.root, name)
	if text == "" {
		if err := os.Remove(name); err != nil {
			b.t.Fatal(err)
		}
		return
	}
	if err := os.WriteFile(name+".tmp", []byte(text), 0o600); err != nil {
		b.t.Fatal(err)
	}
	if err := os.Rename(name+".tmp", name); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) judge(cmd string) ask.Verdict {
	b.t.Helper()
	a := bash(cmd)
	a.Cwd, a.Project, a.Home = b.project, b.project, b.places.Home
	return Decide(Input{Action: a, Origin: "s", Here: "s", Node: Origin, Policy: b.store.Policy(b.project), View: paths.Disk{}}).Verdict
}

// want checks verdicts by command.
func (b *bench) want(why string, verdicts map[string]ask.Verdict) {
	b.t.Helper()
	for cmd, v := range verdicts {
		if got := b.judge(cmd); got != v {
			b.t.Errorf("%s: %q: %s, want %s", why, cmd, got, v)
		}
	}
}

func (b *bench) apply() {
	b.t.Helper()
	p := b.store.Pending()
	if p == nil {
		b.t.Fatal("nothing waits")
	}
	if err := b.store.Apply("user at terminal", p.ID); err != nil {
		b.t.Fatal(err)
	}
}

const user = "config/policy.toml"

func TestNoFilesIsTheBaseline(t *testing.T) {
	b := newBench(t)
	b.want("no file", map[string]ask.Verdict{"ls": ask.Allow, "make x": ask.Prompt})
	if err := b.store.Problem(); err != nil {
		t.Error(err)
	}
	if p := b.store.Pending(); p != nil {
		t.Errorf("%+v", p)
	}
}

func TestLayersAddUp(t *testing.T) {
	b := newBench(t)
	b.write("managed/a.toml", denyRM)
	b.write(user, allowMake)
	b.write("config/policy.d/b.toml", allowGo)
	b.write("home/proj/.permd/policy.toml", denyMV+"[[rule]]\naction = \"allow\"\ncommand = \"evil *\"\n[[rule]]\naction = \"deny\"\ncommand = \"make clean\"\n")
	b.want("all layers", map[string]ask.Verdict{"rm x": ask.Deny, "mv x y": ask.Deny, "make x": ask.Allow, "go test ./...": ask.Allow, "evil x": ask.Prompt, "make clean": ask.Deny, "x": ask.Prompt})
	if got := b.store.Policy("").rules; len(got) != 3 {
		t.Errorf("without a project: %d rules", len(got))
	}
	b.write("managed/a.toml", denyRM+"[[rule]]\naction = \"deny\"\ncommand = \"make *\"\n")
	b.want("an administrator's edit applies", map[string]ask.Verdict{"make x": ask.Deny})
	b.write("managed/a.toml", "")
	b.want("and so does its removal", map[string]ask.Verdict{"rm x": ask.Prompt, "make x": ask.Allow})
}

// Who serves judges by its own project's rules only what is from that project.
func TestProjectRulesAreForTheProject(t *testing.T) {
	b := newBench(t)
	b.write("home/proj/.permd/policy.toml", denyRM)
	for project, want := range map[string]ask.Verdict{b.project: ask.Deny, "/srv/other": ask.Prompt} {
		a := bash("rm x")
		a.Cwd, a.Project, a.Home = project, project, b.places.Home
		for _, node := range []Node{Verified, Claimed} {
			in := Input{Action: a, Origin: "child", Here: "s", Above: []string{"s"}, Node: node, Policy: b.store.Policy(b.project)}
			if r := Decide(in); r.Verdict != want {
				t.Errorf("%s at node %d: %s, want %s", project, node, r.Verdict, want)
			}
		}
	}
}

// A file is looked at on each call; an edit in place in the same moment too.
func TestEditsAreSeenAtOnce(t *testing.T) {
	b := newBench(t)
	b.write(user, denyRM)
	for i := range 50 {
		name := "x" + string(rune('a'+i%26)) + string(rune('a'+i/26))
		text := "[[rule]]\naction = \"deny\"\ncommand = \"" + name + " *\"\n"
		if err := os.WriteFile(filepath.Join(b.root, user), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if v := b.judge(name + " y"); v != ask.Deny {
			t.Fatalf("edit %d is not seen: %s", i, v)
		}
	}
}

func TestUnchangedFilesAreNotReadAgain(t *testing.T) {
	b := newBench(t)
	b.write(user, denyRM)
	time.Sleep(2 * fresh) // what was just written may change unseen
	b.judge("ls")
	before := b.store.Policy(b.project)
	if after := b.store.Policy(b.project); before != after {
		t.Error("a policy was made anew")
	}
	if b.store.user.changed(b.store.userSource()) {
		t.Error("unchanged files count as changed")
	}
}

func TestABrokenFileNeverLoosens(t *testing.T) {
	b := newBench(t)
	b.write(user, denyRM+allowMake)
	b.want("good", map[string]ask.Verdict{"rm x": ask.Deny, "make x": ask.Allow})
	b.write(user, denyRM+"[[rule]]\naction = \"allow\"\ncomand = \"mv *\"\n")
	b.want("the last good policy stays", map[string]ask.Verdict{"rm x": ask.Deny, "make x": ask.Allow, "mv x y": ask.Prompt, "ls": ask.Allow})
	var at Problem
	if err := b.store.Problem(); !errors.As(err, &at) || at.Line != 6 || at.Col != 1 || !strings.HasSuffix(at.File, "config/policy.toml") || !strings.Contains(at.Text, `did you mean "command"?`) {
		t.Errorf("%v", err)
	}
	b.write(user, denyRM)
	b.want("repaired", map[string]ask.Verdict{"rm x": ask.Deny, "make x": ask.Prompt})
	if err := b.store.Problem(); err != nil {
		t.Error(err)
	}
}

func TestNoLastGoodPolicyAsksForEverything(t *testing.T) {
	for _, name := range []string{user, "managed/a.toml", "home/proj/.permd/policy.toml"} {
		b := newBench(t)
		b.write(name, denyRM+allowMake+"[[rule]]\naction = \"deny\"\ncomand = \"mv *\"\n")
		b.want(name, map[string]ask.Verdict{"ls": ask.Prompt, "make x": ask.Prompt, "rm x": ask.Deny})
		if b.store.Problem() == nil {
			t.Errorf("%s: no problem", name)
		}
		b.write(name, denyRM)
		b.want(name+" repaired", map[string]ask.Verdict{"ls": ask.Allow, "rm x": ask.Deny})
	}
}

// In another process the rules that were applied are the last good ones.
func TestABrokenFileInAnotherProcess(t *testing.T) {
	b := newBench(t)
	b.write(user, denyRM+allowMake)
	b.judge("ls")
	b.write(user, "broken")
	b.reopen()
	b.want("applied", map[string]ask.Verdict{"ls": ask.Allow, "rm x": ask.Deny, "make x": ask.Allow})
	if b.store.Problem() == nil {
		t.Error("no problem")
	}
}

func TestFilesThatAreNotTrusted(t *testing.T) {
	for why, spoil := range map[string]func(b *bench, name string) error{
		"writable by all":               func(_ *bench, n string) error { return os.Chmod(n, 0o666) },
		"writable by group":             func(_ *bench, n string) error { return os.Chmod(n, 0o620) },
		"a pipe":                        func(_ *bench, n string) error { return errors.Join(os.Remove(n), mkfifo(n)) },
		"a directory":                   func(_ *bench, n string) error { return errors.Join(os.Remove(n), os.Mkdir(n, 0o700)) },
		"a directory that others write": func(_ *bench, n string) error { return os.Chmod(filepath.Dir(n), 0o777) },
		"too large":                     func(_ *bench, n string) error { return os.Truncate(n, MaxFile+1) },
	} {
		b := newBench(t)
		b.write(user, allowMake)
		if err := spoil(b, filepath.Join(b.root, user)); err != nil {
			t.Fatal(err)
		}
		b.want(why, map[string]ask.Verdict{"make x": ask.Prompt, "ls": ask.Prompt})
		if err := b.store.Problem(); err == nil {
			t.Errorf("%s: no problem", why)
		}
	}
	b := newBench(t)
	b.places.ManagedOwners = []uint32{uint32(os.Geteuid()) + 1}
	b.reopen()
	b.write("managed/a.toml", allowMake)
	b.want("an administrator's file of somebody else", map[string]ask.Verdict{"make x": ask.Prompt, "ls": ask.Prompt})
	link := newBench(t)
	link.write("elsewhere.toml", allowMake)
	if err := os.Symlink(filepath.Join(link.root, "elsewhere.toml"), filepath.Join(link.root, user)); err != nil {
		t.Fatal(err)
	}
	link.want("a link of the user's own is fine", map[string]ask.Verdict{"make x": ask.Allow})
	if OpenStore(Places{}).places.ManagedOwners[0] != 0 {
		t.Error("managed files are root's by default")
	}
}

func TestProjectRulesAreAnybodys(t *testing.T) {
	b := newBench(t)
	b.write("home/proj/.permd/policy.toml", denyRM)
	if err := os.Chmod(filepath.Join(b.project, ".permd", "policy.toml"), 0o666); err != nil {
		t.Fatal(err)
	}
	b.want("they only tighten", map[string]ask.Verdict{"rm x": ask.Deny, "ls": ask.Allow})
}

func TestLooseningWaitsForAPerson(t *testing.T) {
	b := newBench(t)
	b.write(user, denyRM+allowMake)
	b.want("taken as applied at the very first load", map[string]ask.Verdict{"rm x": ask.Deny, "make x": ask.Allow})

	b.write(user, denyRM+allowMake+allowGo)
	b.want("a new allow waits", map[string]ask.Verdict{"go test ./...": ask.Prompt, "make x": ask.Allow})
	p := b.store.Pending()
	if p == nil || len(p.Added) != 1 || len(p.Removed) != 0 || !strings.Contains(p.Text, `+ allow command = "go test *"`) || !strings.Contains(p.Text, "policy.toml line 7") {
		t.Fatalf("%+v", p)
	}
	b.reopen()
	b.want("in another process too", map[string]ask.Verdict{"go test ./...": ask.Prompt})
	b.apply()
	b.want("applied", map[string]ask.Verdict{"go test ./...": ask.Allow, "rm x": ask.Deny})
	if b.store.Pending() != nil {
		t.Error("still waits")
	}

	b.write(user, allowMake+allowGo)
	b.want("a deny that is taken out holds", map[string]ask.Verdict{"rm x": ask.Deny})
	if p := b.store.Pending(); p == nil || len(p.Removed) != 1 || !strings.Contains(p.Text, `- deny command = "rm *"`) {
		t.Fatalf("%+v", p)
	}
	b.reopen()
	b.want("in another process too", map[string]ask.Verdict{"rm x": ask.Deny})
	b.apply()
	b.want("until it is applied", map[string]ask.Verdict{"rm x": ask.Prompt})
}

func TestTighteningAppliesAtOnce(t *testing.T) {
	b := newBench(t)
	b.write(user, allowMake)
	b.judge("ls")
	b.write(user, allowMake+denyRM)
	b.want("a new deny", map[string]ask.Verdict{"rm x": ask.Deny, "make x": ask.Allow})
	b.write(user, denyRM)
	b.want("an allow taken out", map[string]ask.Verdict{"make x": ask.Prompt})
	if b.store.Pending() != nil {
		t.Errorf("waits: %+v", b.store.Pending())
	}
	b.write(user, denyRM+allowMake)
	b.want("putting it back loosens", map[string]ask.Verdict{"make x": ask.Prompt})
	b.write(user, "[[rule]]\naction = \"allow\"\ncommand = \"make *\"\n")
	b.want("and the deny that came at once holds when it goes", map[string]ask.Verdict{"rm x": ask.Deny})
	b.write(user, "default = \"deny\"\n"+denyRM)
	b.want("a stricter default", map[string]ask.Verdict{"x": ask.Deny})
	b.write(user, "default = \"allow\"\n"+denyRM)
	b.want("a looser one waits", map[string]ask.Verdict{"x": ask.Deny})
	if p := b.store.Pending(); p == nil || !strings.Contains(p.Text, "+ default allow (now deny)") {
		t.Fatalf("%+v", p)
	}
	b.apply()
	b.want("applied", map[string]ask.Verdict{"x": ask.Allow, "rm x": ask.Deny})
}

func TestNarrowerAndWider(t *testing.T) {
	b := newBench(t)
	b.write(user, "[[rule]]\naction = \"allow\"\ncommand = \"git *\"\n")
	b.judge("ls")
	b.write(user, "[[rule]]\naction = \"allow\"\ncommand = \"git log *\"\n")
	b.want("narrower holds at once", map[string]ask.Verdict{"git log -p": ask.Allow, "git push x": ask.Prompt})
	if b.store.Pending() != nil {
		t.Errorf("waits: %+v", b.store.Pending())
	}
	b.write(user, "[[rule]]\naction = \"allow\"\ncommand = \"git *\"\n")
	b.want("wider waits, and the old one stays meanwhile", map[string]ask.Verdict{"git log -p": ask.Allow, "git push x": ask.Prompt})
	b.apply()
	b.want("applied", map[string]ask.Verdict{"git push x": ask.Allow})
	b.write(user, "[[rule]]\naction = \"allow\"\ncommand = \"git *\"\n[[rule]]\naction = \"deny\"\ncommand = \"git push --force *\"\n")
	b.judge("ls")
	b.write(user, "[[rule]]\naction = \"allow\"\ncommand = \"git *\"\n[[rule]]\naction = \"deny\"\ncommand = \"git push *\"\n")
	if b.want("a wider deny in place of another", map[string]ask.Verdict{"git push x": ask.Deny}); b.store.Pending() != nil {
		t.Errorf("waits: %+v", b.store.Pending())
	}
	b.write(user, "[[rule]]\naction = \"allow\"\ncommand = \"git *\"\nreason = \"other words\"\n[[rule]]\naction = \"deny\"\ncommand = \"git push *\"\nrisk = \"high\"\n")
	if b.store.Pending() != nil {
		t.Errorf("words of a reason wait: %+v", b.store.Pending())
	}
}

func TestCovers(t *testing.T) {
	for _, c := range []struct {
		x, y string
		want bool
	}{
		{`command = "git *"`, `command = "git log *"`, true}, {`command = "git *"`, `command = "git log"`, true}, {`command = "git *"`, `command = "git"`, false}, {`command = "git log *"`, `command = "git *"`, false},
		{`tool = "bash"`, `command = "git *"`, true}, {`command = "*"`, `command = "git *"`, true}, {`command = "git *"`, `tool = "bash"`, false}, {`command = "git 'log'"`, `command = "git *"`, false},
		{`path = "src/**"`, `path = "src/a.go"`, true}, {`path = "src/**"`, `path = "srcs/a"`, false}, {`path = "src/a"`, `path = "src/**"`, false}, {`tool = "read"`, "path = \"a\"\ntool = \"read\"", true}, {"path = \"a\"\ntool = \"read\"", `path = "a"`, false},
		{`path = "a"`, "path = \"a\"\ntool = \"read\"", true}, {`domain = "*.x.org"`, `domain = "a.x.org"`, true}, {`domain = "*.x.org"`, `domain = "x.org"`, false}, {`domain = "*"`, `domain = "x.org"`, true}, {`domain = "x.org"`, `domain = "*"`, false},
		{`server = "a"`, "server = \"a\"\nname = \"b\"", true}, {"server = \"a\"\nname = \"g*\"", "server = \"a\"\nname = \"get\"", true}, {"server = \"a\"\nname = \"get\"", "server = \"a\"\nname = \"g*\"", false}, {`server = "a"`, `server = "b"`, false},
		{"command = \"a *\"\nclient = \"codex\"", `command = "a b"`, false}, {`command = "a *"`, "command = \"a b\"\nclient = \"codex\"", true},
		{`command = "a *"`, "command = \"a *\"\nexcept = [{ command = \"a b\" }]", true}, {"command = \"a *\"\nexcept = [{ command = \"a b\" }]", `command = "a *"`, false}, {`class = "read-only"`, "class = \"read-only\"\npath = \"/x/**\"", true}, {`class = "read-only"`, `command = "ls"`, false},
	} {
		one := func(s string) *rule { return file(t, "f", "[[rule]]\naction = \"allow\"\n"+s+"\n", LayerUser).rules[0] }
		if got := one(c.x).covers(one(c.y)); got != c.want {
			t.Errorf("%s covers %s: %v", c.x, c.y, got)
		}
	}
}

func TestApplyNeedsTheEditThatWasSeen(t *testing.T) {
	b := newBench(t)
	b.write(user, denyRM)
	b.judge("ls")
	if err := b.store.Apply("x", ""); !errors.Is(err, ErrNothingPending) {
		t.Errorf("%v", err)
	}
	b.write(user, denyRM+allowGo)
	seen := b.store.Pending().ID
	b.write(user, denyRM+allowGo+"[[rule]]\naction = \"allow\"\ncommand = \"evil *\"\n")
	if err := b.store.Apply("x", seen); !errors.Is(err, ErrOtherEdit) {
		t.Errorf("%v", err)
	}
	b.want("not applied", map[string]ask.Verdict{"evil x": ask.Prompt})
	b.write(user, "broken")
	var ps Problems
	if err := b.store.Apply("x", b.store.Pending().ID); !errors.As(err, &ps) {
		t.Errorf("%v", err)
	}
}

func TestTheAppliedRulesAreTamperedWith(t *testing.T) {
	for why, spoil := range map[string]func(name string) error{
		"half":      func(n string) error { return os.Truncate(n, 10) },
		"writable":  func(n string) error { return os.Chmod(n, 0o666) },
		"a link":    func(n string) error { return errors.Join(os.Rename(n, n+"x"), os.Symlink(n+"x", n)) },
		"a pipe":    func(n string) error { return errors.Join(os.Remove(n), mkfifo(n)) },
		"a version": func(n string) error { return replace(n, `{"v":1`, `{"v":9`) },
		"a new key": func(n string) error { return replace(n, `{"v":1`, `{"z":1,"v":1`) },
		"no rule":   func(n string) error { return replace(n, `"command":"make *"`, `"command":"make; *"`) },
	} {
		t.Run(why, func(t *testing.T) {
			b := newBench(t)
			b.write(user, denyRM+allowMake)
			b.judge("ls")
			if err := spoil(filepath.Join(b.places.State, appliedDir, appliedName)); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				b.want("allows nothing", map[string]ask.Verdict{"make x": ask.Prompt, "rm x": ask.Deny, "ls": ask.Allow})
				if b.store.Problem() == nil {
					t.Error("no problem")
				}
				b.reopen()
			}
			if why == "a link" || why == "a pipe" || why == "writable" {
				return // a person has to remove it
			}
			b.apply()
			b.want("applied again", map[string]ask.Verdict{"make x": ask.Allow})
		})
	}
}

// Taking the applied rules away under a running node loosens nothing.
func TestTheAppliedRulesAreTakenAway(t *testing.T) {
	b := newBench(t)
	b.write(user, denyRM)
	b.judge("ls")
	if err := os.RemoveAll(filepath.Join(b.places.State, appliedDir)); err != nil {
		t.Fatal(err)
	}
	b.write(user, allowMake)
	b.want("nothing is loosened", map[string]ask.Verdict{"rm x": ask.Deny, "make x": ask.Prompt})
}

func TestAnEditIsAppliedByAnotherProcess(t *testing.T) {
	b := newBench(t)
	b.write(user, denyRM)
	b.judge("ls")
	other := OpenStore(b.places)
	b.write(user, denyRM+allowGo)
	b.want("waits", map[string]ask.Verdict{"go test x": ask.Prompt})
	if err := other.Apply("user", other.Pending().ID); err != nil {
		t.Fatal(err)
	}
	b.want("seen here", map[string]ask.Verdict{"go test x": ask.Allow})
}

func TestAStateThatCannotBeWritten(t *testing.T) {
	b := newBench(t)
	if err := os.WriteFile(b.places.State, nil, 0o600); err != nil { // a file where the directory should be
		t.Fatal(err)
	}
	b.write(user, denyRM+allowMake)
	b.want("nothing can be shown to be applied", map[string]ask.Verdict{"rm x": ask.Deny, "make x": ask.Prompt, "ls": ask.Allow})
	b.write(user, allowMake+allowGo)
	b.want("an edit loosens nothing in this process", map[string]ask.Verdict{"rm x": ask.Deny, "go test x": ask.Prompt})
	if b.store.Problem() == nil {
		t.Error("no problem")
	}
}

func TestHeldRulesSaySo(t *testing.T) {
	b := newBench(t)
	b.write(user, denyRM)
	b.judge("ls")
	b.write(user, denyMV)
	a := bash("rm x")
	a.Cwd, a.Project = b.project, b.project
	r := Decide(Input{Action: a, Node: Origin, Policy: b.store.Policy(b.project), View: paths.Disk{}})
	if r.Verdict != ask.Deny || !strings.Contains(r.Reason, "holds until the edit is applied") || r.By.Rule.Line != 1 {
		t.Errorf("%+v", r)
	}
}

func TestGenerationGrows(t *testing.T) {
	b := newBench(t)
	b.judge("ls")
	was := b.store.Generation()
	b.write(user, denyRM)
	b.judge("ls")
	if now := b.store.Generation(); now <= was {
		t.Errorf("%d after %d", now, was)
	}
}

func TestManyCallersAtOnce(t *testing.T) {
	b := newBench(t)
	b.write(user, denyRM)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i := range 30 {
				p := b.store.Policy(b.project)
				if r := Decide(Input{Action: bash("rm x"), Node: Origin, Policy: p, View: paths.Fixed{}}); r.Verdict != ask.Deny {
					t.Errorf("%s", r.Verdict)
				}
				if i%10 == 0 {
					b.store.Problem()
					b.store.Pending()
				}
			}
		})
	}
	for range 10 {
		b.write(user, denyRM+denyMV)
		b.write(user, denyRM)
	}
	wg.Wait()
}
