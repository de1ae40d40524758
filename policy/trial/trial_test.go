package trial

import (
	"bufio"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"permd/ask"
	"permd/policy"
	"permd/policy/paths"
)

var here = Place{Cwd: "/home/dev/proj", Home: "/home/dev", Client: "example"}

func court(t testing.TB, rules string) *Court {
	t.Helper()
	f, err := policy.Decode("policy.toml", []byte(rules), policy.LayerUser)
	if err != nil {
		t.Fatal(err)
	}
	p := policy.CompileAlone(f)
	return &Court{Policy: func(string) *policy.Policy { return p },
		Self: policy.NewSelf(policy.Self{Config: "/home/dev/.config/permd", State: "/home/dev/.local/state/permd"}, paths.Fixed{})}
}

func parse(t testing.TB, line string) *Case {
	t.Helper()
	c, err := Parse([]byte(line), here)
	if err != nil {
		t.Fatalf("%.300s: %v", line, err)
	}
	return c
}

// beyondALine reports whether a case needs more than its rules and one call.
func beyondALine(m map[string]json.RawMessage) bool {
	for _, key := range []string{"first", "hidden", "client_tool", "load", "baseline", "above", "project_rules", "managed_rules"} {
		if m[key] != nil {
			return true
		}
	}
	return m["cwd"] != nil && !strings.HasPrefix(string(m["cwd"]), `"/`)
}

// The cases from the field give the same verdicts as lines.
func TestFieldCasesAsLines(t *testing.T) {
	f, err := os.Open("../testdata/cases.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	n := 0
	for lines.Scan() {
		var m map[string]json.RawMessage
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
			t.Fatal(err)
		}
		if beyondALine(m) {
			continue
		}
		var rules string
		if err := json.Unmarshal(m["rules"], &rules); err != nil {
			t.Fatal(err)
		}
		delete(m, "rules")
		raw, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		f, err := policy.Decode("policy.toml", []byte(rules), policy.LayerUser)
		if err != nil {
			t.Errorf("%s: %v", m["id"], err)
			continue
		}
		c, err := Parse(raw, here)
		if err != nil {
			t.Errorf("%s: %v", raw, err)
			continue
		}
		if c.View == nil {
			c.View = paths.Fixed{}
		}
		p := policy.CompileAlone(f)
		k := Court{Policy: func(string) *policy.Policy { return p }, Self: court(t, "").Self}
		r := k.Judge(c)
		if n++; !c.Right(r.Verdict) {
			t.Errorf("%s: %s, want %v: %s", raw, r.Verdict, c.Want, r.Reason)
		}
	}
	if err := lines.Err(); err != nil || n < 120 {
		t.Errorf("%d cases: %v", n, err)
	}
}

// A file alone: no built-in reading, and self-protection stays.
func TestAlone(t *testing.T) {
	k := court(t, "[[rule]]\naction = \"allow\"\ncommand = \"make\"\n[[rule]]\naction = \"allow\"\ntool = \"write\"\n")
	for line, want := range map[string]ask.Verdict{
		`{"tool":"bash","command":"make"}`:                                         ask.Allow,
		`{"tool":"bash","command":"ls"}`:                                           ask.Prompt,
		`{"tool":"read","path":"main.go"}`:                                         ask.Prompt,
		`{"tool":"write","path":"main.go","fs":{}}`:                                ask.Allow,
		`{"tool":"write","path":"/home/dev/.config/permd/policy.toml"}`:            ask.Deny,
		`{"tool":"write","path":"x","fs":{"symlinks":{"x":"/home/dev/.bashrc"}}}`:  ask.Deny,
		`{"tool":"write","path":"/home/dev/.claude/settings.json"}`:                ask.Deny,
		`{"tool":"bash","command":"make","cwd":"/srv","project":"/srv","home":""}`: ask.Allow,
		`{"tool":"NotebookEdit","client":"claude","path":"a.ipynb"}`:               ask.Prompt,
	} {
		if r := k.Judge(parse(t, line)); r.Verdict != want {
			t.Errorf("%s: %s, want %s: %+v", line, r.Verdict, want, r.Reasons)
		}
	}
}

// In a case of another home permd's directories are those below it.
func TestAnotherHome(t *testing.T) {
	k := court(t, "[[rule]]\naction = \"allow\"\ntool = \"write\"\n[[rule]]\naction = \"allow\"\ntool = \"bash\"\n")
	k.Home = "/home/dev"
	for line, want := range map[string]ask.Verdict{
		`{"tool":"write","path":"~/.config/permd/policy.toml"}`:                                                        ask.Deny,
		`{"tool":"write","path":"~/.config/permd/policy.toml","home":"/home/other"}`:                                   ask.Deny,
		`{"tool":"write","path":"/w/c/x","home":"/home/other","fs":{"symlinks":{"/w/c":"/home/other/.config/permd"}}}`: ask.Deny,
		`{"tool":"bash","command":"echo x >> ~/.local/state/permd/grants/x","home":"/home/other"}`:                     ask.Deny,
		`{"tool":"write","path":"~/notes","home":"/home/other"}`:                                                       ask.Allow,
	} {
		if r := k.Judge(parse(t, line)); r.Verdict != want {
			t.Errorf("%s: %s, want %s: %+v", line, r.Verdict, want, r.Reasons)
		}
	}
}

// What a line says arrives in the action.
func TestParse(t *testing.T) {
	c := parse(t, ` {"id":"a1","want":["deny","ask"],"client":"claude","session":"claude-1","agent":"planner","tool":"edit","path":"a","paths":["b","c"],
"cwd":"/w","home":"/h","fs":{"symlinks":{"l":"/x","/tmp":"/private/tmp"},"exists":["a"],"case_insensitive":true}} `)
	a := c.Action
	if c.ID != "a1" || !slices.Equal(c.Want, []ask.Verdict{ask.Deny, ask.Prompt}) || c.Session != "claude-1" || c.Agent != "planner" || !c.Fold ||
		a.Client != "claude" || a.Tool != ask.ToolEdit || a.Cwd != "/w" || a.Project != "/w" || a.Home != "/h" || len(a.Paths) != 3 {
		t.Errorf("%+v", c)
	}
	v := c.View.(paths.Fixed)
	if v.Links["/w/l"] != "/x" || !slices.Equal(v.RootLinks, []string{"/tmp"}) || !slices.Equal(v.Files, []string{"/w/a"}) {
		t.Errorf("%+v", v)
	}
	if c := parse(t, `{"tool":"task","agent":"reviewer"}`); c.Action.Agent != "reviewer" || c.Agent != "" {
		t.Errorf("%+v", c)
	}
	if c := parse(t, `{"tool":"bash","command":"a b\n�"}`); c.Action.Command != "a b\n�" || c.Action.Project != here.Cwd {
		t.Errorf("%+v", c)
	}
	if c := parse(t, `{"tool":"mcp","server":"s","name":"n","args":{ "a" : 1 },"source":"project"}`); string(c.Action.Input) != `{"a":1}` || c.Action.MCP.Source != "project" {
		t.Errorf("%+v", c)
	}
}

// A line that does not mean one thing is refused.
func TestRefusedLines(t *testing.T) {
	for _, x := range []struct{ line, why string }{
		{``, "not a JSON object"},
		{`null`, "not a JSON object"},
		{`[]`, "not a JSON object"},
		{`"ls"`, "not a JSON object"},
		{`{}`, `has no "tool"`},
		{`{"tool":"bash"}`, `needs "command"`},
		{`{"tool":"bash","command":"ls"`, "too early"},
		{`{"tool":"bash","command":"ls",}`, "not JSON"},
		{`{"tool":"bash","command":"ls"} {}`, "something follows"},
		{`{"tool":"bash","command":"ls"}x`, "something follows"},
		{`{"tool":"bash","command":"ls","command":"rm -rf /"}`, "there twice"},
		{`{"tool":"bash","Command":"rm -rf /","command":"ls"}`, "unknown key"},
		{`{"TOOL":"bash","command":"ls"}`, "unknown key"},
		{`{"tool":"bash","command":"ls","path":"/etc/shadow"}`, "says nothing of"},
		{`{"tool":"bash","command":"ls","url":"http://x/"}`, "says nothing of"},
		{`{"tool":"read","command":"ls"}`, "says nothing of"},
		{`{"tool":"read"}`, `needs "path"`},
		{`{"tool":"read","path":""}`, "is empty"},
		{`{"tool":"read","paths":[]}`, `needs "path"`},
		{`{"tool":"read","paths":"x"}`, "a list of texts"},
		{`{"tool":"read","paths":null}`, "a list of texts"},
		{`{"tool":"read","paths":["a",1]}`, "takes a text"},
		{`{"tool":"bash","command":["ls"]}`, "takes a text"},
		{`{"tool":"bash","command":null}`, "takes a text"},
		{`{"tool":"bash","command":7}`, "takes a text"},
		{`{"tool":"bash","command":"ls\u0000"}`, "NUL"},
		{`{"tool":"bash","command":"ls \ud800"}`, "half a character"},
		{"{\"tool\":\"bash\",\"command\":\"ls \xff\"}", "not UTF-8"},
		{`{"tool":"bahs","command":"ls"}`, "is not known"},
		{`{"tool":"other"}`, "is not known"},
		{`{"tool":"","client":"claude"}`, "is not known"},
		{`{"tool":"bash","command":"ls","cwd":"src"}`, "absolute"},
		{`{"tool":"bash","command":"ls","cwd":""}`, "absolute"},
		{`{"tool":"bash","command":"ls","project":"../x"}`, "absolute"},
		{`{"tool":"bash","command":"ls","home":"~"}`, "absolute"},
		{`{"tool":"bash","command":"ls","session":"../x"}`, "session id"},
		{`{"tool":"mcp","server":"s"}`, `needs "name"`},
		{`{"tool":"mcp","server":"s","name":"n","args":[]}`, "takes an object"},
		{`{"tool":"webfetch"}`, `needs "url"`},
		{`{"tool":"bash","command":"ls","want":"maybe"}`, "no verdict"},
		{`{"tool":"bash","command":"ls","want":[]}`, "empty"},
		{`{"tool":"bash","command":"ls","want":3}`, "verdict"},
		{`{"tool":"bash","command":"ls","fs":[]}`, "not a JSON object"},
		{`{"tool":"bash","command":"ls","fs":{"links":{}}}`, "unknown key"},
		{`{"tool":"bash","command":"ls","fs":{"symlinks":{"a":"b","a":"c"}}}`, "there twice"},
		{`{"tool":"bash","command":"ls","fs":{"symlinks":{"a":""}}}`, "leads nowhere"},
		{`{"tool":"bash","command":"ls","fs":{"case_insensitive":null}}`, "true or false"},
		{strings.Repeat(`{"a":`, 200) + `1` + strings.Repeat(`}`, 200), "nested"},
		{strings.Repeat(`[`, 1<<20), "nested"},
		{`{"tool":"bash","command":"` + strings.Repeat("x", MaxLine) + `"}`, "at most"},
	} {
		c, err := Parse([]byte(x.line), here)
		if err == nil || !strings.Contains(err.Error(), x.why) {
			t.Errorf("%.80s: %v, %v; want %q", x.line, c, err, x.why)
		}
		if err != nil && len(err.Error()) > 600 {
			t.Errorf("%.80s: an error of %d bytes", x.line, len(err.Error()))
		}
	}
	for r, a := 0, (Refused(3, os.ErrInvalid)); r < 1; r++ {
		if w := string(a.Wire()); a.Verdict != ask.Deny || !strings.HasPrefix(w, `{"verdict":"deny","line":3,"error":`) || !strings.HasSuffix(w, "\n") {
			t.Errorf("%s", w)
		}
	}
}

func TestLines(t *testing.T) {
	long := strings.Repeat("y", MaxLine+1)
	type got struct {
		n    int
		line string
		err  bool
	}
	for _, x := range []struct {
		in   string
		want []got
	}{
		{"", nil},
		{"\n \t\r\n\n", nil},
		{"a", []got{{1, "a", false}}},
		{"a\n\nb\r\n", []got{{1, "a\n", false}, {3, "b\r\n", false}}},
		{"a\n" + long + "\nb", []got{{1, "a\n", false}, {2, "", true}, {3, "b", false}}},
		{long, []got{{1, "", true}}},
	} {
		var all []got
		if err := Lines(strings.NewReader(x.in), func(n int, line []byte, err error) error {
			all = append(all, got{n, string(line), err != nil})
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(all, x.want) {
			t.Errorf("%.20q: %v", x.in, all)
		}
	}
	if err := Lines(strings.NewReader("a\nb\n"), func(int, []byte, error) error { return os.ErrClosed }); err != os.ErrClosed {
		t.Errorf("%v", err)
	}
}

// A hostile line costs little and is never allowed.
func TestHostileLines(t *testing.T) {
	k := court(t, "default = \"allow\"\n")
	for _, cmd := range []string{strings.Repeat("(", 1<<20), strings.Repeat("a;", 1<<16), strings.Repeat("$(", 1<<19), strings.Repeat("é", 1<<18), strings.Repeat("<<E ", 1<<15)} {
		raw, err := json.Marshal(map[string]string{"tool": "bash", "command": cmd})
		if err != nil {
			t.Fatal(err)
		}
		c := parse(t, string(raw))
		r := k.Judge(c)
		if r.Verdict == ask.Allow {
			t.Errorf("%.10q is allowed", cmd)
		}
		a := AnswerOf(c, r)
		if n := len(a.Wire()); n > 8<<20 {
			t.Errorf("%.10q: an answer of %d bytes", cmd, n)
		}
	}
}

// What parses can be judged and printed, and nothing may follow it.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		`{"tool":"bash","command":"git -C x push && ls | head","cwd":"/home/dev/proj"}`,
		`{"tool":"read","path":"~/.ssh/id","fs":{"symlinks":{"/tmp":"/private/tmp"},"exists":["a"],"case_insensitive":true}}`,
		`{"tool":"mcp","server":"s","name":"n","args":{"path":"/etc/x"}}`, `{"tool":"webfetch","url":"https://a@b/"}`,
		`{"want":"ask","tool":"task","agent":"x"}`, `{"tool":"Skill","client":"claude"}`, `{"tool":"bash","tool":"read"}`,
	} {
		f.Add(s)
	}
	k := court(f, "[[rule]]\naction = \"allow\"\ncommand = \"git log *\"\n[[rule]]\naction = \"deny\"\npath = \"~/.ssh\"\n")
	f.Fuzz(func(t *testing.T, s string) {
		c, err := Parse([]byte(s), here)
		if err != nil {
			return
		}
		if c.View == nil {
			c.View = paths.Fixed{}
		}
		a := AnswerOf(c, k.Judge(c))
		var back Answer
		if err := json.Unmarshal(a.Wire(), &back); err != nil || back.Verdict != a.Verdict {
			t.Errorf("%s: %v", a.Wire(), err)
		}
		if _, err := Parse([]byte(s+"}"), here); err == nil {
			t.Errorf("%.300q with more behind it is a line too", s)
		}
	})
}
