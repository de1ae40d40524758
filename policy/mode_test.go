package policy

import (
	"testing"

	"permd/ask"
	"permd/policy/paths"
)

// What each mode makes of each kind of ask. No mode touches a deny, what runs
// later, what an administrator wants asked, or anything while rules are broken.
func TestModes(t *testing.T) {
	user := "[[rule]]\naction = \"deny\"\ncommand = \"rm *\"\n[[rule]]\naction = \"ask\"\ncommand = \"git push *\"\n[[rule]]\naction = \"ask\"\npath = \"<project>/asked/**\"\n"
	managed := "[[rule]]\naction = \"ask\"\ncommand = \"terraform apply *\"\n"
	p := Compile(file(t, "u", user, LayerUser), file(t, "m", managed, LayerManaged))
	broken := Compile()
	broken.broken = "the rules cannot be read"
	write, edit, read := func(n string) *ask.Action { return onFile(ask.ToolWrite, n) }, func(n string) *ask.Action { return onFile(ask.ToolEdit, n) }, func(n string) *ask.Action { return onFile(ask.ToolRead, n) }
	for _, c := range []struct {
		why         string
		p           *Policy
		a           *ask.Action
		yolo, edits ask.Verdict
	}{
		{"no rule allows it", p, bash("make x"), ask.Allow, ask.Prompt},
		{"a wrapper", p, bash("sudo make x"), ask.Allow, ask.Prompt},
		{"not understood", p, bash("eval \"$x\""), ask.Allow, ask.Prompt},
		{"a rule asks", p, bash("git push origin"), ask.Allow, ask.Prompt},
		{"a rule denies", p, bash("rm x"), ask.Deny, ask.Deny},
		{"a rule denies a part", p, bash("make x; rm y"), ask.Deny, ask.Deny},
		{"a rule denies what cannot be read", p, bash("eval \"rm $x\""), ask.Deny, ask.Deny},
		{"an administrator wants it asked", p, bash("terraform apply x"), ask.Prompt, ask.Prompt},
		{"and it is part of more", p, bash("make x && terraform apply x"), ask.Prompt, ask.Prompt},
		{"drives a terminal", p, bash("tmux send-keys -t x y"), ask.Prompt, ask.Prompt},
		{"runs later", p, bash("crontab x"), ask.Prompt, ask.Prompt},
		{"a file that runs later", p, write(".git/hooks/pre-commit"), ask.Prompt, ask.Prompt},
		{"permd itself", p, bash("permd mode yolo --for 1h"), ask.Deny, ask.Deny},
		{"permd's rules", p, write(home + "/.config/permd/policy.toml"), ask.Deny, ask.Deny},
		{"rules that cannot be read", broken, bash("make x"), ask.Prompt, ask.Prompt},
		{"a write", p, write("a.go"), ask.Allow, ask.Allow},
		{"an edit", p, edit("dir/a.go"), ask.Allow, ask.Allow},
		{"a write that a rule asks about", p, write("asked/a.go"), ask.Allow, ask.Prompt},
		{"a secret", p, write(".env"), ask.Allow, ask.Prompt},
		{"a write outside", p, write("/srv/a"), ask.Allow, ask.Prompt},
		{"a write above", p, write("../a"), ask.Allow, ask.Prompt},
		{"behind a link", p, write("out/a"), ask.Allow, ask.Prompt},
		{"a read outside", p, read("/srv/a"), ask.Allow, ask.Prompt},
		{"a fetch", p, fetch("https://example.org"), ask.Allow, ask.Prompt},
		{"a command that writes", p, bash("echo x > a.go"), ask.Allow, ask.Prompt},
	} {
		in := input(c.p, c.a)
		in.View = paths.Fixed{Links: map[string]string{proj + "/out": "/srv"}}
		in.Self = NewSelf(Self{Config: home + "/.config/permd"}, in.View)
		r := Decide(in)
		for m, want := range map[Mode]ask.Verdict{ModeYolo: c.yolo, ModeAcceptEdits: c.edits, ModeNormal: r.Verdict, "": r.Verdict, "other": r.Verdict} {
			got := m.Apply(in, r)
			if got.Verdict != want {
				t.Errorf("%s, mode %q: %s, want %s: %s", c.why, m, got.Verdict, want, r.Reason)
			}
			if got.Verdict == ask.Allow && r.Verdict != ask.Allow && (got.By.Kind != ask.KindMode || got.By.Surface != string(m) || got.Reasons[0].Kind != ask.KindMode) {
				t.Errorf("%s: by %+v", c.why, got.By)
			}
		}
		in.Node = Claimed
		if r := Decide(in); r.Verdict == ask.Prompt {
			if got := ModeYolo.Apply(in, r); got.Verdict != ask.Prompt {
				t.Errorf("%s: allowed to a session that only claims to be below", c.why)
			}
		}
	}
}

func TestParseMode(t *testing.T) {
	for s, ok := range map[string]bool{"normal": true, "accept-edits": true, "yolo": true, "": false, "YOLO": false, "acceptEdits": false} {
		if m, err := ParseMode(s); (err == nil) != ok || !ok && m != ModeNormal {
			t.Errorf("%q: %s, %v", s, m, err)
		}
	}
}
