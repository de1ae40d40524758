package policy

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"permd/ask"
)

const projectFile = "home/proj/.permd/policy.toml"

// trust is a person's word for the project's file as it is.
func (b *bench) trust() *Proposal {
	b.t.Helper()
	t := OpenTrust(b.places.State)
	p, err := t.Propose(filepath.Join(b.root, projectFile), "dev", time.Now())
	if err != nil {
		b.t.Fatal(err)
	}
	if err := t.Give(p.Trusted); err != nil {
		b.t.Fatal(err)
	}
	return p
}

// A project's file tightens at once and loosens only as it was trusted.
func TestProjectTrust(t *testing.T) {
	b := newBench(t)
	b.write("managed/a.toml", denyRM)
	b.write(projectFile, allowMake+denyMV+"[[rule]]\naction = \"allow\"\ncommand = \"rm *\"\n")
	b.want("not trusted", map[string]ask.Verdict{"make x": ask.Prompt, "mv x y": ask.Deny, "rm x": ask.Deny})
	if u := b.store.Policy(b.project).Untrusted(); u == nil || u.Rules != 2 || u.Changed {
		t.Errorf("%+v", u)
	}
	if p := b.trust(); len(p.Rules) != 2 || p.Tightens != 1 || !strings.Contains(p.Text, "+ allow command = \"make *\"") || strings.Contains(p.Text, "deny") {
		t.Errorf("%+v", p)
	}
	b.want("trusted", map[string]ask.Verdict{"make x": ask.Allow, "mv x y": ask.Deny, "rm x": ask.Deny})
	if u := b.store.Policy(b.project).Untrusted(); u != nil {
		t.Errorf("%+v", u)
	}
	b.reopen()
	b.want("in another process", map[string]ask.Verdict{"make x": ask.Allow})
	b.write(projectFile, allowMake+denyMV+allowGo)
	b.want("changed", map[string]ask.Verdict{"make x": ask.Prompt, "go test x": ask.Prompt, "mv x y": ask.Deny})
	if u := b.store.Policy(b.project).Untrusted(); u == nil || !u.Changed {
		t.Errorf("%+v", u)
	}
	p := b.trust()
	if !strings.Contains(p.Text, "+ allow command = \"go test *\"") || !strings.Contains(p.Text, "- allow command = \"rm *\"") || strings.Contains(p.Text, "make") {
		t.Errorf("the difference: %s", p.Text)
	}
	b.want("trusted again", map[string]ask.Verdict{"make x": ask.Allow, "go test x": ask.Allow})
	b.write(projectFile, allowMake+denyMV+"[[rule]]\naction = \"allow\"\ncommand = \"rm *\"\n")
	b.want("an earlier content", map[string]ask.Verdict{"make x": ask.Prompt})
	b.trust()
	if err := OpenTrust(b.places.State).Revoke(filepath.Join(b.root, projectFile)); err != nil {
		t.Fatal(err)
	}
	b.want("revoked", map[string]ask.Verdict{"make x": ask.Prompt, "mv x y": ask.Deny})
	if err := OpenTrust(b.places.State).Revoke(filepath.Join(b.root, projectFile)); !errors.Is(err, ErrNotTrusted) {
		t.Errorf("%v", err)
	}
}

// What a project's file may never do, trusted or not: a wildcard default, what
// runs later by a pattern, permd itself.
func TestATrustedProjectIsNoAdministrator(t *testing.T) {
	b := newBench(t)
	b.write(projectFile, "[[rule]]\naction = \"allow\"\ntool = \"bash\"\n")
	b.trust()
	b.want("trusted", map[string]ask.Verdict{"make x": ask.Allow, "crontab x": ask.Prompt, "tmux send-keys x": ask.Prompt, "permd mode yolo --for 1h": ask.Deny})
	b.write(projectFile, "default = \"allow\"\n"+allowMake)
	if _, err := OpenTrust(b.places.State).Propose(filepath.Join(b.root, projectFile), "dev", time.Now()); err == nil {
		t.Error("a default that allows is proposed")
	}
}

// A list that nobody recorded, or that cannot be read, trusts nothing.
func TestTrustNeedsItsRecord(t *testing.T) {
	b := newBench(t)
	witnessed := false
	b.places.Witness = func(x Trusted) bool {
		if x.File != filepath.Join(b.root, projectFile) || x.SHA256 == "" {
			t.Errorf("%+v", x)
		}
		return witnessed
	}
	b.reopen()
	b.write(projectFile, allowMake)
	b.trust()
	b.want("not on the record", map[string]ask.Verdict{"make x": ask.Prompt})
	witnessed = true
	b.reopen()
	b.want("on the record", map[string]ask.Verdict{"make x": ask.Allow})
	file := filepath.Join(b.places.State, trustDir, trustName)
	good, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for what, bad := range map[string]string{
		"torn": string(good[:len(good)/2]), "another version": strings.Replace(string(good), `"v":1`, `"v":2`, 1),
		"a field more": strings.Replace(string(good), `"v":1`, `"v":1,"x":2`, 1), "no hash": strings.Replace(string(good), `"sha256":"`, `"sha256":"zz`, 1),
	} {
		if err := os.WriteFile(file, []byte(bad), 0o600); err != nil {
			t.Fatal(err)
		}
		b.want(what, map[string]ask.Verdict{"make x": ask.Prompt})
		if err := b.store.Problem(); err == nil || !strings.Contains(err.Error(), "no project's file is trusted") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := os.WriteFile(file, good, 0o600); err != nil {
		t.Fatal(err)
	}
	b.want("put right", map[string]ask.Verdict{"make x": ask.Allow})
	if err := b.store.Problem(); err != nil {
		t.Error(err)
	}
	if err := os.Chmod(file, 0o666); err != nil {
		t.Fatal(err)
	}
	b.want("anybody may write it", map[string]ask.Verdict{"make x": ask.Prompt})
}
