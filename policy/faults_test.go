package policy

import (
	"strings"
	"testing"

	"permd/ask"
	"permd/policy/paths"
)

// The 35 faults that another permission system had in its judging of commands
// and paths, by their numbers in its list: what is right for each.
func TestFaultsOfOthers(t *testing.T) {
	const (
		bashAll  = "[[rule]]\naction = \"allow\"\ntool = \"bash\"\n"
		readAll  = "[[rule]]\naction = \"allow\"\ntool = \"read\"\n"
		noRm     = bashAll + "[[rule]]\naction = \"deny\"\ncommand = \"rm *\"\n"
		noEtc    = bashAll + "[[rule]]\naction = \"deny\"\npath = \"/etc/**\"\n"
		noOut    = bashAll + readAll + "[[rule]]\naction = \"deny\"\noutside = \"project\"\n"
		noEnv    = readAll + bashAll + "[[rule]]\naction = \"deny\"\npath = \"**/.env\"\n"
		onlyGit  = "[[rule]]\naction = \"allow\"\ncommand = \"git *\"\n[[rule]]\naction = \"allow\"\ncommand = \"cd *\"\n"
		exceptGo = "[[rule]]\naction = \"ask\"\npath = \"src/**\"\n"
	)
	for _, c := range []struct {
		fault int
		rules string
		a     *ask.Action
		want  ask.Verdict
	}{
		{37, onlyGit, bash("git status && rm x"), ask.Prompt}, // every command of a chain
		{38, noRm, bash("ls $(rm x)"), ask.Deny},              // substitutions
		{40, noRm, bash("A=1 sudo xargs rm"), ask.Deny}, {40, noRm, bash("bash -c 'rm x'"), ask.Deny},
		{41, noRm, bash("rm x; echo 'abc"), ask.Deny}, // unreadable text hides no deny
		{42, noRm, bash("echo > $(rm x)"), ask.Deny}, {42, noRm, bash("cat <<E\n$(rm x)\nE"), ask.Deny},
		{43, noRm, bash("while read f; do { if x; then rm $f; fi; }; done"), ask.Deny}, {43, noRm, bash("f() { rm x; }; f"), ask.Deny},
		{44, noRm, bash("git commit -F - <<'M' 2>&1 | rm x\nb\nM"), ask.Deny}, {44, bashAll, bash("ls; echo 'abc"), ask.Prompt},
		{45, "[[rule]]\naction = \"allow\"\nclass = \"read-only\"\n", bash("ls > $F"), ask.Prompt}, // a target that is not known
		{46, noEtc, bash("for f in /etc/passwd; do cat $f; done"), ask.Deny}, {46, noEtc, bash("case /etc/x in *) cat /etc/x;; esac"), ask.Deny},
		{47, noEtc, bash("cat /etc/[p]asswd"), ask.Deny},
		{48, noEtc, bash("grep -A 3 root /etc/passwd"), ask.Deny}, {48, noEtc, bash("sed -i s/a/b/ /etc/x"), ask.Deny}, {48, noEtc, bash("grep /etc/passwd a.txt"), ask.Allow},
		{49, noEtc, bash("grep --file=/etc/x y"), ask.Deny}, {49, noEnv, bash("cat alias.txt"), ask.Deny},
		{50, noOut, bash("cat $HOME/.ssh/x"), ask.Deny}, {50, noOut, bash("cat ${HOME}/x"), ask.Deny}, {50, noOut, bash("cat $PWD/a"), ask.Allow},
		{51, bashAll + "[[rule]]\naction = \"deny\"\npath = \"**/id_rsa\"\n", bash("cat id_rsa"), ask.Deny}, {51, noOut, bash("ls /"), ask.Deny},
		{52, noOut, onFile(ask.ToolRead, "outlink/x"), ask.Deny}, {52, noOut, bash("cat etclink/hosts"), ask.Deny},
		{53, noOut, bash("cd \"$X\" && cat ../y"), ask.Deny}, {53, noOut, bash("cd nested 2>/dev/null | cat ../y"), ask.Deny}, {53, noOut, bash("cd nested && cat ../a"), ask.Allow},
		{55, "[[rule]]\naction = \"allow\"\ncommand = \"git commit *\"\n", bash("git commit -m 'a\nb'"), ask.Allow},
		{56, readAll + "[[rule]]\naction = \"deny\"\npath = \"**/.env\"\n", onFile(ask.ToolRead, "a.go"), ask.Allow}, // a rule for a path asks about no other
		{57, bashAll + "[[rule]]\naction = \"ask\"\noutside = \"project\"\nexcept = [{ path = \"/etc/**\" }]\n", bash("cat /etc/hosts"), ask.Allow},
		{61, "", bash("touch x"), ask.Prompt},
		{65, exceptGo + noRm, bash("rm src/a"), ask.Deny}, // the deny is found before anybody is asked
		{67, "[[rule]]\naction = \"allow\"\nserver = \"github\"\n[[rule]]\naction = \"deny\"\nserver = \"github\"\nname = \"delete*\"\n", mcp("github", "delete_repo"), ask.Deny},
		{67, "[[rule]]\naction = \"allow\"\nserver = \"github\"\n", mcp("git_hub", "search"), ask.Prompt},
		{68, noOut, bash("git log a..b"), ask.Allow}, {68, noOut, bash("git diff HEAD..x -- src"), ask.Allow}, {68, noOut, bash("cat a/../../x"), ask.Deny},
		{69, noRm, bash("sudo -u x rm y"), ask.Deny}, {69, noRm, bash("env -S 'rm y'"), ask.Deny}, {69, noRm, bash("xargs -I {} rm {}"), ask.Deny}, {69, noRm, bash("sudo --zz rm y"), ask.Deny},
		{71, noRm, bash("time ( rm x )"), ask.Deny},
	} {
		in := input(rules(t, c.rules), c.a)
		in.View = rowsView
		if r := Decide(in); r.Verdict != c.want {
			t.Errorf("%d: %s%+v: %s, want %s: %s", c.fault, c.a.Command, c.a.Paths, r.Verdict, c.want, r.Reason)
		}
	}
}

// 39: what cannot be judged is never allowed. 54, 63, 70: a grant is for
// exactly what was asked, by any spelling of it, in one direction. 60, 62: a
// file with a fault loosens nothing. 66: one ask has all reasons.
func TestFaultsOfOthersBesideVerdicts(t *testing.T) {
	if r := Decide(Input{}); r.Verdict != ask.Deny {
		t.Errorf("39: nothing to judge by: %s", r.Verdict)
	}
	for _, a := range []*ask.Action{onFile(ask.ToolRead, "docs/a.md"), onFile(ask.ToolRead, proj+"/docs/a.md")} {
		asks := rules(t, "[[rule]]\naction = \"ask\"\npath = \"docs/**\"\n")
		in := input(asks, a)
		offers := Offers(in, Decide(in))
		if len(offers) == 0 {
			t.Fatal("54: nothing is offered")
		}
		in.Grants = []Kept{keep(t, offers[0], a)}
		for spelled, want := range map[string]ask.Verdict{"docs/a.md": ask.Allow, "./docs/a.md": ask.Allow, "docs/../docs/a.md": ask.Allow, proj + "/docs/a.md": ask.Allow, "docs/b.md": ask.Prompt} {
			in.Action = onFile(ask.ToolRead, spelled)
			if r := Decide(in); r.Verdict != want {
				t.Errorf("54: %s: %s, want %s", spelled, r.Verdict, want)
			}
		}
		in.Action = onFile(ask.ToolWrite, "docs/a.md")
		if r := Decide(in); r.Verdict != ask.Prompt {
			t.Errorf("63: a grant to read is none to write: %s", r.Verdict)
		}
	}
	in := input(Compile(), bash("sudo ls -la /root"))
	for _, o := range Offers(in, Decide(in)) {
		if strings.HasSuffix(o.Rule.Command, "*") {
			t.Errorf("70: %q is offered for a command behind sudo", o.Rule.Command)
		}
	}
	for _, bad := range []string{"[[rule]]\naction = \"deny\"\n", "[[rule]]\naction = \"deny\"\ncommand = \"\"\n", "[[rule]]\naction = \"deny\"\ncomand = \"rm *\"\n", "[[rule]]\naction = \"deny\"\npath = []\n"} {
		if _, err := Decode("x", []byte(bad), LayerUser); err == nil {
			t.Errorf("60, 62: taken: %s", bad)
		}
	}
	both := input(rules(t, "[[rule]]\naction = \"ask\"\ntool = \"bash\"\n[[rule]]\naction = \"ask\"\noutside = \"project\"\n"), bash("cat /etc/hosts"))
	both.View = paths.Fixed{}
	if r := Decide(both); len(r.Reasons) < 2 || r.Verdict != ask.Prompt {
		t.Errorf("66: %s for %d reasons", r.Verdict, len(r.Reasons))
	}
}
