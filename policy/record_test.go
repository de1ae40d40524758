package policy

import (
	"encoding/json"
	"strings"
	"testing"

	"permd/ask"
	"permd/policy/paths"
)

func TestRedactCommand(t *testing.T) {
	for cmd, want := range map[string]string{
		"git status":                "git status",
		"API_KEY=hunter2 x":         "API_KEY=‹redacted› x",
		"curl -u me:hunter2 h":      "curl -u ‹redacted› h",
		"x --password hunter2 -v":   "x --password ‹redacted› -v",
		"curl https://u:hunter2@h/": "curl https://‹redacted›@h/",
	} {
		if got := RedactCommand(cmd); got != want {
			t.Errorf("%q: %q, want %q", cmd, got, want)
		}
	}
	long := RedactCommand("echo " + strings.Repeat("é", 8000) + " end")
	if len(long) > maxRecorded+200 || !strings.HasPrefix(long, "echo é") || !strings.HasSuffix(long, "é end") || !strings.Contains(long, "sha256:") {
		t.Errorf("%d bytes: %.60q … %q", len(long), long, long[len(long)-40:])
	}
	if got := RedactCommand("x 'hunter2"); strings.Contains(got, "hunter2") {
		t.Errorf("what cannot be parsed: %q", got)
	}
}

func TestRedactAction(t *testing.T) {
	const secret = "hunter2hunter2"
	full := bash("TOKEN=" + secret + " x")
	full.Input = json.RawMessage(`{"command":"TOKEN=` + secret + ` x","description":"` + secret + `"}`)
	web := fetch("https://u:" + secret + "@h.org/a?q=b&api_key=" + secret + "#" + secret)
	search := action(ask.ToolWebSearch, "WebSearch")
	search.Query = "what is password=" + secret
	tool := mcp("db", "query")
	tool.Input = json.RawMessage(`{"sql":"` + secret + `"}`)
	file := onFile(ask.ToolWrite, "/x/y")
	file.Input = json.RawMessage(`{"content":"` + secret + `"}`)
	for _, a := range []*ask.Action{full, web, search, tool, file} {
		before, _ := json.Marshal(a)
		r := RedactAction(a)
		raw, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(raw), secret) {
			t.Errorf("%s", raw)
		}
		if !strings.Contains(string(raw), a.ActionDigest().String()) {
			t.Errorf("no digest in %s", raw)
		}
		if after, _ := json.Marshal(a); string(after) != string(before) {
			t.Errorf("the action itself was changed: %s", after)
		}
	}
	r := RedactAction(web)
	if r.URL != "https://h.org/a?q=b&api_key=‹redacted›" {
		t.Errorf("%s", r.URL)
	}
	if r := RedactAction(file); len(r.Paths) != 1 || r.Paths[0].Given != "/x/y" {
		t.Errorf("%+v", r.Paths)
	}
	bad := fetch("http://[" + secret)
	if r := RedactAction(bad); strings.Contains(r.URL, secret) {
		t.Errorf("%s", r.URL)
	}
}

func TestComplete(t *testing.T) {
	view := paths.Fixed{Links: map[string]string{proj + "/l": "/srv/x", "/tmp": "/private/tmp"}}
	a := onFile(ask.ToolRead, "l/y", "~/z", "../q")
	Complete(a, view)
	want := []ask.Path{{Given: proj + "/l/y", Real: "/srv/x/y", Access: ask.AccessRead}, {Given: home + "/z", Real: home + "/z", Access: ask.AccessRead}, {Given: home + "/q", Real: home + "/q", Access: ask.AccessRead}}
	for i, p := range a.Paths {
		if p != want[i] {
			t.Errorf("%+v, want %+v", p, want[i])
		}
	}
	two := onFile(ask.ToolWrite, "l/../y")
	Complete(two, view)
	if len(two.Paths) != 2 || two.Paths[0].Real != proj+"/y" || two.Paths[1].Real != "/srv/y" {
		t.Errorf("two readings of one name: %+v", two.Paths)
	}
	unsure := onFile(ask.ToolRead, "/proc/self/fd/3")
	Complete(unsure, view)
	if unsure.Paths[0].Real != "/" {
		t.Errorf("%+v", unsure.Paths)
	}
	cmd := bash("cat l/y > /tmp/out; cd /tmp && cp a b")
	Complete(cmd, view)
	found := map[string]string{}
	for _, p := range cmd.Paths {
		found[p.Given] = p.Real
	}
	for given, real := range map[string]string{proj: proj, home: home, proj + "/l/y": "/srv/x/y", "/tmp/out": "/private/tmp/out", "/tmp/a": "/private/tmp/a", "/tmp/b": "/private/tmp/b"} {
		if found[given] != real {
			t.Errorf("%s is %q, want %q", given, found[given], real)
		}
	}
	many := bash("tool " + strings.Repeat("a b c ", 4000) + strings.Join(strings.Split(strings.Repeat("xyz", 2000), ""), " "))
	Complete(many, view)
	if len(many.Paths) > 256 {
		t.Errorf("%d places", len(many.Paths))
	}
}

func TestProjectDir(t *testing.T) {
	for dir, want := range map[string]string{proj: proj, proj + "/../proj/": proj, home: "", "/": "", "/home": "", "": "", "rel": ""} {
		got, err := ProjectDir(dir, home, paths.Fixed{})
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v", dir, got, err)
		}
	}
}

func TestMoved(t *testing.T) {
	was := paths.Fixed{Links: map[string]string{proj + "/l": "/srv/x", proj + "/deep": "/srv/a/b"}}
	for _, a := range []*ask.Action{onFile(ask.ToolWrite, "l/y"), bash("cp a l/y"), bash("cat deep/../y"), onFile(ask.ToolRead, "deep/../y"), onFile(ask.ToolRead, "/proc/self/fd/3"), bash("ls")} {
		Complete(a, was)
		if m := Moved(a, was); m != "" {
			t.Errorf("%s %+v: %s has moved, and nothing has", a.Command, a.Paths, m)
		}
	}
	now := paths.Fixed{Links: map[string]string{proj + "/l": "/etc"}}
	for _, a := range []*ask.Action{onFile(ask.ToolWrite, "l/y"), bash("cp a l/y")} {
		Complete(a, was)
		if m := Moved(a, now); m != proj+"/l/y" {
			t.Errorf("%s %+v: %q", a.Command, a.Paths, m)
		}
	}
	cwd := bash("rm -rf out")
	cwd.Cwd = proj + "/l"
	Complete(cwd, was)
	if m := Moved(cwd, now); m != proj+"/l" {
		t.Errorf("the working directory is another one: %q", m)
	}
}
