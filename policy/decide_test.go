package policy

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"permd/ask"
	"permd/policy/paths"
)

func TestZeroDenies(t *testing.T) {
	var r Result
	if r.Verdict != ask.Deny {
		t.Error("the zero result is not a denial")
	}
	if r := Decide(Input{}); r.Verdict != ask.Deny {
		t.Errorf("nothing to judge: %s", r.Verdict)
	}
	if r := Decide(Input{Action: bash("ls")}); r.Verdict != ask.Deny {
		t.Errorf("no policy: %s", r.Verdict)
	}
	if r := Decide(Input{Action: bash("ls"), Policy: Compile()}); r.Verdict != ask.Prompt {
		t.Errorf("no node, no file system: %s", r.Verdict)
	}
}

func TestReasonsNameTheRule(t *testing.T) {
	managed := file(t, "/etc/permd/policy.d/a.toml", "\n[[rule]]\naction = \"deny\"\ncommand = \"git push *\"\nreason = \"pushes go through review\"\nrisk = \"high\"\n", LayerManaged)
	user := file(t, "/home/dev/.config/permd/policy.toml", "[[rule]]\naction = \"allow\"\ncommand = \"git *\"\n[[rule]]\naction = \"deny\"\ncommand = \"git push --force*\"\n[[rule]]\naction = \"ask\"\ncommand = \"git rebase *\"\nreason = \"look twice\"\nrisk = \"medium\"\n", LayerUser)
	p := Compile(user, managed)
	r := decide(p, bash("git push --force"))
	if r.Verdict != ask.Deny || r.By.Kind != ask.KindRule || r.By.Rule.Layer != "managed" || r.By.Rule.File != "/etc/permd/policy.d/a.toml" || r.By.Rule.Line != 2 || r.Reason != "pushes go through review" || r.Risk != ask.RiskHigh {
		t.Errorf("%+v %+v", r, r.By.Rule)
	}
	n := 0
	for _, x := range r.Reasons {
		if x.Verdict == ask.Deny {
			n++
		}
	}
	if n != 2 || len(r.Reasons) != 3 {
		t.Errorf("not every rule that spoke is named: %+v", r.Reasons)
	}
	if r := decide(p, bash("git log -p")); r.Verdict != ask.Allow || r.By.Rule.Line != 1 || r.By.Rule.Layer != "user" {
		t.Errorf("%+v", r)
	}
	r = decide(p, bash("git rebase main"))
	if r.Verdict != ask.Prompt || !strings.Contains(r.Reason, "policy.toml line 7 asks: look twice") || r.Risk != ask.RiskMedium || !r.Grantable {
		t.Errorf("%+v", r)
	}
	for _, by := range []ask.By{r.By, decide(p, bash("x")).By, decide(p, bash("ls")).By, decide(p, bash("permd desk")).By} {
		if err := by.Check(); err != nil {
			t.Errorf("%+v: %v", by, err)
		}
	}
}

func TestReasonNeverEchoesTheCommand(t *testing.T) {
	for _, cmd := range []string{"hunter2 --password x", "cat /etc/hunter2", "curl https://u:hunter2@h/", "echo $(hunter2)", "hunter2 | x", "sudo hunter2", "hunter2 'unclosed"} {
		if r := decide(Compile(), bash(cmd)); strings.Contains(r.Reason, "hunter2") {
			t.Errorf("%q: %q", cmd, r.Reason)
		}
	}
}

func TestStrictestPartOfAPatch(t *testing.T) {
	p := rules(t, "[[rule]]\naction = \"allow\"\ntool = \"edit\"\npath = \"src/**\"\n[[rule]]\naction = \"deny\"\ntool = \"edit\"\npath = \"deploy/**\"\n")
	for _, c := range []struct {
		names []string
		want  ask.Verdict
	}{
		{[]string{"src/a", "src/b"}, ask.Allow}, {[]string{"src/a", "x"}, ask.Prompt}, {[]string{"src/a", "deploy/x"}, ask.Deny}, {[]string{"deploy/x", "src/a"}, ask.Deny}, {nil, ask.Prompt},
	} {
		if r := decide(p, onFile(ask.ToolEdit, c.names...)); r.Verdict != c.want {
			t.Errorf("%q: %s, want %s", c.names, r.Verdict, c.want)
		}
	}
}

func TestWriteAndEdit(t *testing.T) {
	for _, c := range []struct {
		rules       string
		write, edit ask.Verdict
	}{
		{"[[rule]]\naction = \"deny\"\ntool = \"edit\"\npath = \"x\"\n", ask.Deny, ask.Deny},
		{"[[rule]]\naction = \"deny\"\ntool = \"write\"\npath = \"x\"\n", ask.Deny, ask.Deny},
		{"[[rule]]\naction = \"allow\"\ntool = \"write\"\npath = \"x\"\n", ask.Allow, ask.Allow},
		{"[[rule]]\naction = \"allow\"\ntool = \"edit\"\npath = \"x\"\n", ask.Prompt, ask.Allow},
		{"[[rule]]\naction = \"allow\"\npath = \"x\"\n", ask.Allow, ask.Allow},
		{"[[rule]]\naction = \"deny\"\ntool = \"read\"\npath = \"x\"\n", ask.Prompt, ask.Prompt},
	} {
		p := rules(t, c.rules)
		if w, e := decide(p, onFile(ask.ToolWrite, "x")).Verdict, decide(p, onFile(ask.ToolEdit, "x")).Verdict; w != c.write || e != c.edit {
			t.Errorf("%s: write %s, edit %s", c.rules, w, e)
		}
	}
}

// Who serves judges by its own rules: deny ends it, allow of a rule or grant
// ends it, and the built-in rules add nothing to what the origin had.
func TestWhereItIsDecided(t *testing.T) {
	p := Compile(file(t, "p", "[[rule]]\naction = \"allow\"\ncommand = \"go test *\"\n[[rule]]\naction = \"deny\"\ncommand = \"rm *\"\n[[rule]]\naction = \"allow\"\npath = \"/srv/**\"\ntool = \"read\"\n", LayerUser))
	for _, c := range []struct {
		a                         *ask.Action
		origin, verified, claimed ask.Verdict
	}{
		{bash("go test ./..."), ask.Allow, ask.Allow, ask.Prompt},
		{bash("ls"), ask.Allow, ask.Prompt, ask.Prompt},
		{bash("rm x"), ask.Deny, ask.Deny, ask.Deny},
		{bash("x"), ask.Prompt, ask.Prompt, ask.Prompt},
		{onFile(ask.ToolRead, "/srv/x"), ask.Allow, ask.Allow, ask.Prompt},
		{onFile(ask.ToolRead, "a.go"), ask.Allow, ask.Prompt, ask.Prompt},
		{bash("permd desk"), ask.Deny, ask.Deny, ask.Deny},
		{action(ask.ToolOther, "TodoWrite"), ask.Allow, ask.Prompt, ask.Prompt},
	} {
		a := *c.a
		a.Paths = append([]ask.Path{}, c.a.Paths...)
		Complete(&a, paths.Fixed{})
		for node, want := range map[Node]ask.Verdict{Origin: c.origin, Verified: c.verified, Claimed: c.claimed} {
			in := input(p, &a)
			in.Node = node
			if node != Origin {
				in.Here, in.Above, in.View = "s0", []string{"s0"}, nil
			}
			if r := Decide(in); r.Verdict != want {
				t.Errorf("%s %+v at node %d: %s, want %s: %s", a.Command, a.Paths, node, r.Verdict, want, r.Reason)
			}
		}
	}
	d := ask.Allow
	in := input(&Policy{def: &d}, bash("x"))
	in.Node = Verified
	if r := Decide(in); r.Verdict != ask.Prompt {
		t.Errorf("default allow at a serving node: %s", r.Verdict)
	}
}

// The origin's file system travels in the action; a serving node does not look
// at its own.
func TestPlacesTravel(t *testing.T) {
	view := paths.Fixed{Links: map[string]string{proj + "/s": "/home/dev/secrets"}}
	p := rules(t, "[[rule]]\naction = \"deny\"\npath = \"/home/dev/secrets/**\"\n[[rule]]\naction = \"allow\"\ntool = \"read\"\npath = \"<project>/**\"\n")
	for _, a := range []*ask.Action{onFile(ask.ToolRead, "s/key"), bash("cat s/key"), bash("x > s/key"), bash("cd s && cat key")} {
		Complete(a, view)
		for _, pth := range a.Paths {
			if !strings.HasPrefix(pth.Given, "/") || !strings.HasPrefix(pth.Real, "/") {
				t.Fatalf("%+v", a.Paths)
			}
		}
		in := input(p, a)
		in.Node, in.View = Verified, nil
		if r := Decide(in); r.Verdict != ask.Deny {
			t.Errorf("%s %+v: %s", a.Command, a.Paths, r.Verdict)
		}
	}
	a := onFile(ask.ToolRead, "x")
	in := input(p, a)
	in.Node, in.View = Verified, nil
	if r := Decide(in); r.Verdict != ask.Prompt {
		t.Errorf("a place that the origin did not find is taken for certain: %s", r.Verdict)
	}
	unsure := onFile(ask.ToolRead, "/proc/self/fd/3")
	Complete(unsure, view)
	in = input(rules(t, "[[rule]]\naction = \"allow\"\ntool = \"read\"\npath = \"/proc/**\"\n"), unsure)
	in.Node, in.View = Verified, nil
	if r := Decide(in); r.Verdict != ask.Prompt {
		t.Errorf("what was in doubt is certain one hop later: %s", r.Verdict)
	}
}

func TestSessionsAndAgents(t *testing.T) {
	p := Compile(file(t, "p", `
[[rule]]
action = "deny"
session = "root"
command = "git push *"
[[rule]]
action = "allow"
session = "root"
command = "go test *"
[[rule]]
action = "allow"
session = "child"
command = "git *"
[[rule]]
action = "deny"
agent = "plan"
tool = "write"
[[rule]]
action = "ask"
client = "codex"
`, LayerUser))
	for _, c := range []struct {
		why   string
		in    func(*Input)
		a     *ask.Action
		want  ask.Verdict
		codex bool
	}{
		{"a child never has more than its parent's denials", func(in *Input) { in.Origin, in.Here, in.Above = "child", "child", []string{"root"} }, bash("git push origin x"), ask.Deny, false},
		{"a child's own rule", func(in *Input) { in.Origin, in.Here, in.Above = "child", "child", []string{"root"} }, bash("git log -p"), ask.Allow, false},
		{"a parent's rule allows nothing at the child", func(in *Input) { in.Origin, in.Here, in.Above = "child", "child", []string{"root"} }, bash("go test ./..."), ask.Prompt, false},
		{"but at the parent", func(in *Input) {
			in.Origin, in.Here, in.Above, in.Node, in.View = "child", "root", []string{"root"}, Verified, nil
		}, bash("go test ./..."), ask.Allow, false},
		{"not if the child only claims it", func(in *Input) { in.Origin, in.Here, in.Above, in.Node = "child", "root", []string{"root"}, Claimed }, bash("go test ./..."), ask.Prompt, false},
		{"another session", func(in *Input) { in.Origin, in.Here = "other", "other" }, bash("git push x"), ask.Prompt, false},
		{"a rule for an agent", func(in *Input) { in.Agent = "plan" }, onFile(ask.ToolWrite, "x"), ask.Deny, false},
		{"whatever its case", func(in *Input) { in.Agent = "Plan" }, onFile(ask.ToolWrite, "x"), ask.Deny, false},
		{"not for another agent", func(in *Input) { in.Agent = "build" }, onFile(ask.ToolWrite, "x"), ask.Prompt, false},
		{"a rule for a client", func(in *Input) {}, bash("ls"), ask.Prompt, true},
		{"not for another client", func(in *Input) {}, bash("ls"), ask.Allow, false},
	} {
		in := input(p, c.a)
		if c.codex {
			in.Action.Client = "codex"
		}
		c.in(&in)
		if r := Decide(in); r.Verdict != c.want {
			t.Errorf("%s: %s, want %s: %s", c.why, r.Verdict, c.want, r.Reason)
		}
	}
}

func TestManagedAskIsAskedEachTime(t *testing.T) {
	p := Compile(file(t, "m", "[[rule]]\naction = \"ask\"\nserver = \"my\"\nname = \"tool\"\n", LayerManaged))
	in := input(p, mcp("my", "tool"))
	r := Decide(in)
	if r.Verdict != ask.Prompt || r.Grantable || Offers(in, r) != nil {
		t.Errorf("%s, grantable %v", r.Verdict, r.Grantable)
	}
	in.Grants = []Kept{keepAny(t, ask.Rule{Action: ask.Allow, Server: "my", Name: "tool"}, mcp("my", "tool"), ask.ScopeSession, "s1")}
	if r := Decide(in); r.Verdict != ask.Prompt {
		t.Errorf("a grant lifted what an administrator asks: %s", r.Verdict)
	}
	in.Policy = Compile(file(t, "u", "[[rule]]\naction = \"ask\"\nserver = \"my\"\nname = \"tool\"\n", LayerUser))
	if r := Decide(in); r.Verdict != ask.Allow || r.By.Kind != ask.KindGrant {
		t.Errorf("a grant does not lift the user's own ask: %s", r.Verdict)
	}
}

func TestMCP(t *testing.T) {
	p := rules(t, `
[[rule]]
action = "allow"
server = "db"
[[rule]]
action = "deny"
server = "db"
name = "drop_*"
[[rule]]
action = "deny"
server = "probe"
source = "project"
[[rule]]
action = "deny"
tool = "read"
path = "~/.ssh/**"
`)
	for _, c := range []struct {
		server, name, source, args string
		want                       ask.Verdict
	}{
		{"db", "get", "", "", ask.Allow}, {"db", "get", "user", "", ask.Allow}, {"db", "get", "managed", "", ask.Allow},
		{"db", "get", "project", "", ask.Prompt}, // another server of the same name
		{"db", "drop_table", "", "", ask.Deny}, {"DB", "drop_table", "", "", ask.Deny}, {"DB", "get", "", "", ask.Prompt}, {"db", "DROP_TABLE", "", "", ask.Deny},
		{"probe", "x", "project", "", ask.Deny}, {"probe", "x", "user", "", ask.Prompt}, {"probe", "x", "", "", ask.Deny},
		{"db", "get", "", `{"path":"/home/dev/.ssh/id"}`, ask.Deny}, {"db", "get", "", `{"a":[{"file":"../../.ssh/id"}]}`, ask.Prompt}, {"db", "get", "", `{"q":"~/.ssh/id"}`, ask.Deny},
		{"db", "get", "", `{"path":"src/a.go"}`, ask.Allow}, {"db", "get", "", `not json`, ask.Allow},
	} {
		a := mcp(c.server, c.name)
		a.MCP.Source = c.source
		if c.args != "" {
			a.Input = json.RawMessage(c.args)
		}
		want := c.want
		if strings.Contains(c.args, "../../") {
			a.Cwd = home + "/x/y"
			want = ask.Deny
		}
		if r := decide(p, a); r.Verdict != want {
			t.Errorf("%+v: %s, want %s: %+v", c, r.Verdict, want, r.Reasons)
		}
	}
}

func TestMCPArgumentsAreProtected(t *testing.T) {
	p := rules(t, "[[rule]]\naction = \"allow\"\nserver = \"fs\"\n")
	for _, c := range []struct {
		name, path string
		want       ask.Verdict
	}{
		{"write_file", "~/.claude/settings.json", ask.Deny}, {"read_file", "~/.claude/settings.json", ask.Allow}, {"write_file", home + "/.bashrc", ask.Deny},
		{"read_file", home + "/.local/state/permd/x", ask.Deny}, {"write_file", ".git/hooks/x", ask.Prompt}, {"get_file", ".git/config", ask.Allow}, {"write_file", "a.go", ask.Allow},
	} {
		a := mcp("fs", c.name)
		a.Input = json.RawMessage(`{"path":"` + c.path + `"}`)
		in := input(p, a)
		in.Self = self
		if r := Decide(in); r.Verdict != c.want {
			t.Errorf("%s %s: %s, want %s: %s", c.name, c.path, r.Verdict, c.want, r.Reason)
		}
	}
}

func TestBrokenPolicyAsksForEverything(t *testing.T) {
	p := Compile(file(t, "p", "[[rule]]\naction = \"deny\"\ncommand = \"rm *\"\n", LayerUser))
	p.broken = "the rules cannot be read: x:1:2: y"
	for cmd, want := range map[string]ask.Verdict{"ls": ask.Prompt, "rm x": ask.Deny, "permd desk": ask.Deny} {
		if r := decide(p, bash(cmd)); r.Verdict != want || r.Grantable {
			t.Errorf("%q: %s, want %s", cmd, r.Verdict, want)
		}
	}
}

// A rule that fails is at least as strict as it says.
func TestARuleThatFails(t *testing.T) {
	for action, want := range map[ask.Verdict]ask.Verdict{ask.Deny: ask.Deny, ask.Prompt: ask.Prompt, ask.Allow: ask.Prompt} {
		p := rules(t, "[[rule]]\naction = \""+action.String()+"\"\ncommand = \"x *\"\n")
		p.commands["x"][0].argv.words = []wild{{parts: []string{}}} // no file can say this
		if r := decide(p, bash("x y")); r.Verdict != want {
			t.Errorf("%s: %s, want %s", action, r.Verdict, want)
		}
	}
}

func TestResultsForExplaining(t *testing.T) {
	r := decide(Compile(), bash("cat a.go | tee ../b"))
	if len(r.Units) != 2 || r.Units[0] != "cat a.go" || len(r.Paths) != 2 || r.Paths[1] != (ask.Path{Given: home + "/b", Real: home + "/b", Access: ask.AccessWrite}) {
		t.Errorf("%q %+v", r.Units, r.Paths)
	}
}

// A hostile command does not stall a decision.
func TestHostileActions(t *testing.T) {
	p := Compile(file(t, "p", "[[rule]]\naction = \"deny\"\ncommand = \"git * x\"\n[[rule]]\naction = \"deny\"\npath = \"**/*a*a*a/**/b\"\n", LayerUser))
	for _, cmd := range []string{
		strings.Repeat("git a;", 10000), "git " + strings.Repeat("-x a ", 12000), "tool " + strings.Repeat("a ", 30000), strings.Repeat("sudo ", 13000), strings.Repeat("eval ", 13000), strings.Repeat("command ", 8000), strings.Repeat("find . -exec ", 5000), strings.Repeat("git bisect run ", 4000), strings.Repeat("npm exec ", 7000), strings.Repeat("kill $x;", 8000),
		strings.Repeat("strace ", 9000), strings.Repeat("fd -x ", 10000), strings.Repeat("pkill -f a ", 5000), strings.Repeat("sudo -Z ", 8000), strings.Repeat("rm ../a ", 8000),
		"kill $(" + strings.Repeat("pgrep permd;", 5000) + ")", "pkill '" + strings.Repeat("(a*)*", 10000) + "'", "cat " + strings.Repeat("a/", 30000), strings.Repeat("x", 70000), "cat '" + strings.Repeat("../", 20000) + "'",
	} {
		start := time.Now()
		if r := decide(p, bash(cmd)); r.Verdict == ask.Allow {
			t.Errorf("%.40q is allowed", cmd)
		}
		if d := time.Since(start); d > 10*time.Second {
			t.Errorf("%.40q takes %v", cmd, d)
		} else if d > 100*time.Millisecond {
			t.Logf("%.40q: %v", cmd, d)
		}
	}
	if r := decide(rules(t, "[[rule]]\naction = \"deny\"\ncommand = \"rm *\"\n"), bash(strings.Repeat("sudo ", 10000)+"rm x")); r.Verdict != ask.Deny {
		t.Errorf("behind ten thousand wrappers: %s", r.Verdict)
	}
}
