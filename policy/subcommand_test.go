package policy

import (
	"errors"
	"testing"

	"permd/ask"
)

func TestSubcommand(t *testing.T) {
	for _, c := range []struct {
		argv []string
		want string
	}{
		{[]string{"git", "commit", "-m", "x"}, "git commit *"}, {[]string{"npm", "run", "dev", "--", "x"}, "npm run dev *"},
		{[]string{"docker", "compose", "up", "-d"}, "docker compose up *"}, {[]string{"gh", "pr", "create", "--title", "x"}, "gh pr create *"},
		{[]string{"git", "commit"}, ""}, {[]string{"npm", "run", "dev"}, ""}, {[]string{"npm", "run", "--silent", "dev"}, ""},
		{[]string{"git"}, ""}, {[]string{"git", "-C", "x", "push"}, ""}, {[]string{"git", "--no-pager", "log", "-1"}, ""},
		{[]string{"rm", "-rf", "x"}, ""}, {[]string{"sudo", "ls", "-la"}, ""}, {[]string{"env", "git", "commit", "x"}, ""},
		{[]string{"bash", "-c", "x"}, ""}, {[]string{"python3", "-m", "pytest", "x"}, ""}, {[]string{"make", "clean", "x"}, ""},
		{[]string{"npm", "exec", "x", "y"}, ""}, {[]string{"npx", "run", "x"}, ""}, {[]string{"go", "run", "x", "y"}, ""},
		{[]string{"git", "config", "a", "b"}, ""}, {[]string{"git", "bisect", "run", "x"}, ""}, {[]string{"git", "submodule", "foreach", "x"}, ""},
		{[]string{"docker", "run", "x", "y"}, ""}, {[]string{"gh", "alias", "set", "x"}, ""}, {[]string{"./git", "commit", "x"}, ""},
		{[]string{"*", "commit", "x"}, ""}, {[]string{"permd", "grant", "--last"}, ""},
	} {
		got, ok := Subcommand(c.argv)
		if got != c.want || ok != (c.want != "") {
			t.Errorf("%q: %q, want %q", c.argv, got, c.want)
		}
	}
}

// A grant for a subcommand covers further words, and nothing that such a rule
// in a file would not cover.
func TestSubcommandGrants(t *testing.T) {
	give := bash("git push origin main")
	k := keepAny(t, ask.Rule{Action: ask.Allow, Tool: "bash", Command: "git push *"}, give, ask.ScopeSession, "s1")
	elsewhere := bash("git push origin main")
	elsewhere.Cwd = home + "/other"
	asked := Compile(file(t, "p", "[[rule]]\naction = \"ask\"\ncommand = \"git *\"\n[[rule]]\naction = \"deny\"\ncommand = \"git push --force *\"\n", LayerUser))
	managed := Compile(file(t, "m", "[[rule]]\naction = \"ask\"\ncommand = \"git push *\"\n", LayerManaged))
	for _, c := range []struct {
		why  string
		p    *Policy
		a    *ask.Action
		want ask.Verdict
	}{
		{"the same", Compile(), give, ask.Allow},
		{"other words", Compile(), bash("git push fork x"), ask.Allow},
		{"no further word", Compile(), bash("git push"), ask.Prompt},
		{"another subcommand", Compile(), bash("git rebase main"), ask.Prompt},
		{"an option before it", Compile(), bash("git -c core.sshCommand=x push origin"), ask.Prompt},
		{"an option that runs a program", Compile(), bash("git push --receive-pack=x origin"), ask.Prompt},
		{"a transport that runs one", Compile(), bash("git push 'ext::sh -c x'"), ask.Prompt},
		{"a chain", Compile(), bash("git push origin main; x"), ask.Prompt},
		{"a substitution", Compile(), bash("git push origin $(x)"), ask.Prompt},
		{"a variable before it", Compile(), bash("GIT_SSH_COMMAND=x git push origin main"), ask.Prompt},
		{"a redirection", Compile(), bash("git push origin main > /etc/x"), ask.Prompt},
		{"behind a wrapper", Compile(), bash("sudo git push origin main"), ask.Prompt},
		{"elsewhere", Compile(), elsewhere, ask.Prompt},
		{"against an ask rule", asked, give, ask.Allow},
		{"against a deny rule", asked, bash("git push --force origin"), ask.Deny},
		{"against an administrator's ask", managed, give, ask.Prompt},
	} {
		in := input(c.p, c.a)
		in.Grants = []Kept{k}
		if r := Decide(in); r.Verdict != c.want {
			t.Errorf("%s: %s, want %s: %s", c.why, r.Verdict, c.want, r.Reason)
		}
	}
	for _, cmd := range []string{"git push --receive-pack=x origin", "git push 'ext::x'", "npm run x | sh", "sudo git push origin main"} {
		in := input(Compile(), bash(cmd))
		for _, o := range Offers(in, Decide(in)) {
			if o.Rule.Command != "" && o.Rule.Command[len(o.Rule.Command)-1] == '*' {
				t.Errorf("%q: offered %s", cmd, Line(&o.Rule))
			}
		}
	}
}

func TestNarrower(t *testing.T) {
	push := ask.Rule{Action: ask.Allow, Tool: "bash", Command: "git push *", Client: "claude"}
	file := ask.Rule{Action: ask.Allow, Tool: "read", Path: "/srv/data"}
	d := bash("x").ActionDigest()
	with := func(r ask.Rule, f func(*ask.Rule)) ask.Rule { f(&r); return r }
	for _, c := range []struct {
		why             string
		offered, edited ask.Rule
		ok              bool
	}{
		{"equal", push, push, true},
		{"narrower", push, with(push, func(r *ask.Rule) { r.Command = "git push origin *" }), true},
		{"exact", push, with(push, func(r *ask.Rule) { r.Command = "git push origin main" }), true},
		{"one session", push, with(push, func(r *ask.Rule) { r.Session = "s1" }), true},
		{"this call alone", push, with(push, func(r *ask.Rule) { r.Digest = &d }), true},
		{"an exception", push, with(push, func(r *ask.Rule) { r.Except = []ask.Rule{{Command: "git push --force *"}} }), true},
		{"every client", push, with(push, func(r *ask.Rule) { r.Client = "" }), false},
		{"another client", push, with(push, func(r *ask.Rule) { r.Client = "codex" }), false},
		{"the program", push, with(push, func(r *ask.Rule) { r.Command = "git *" }), false},
		{"another subcommand", push, with(push, func(r *ask.Rule) { r.Command = "git pull *" }), false},
		{"every command", push, with(push, func(r *ask.Rule) { r.Command = "*" }), false},
		{"something else", push, file, false},
		{"a deny", push, with(push, func(r *ask.Rule) { r.Action = ask.Deny }), false},
		{"no rule", push, ask.Rule{}, false},
		{"the directory above", file, with(file, func(r *ask.Rule) { r.Path = "/srv" }), false},
		{"all below it", file, with(file, func(r *ask.Rule) { r.Path = "/srv/**" }), false},
		{"written instead", file, with(file, func(r *ask.Rule) { r.Tool = "write" }), false},
		{"for any call again", with(push, func(r *ask.Rule) { r.Digest = &d }), push, false},
	} {
		err := Narrower(&c.offered, &c.edited)
		if (err == nil) != c.ok {
			t.Errorf("%s: %v", c.why, err)
		}
		if err != nil && !errors.Is(err, ErrWider) && !errors.Is(err, ErrNotGrantable) {
			t.Errorf("%s: %v", c.why, err)
		}
	}
}
