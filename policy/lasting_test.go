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

func lastingGrant(t *testing.T, r ask.Rule, a *ask.Action, scope ask.Scope, id string) Kept {
	t.Helper()
	g := grant(r, scope, "")
	g.ID = id
	if scope == ask.ScopeProject {
		g.Project = a.Project
	}
	in := input(CompileAlone(), a)
	k, err := Keep(g, a, in.View, Clock{Boot: "boot", Up: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// Grants of a project and of the user lie in a file of their own, hold in any
// session, survive the end of each, and a project's holds in no other one.
func TestLastingGrants(t *testing.T) {
	g, state := openGrants(t)
	now := Clock{Boot: "boot", Up: 2 * time.Hour}
	read := ask.Rule{Action: ask.Allow, Tool: "read", Path: "/srv/data"}
	p := lastingGrant(t, ask.Rule{Action: ask.Allow, Command: "make x"}, bash("make x"), ask.ScopeProject, "g-project")
	u := lastingGrant(t, read, onFile(ask.ToolRead, "/srv/data"), ask.ScopeUser, "g-user")
	for _, k := range []Kept{p, u} {
		if err := g.Add(k); err != nil {
			t.Fatal(err)
		}
	}
	raw, err := os.ReadFile(filepath.Join(state, grantsDir, ".lasting.json"))
	if err != nil || !strings.Contains(string(raw), `"given":"2026-01-02T03:04:05Z"`) || !strings.Contains(string(raw), `"kind":"user"`) {
		t.Errorf("who and when do not stand beside the grants: %s, %v", raw, err)
	}
	if err := g.End("s1"); err != nil {
		t.Fatal(err)
	}
	again, err := OpenGrants(state)
	if err != nil {
		t.Fatal(err)
	}
	kept, _, err := again.Of(now, "any")
	if err != nil || len(kept) != 2 {
		t.Fatalf("%+v, %v", kept, err)
	}
	other := bash("make x")
	other.Project = home + "/other"
	for _, c := range []struct {
		why  string
		a    *ask.Action
		want ask.Verdict
	}{
		{"in the project", bash("make x"), ask.Allow},
		{"in another project", other, ask.Prompt},
		{"the user's", onFile(ask.ToolRead, "/srv/data"), ask.Allow},
		{"another file", onFile(ask.ToolRead, "/srv/data2"), ask.Prompt},
	} {
		in := input(Compile(), c.a)
		in.Origin, in.Grants = "another-session", kept
		if r := Decide(in); r.Verdict != c.want {
			t.Errorf("%s: %s, want %s: %s", c.why, r.Verdict, c.want, r.Reason)
		}
	}
	if err := again.Revoke("", "g-user"); err != nil {
		t.Fatal(err)
	}
	if got, err := g.List(now); err != nil || len(got) != 1 || got[0].Grant.ID != "g-project" {
		t.Errorf("after a revocation in another process: %+v, %v", got, err)
	}
	if err := again.Revoke("", "g-user"); !errors.Is(err, ErrNoGrant) {
		t.Errorf("%v", err)
	}
}

// A project's grant is kept only for the project of the call it was given for.
func TestAProjectGrantIsForTheProjectOfItsCall(t *testing.T) {
	a := bash("make x")
	g := grant(ask.Rule{Action: ask.Allow, Command: "make x"}, ask.ScopeProject, "")
	g.Project = "/elsewhere"
	if _, err := Keep(g, a, input(CompileAlone(), a).View, Clock{Boot: "b"}); !errors.Is(err, ErrNotGrantable) {
		t.Errorf("%v", err)
	}
}

// What expires is over when the boot-time clock says so, and after a restart;
// it is taken away once.
func TestGrantsExpire(t *testing.T) {
	g, state := openGrants(t)
	a := bash("make x")
	for _, scope := range []ask.Scope{ask.ScopeSession, ask.ScopeUser} {
		gr := grant(ask.Rule{Action: ask.Allow, Command: "make x"}, scope, "")
		gr.ID = "g-" + string(scope)
		if scope == ask.ScopeSession {
			gr.Session = "s1"
		}
		gr.ExpiresMS = time.Minute.Milliseconds()
		k, err := Keep(gr, a, input(CompileAlone(), a).View, Clock{Boot: "boot", Up: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		if err := g.Add(k); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		now   Clock
		lives int
	}{
		{Clock{"boot", time.Hour}, 2}, {Clock{"boot", time.Hour + 59*time.Second}, 2}, {Clock{"boot", time.Hour + time.Minute}, 0},
		{Clock{"boot", time.Hour - time.Second}, 0}, {Clock{"next boot", time.Hour + time.Second}, 0}, {Clock{}, 0},
	} {
		living, expired, err := g.Of(c.now, "s1")
		if err != nil || len(living) != c.lives || len(expired) != 2-c.lives {
			t.Errorf("%+v: %d live, %d expired, %v", c.now, len(living), len(expired), err)
		}
	}
	other, err := OpenGrants(state)
	if err != nil {
		t.Fatal(err)
	}
	now := Clock{Boot: "next boot", Up: time.Second}
	gone, err := other.Prune(now, "s1")
	if err != nil || len(gone) != 2 {
		t.Errorf("%+v, %v", gone, err)
	}
	if gone, err := g.Prune(now, "s1"); err != nil || len(gone) != 0 {
		t.Errorf("twice: %+v, %v", gone, err)
	}
	gr := grant(ask.Rule{Action: ask.Allow, Command: "make x"}, ask.ScopeUser, "")
	gr.ExpiresMS = 1
	if _, err := Keep(gr, a, input(CompileAlone(), a).View, Clock{}); !errors.Is(err, ErrNotGrantable) {
		t.Errorf("a limit that cannot be measured: %v", err)
	}
}

// A file of grants that permd would not have written gives none.
func TestLastingGrantsOfAnotherScope(t *testing.T) {
	g, state := openGrants(t)
	k := lastingGrant(t, ask.Rule{Action: ask.Allow, Command: "make x"}, bash("make x"), ask.ScopeUser, "g1")
	if err := g.Add(k); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(state, grantsDir, ".lasting.json")
	good, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for what, bad := range map[string]string{
		"a session's grant among them": strings.Replace(strings.Replace(string(good), `"scope":"user"`, `"scope":"session","session":"s1"`, 1), `{"v":1,`, `{"v":1,"session":"s1",`, 1),
		"another version":              strings.Replace(string(good), `"v":1`, `"v":2`, 1),
		"a field more":                 strings.Replace(string(good), `"v":1,`, `"v":1,"x":1,`, 1),
		"a pattern":                    strings.Replace(string(good), `"make x"`, `"make *"`, 1),
		"every command":                strings.Replace(string(good), `"make x"`, `"*"`, 1),
		"torn":                         string(good[:len(good)/2]),
	} {
		if bad == string(good) {
			t.Fatalf("%s: the test changes nothing", what)
		}
		if err := os.WriteFile(file, []byte(bad), 0o600); err != nil {
			t.Fatal(err)
		}
		fresh, err := OpenGrants(state)
		if err != nil {
			t.Fatal(err)
		}
		if got, _, err := fresh.Of(Clock{Boot: "boot", Up: 2 * time.Hour}); err == nil || len(got) > 0 {
			t.Errorf("%s: %+v, %v", what, got, err)
		}
	}
}

func TestDigestOfAGrant(t *testing.T) {
	a := lastingGrant(t, ask.Rule{Action: ask.Allow, Command: "make x"}, bash("make x"), ask.ScopeUser, "g1")
	was, err := a.Digest()
	if err != nil {
		t.Fatal(err)
	}
	for what, f := range map[string]func(*Kept){
		"rule": func(k *Kept) { k.Grant.Rule.Command = "make y" }, "scope": func(k *Kept) { k.Grant.Scope = ask.ScopeSession },
		"directory": func(k *Kept) { k.Cwd = "/" }, "pins": func(k *Kept) { k.Pins = []Pin{{Path: "/x"}} }, "end": func(k *Kept) { k.Grant.ExpiresMS = 1 },
		"time": func(k *Kept) { k.UpMS++ }, "giver": func(k *Kept) { k.Grant.By.Surface = "x" },
	} {
		b := a
		f(&b)
		if d, err := b.Digest(); err != nil || d == was {
			t.Errorf("%s: the digest is the same, %v", what, err)
		}
	}
}
