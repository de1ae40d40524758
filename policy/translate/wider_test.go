package translate

import (
	"encoding/json"
	"strings"
	"testing"

	"permd/ask"
	"permd/policy"
	"permd/policy/paths"
	"permd/policy/trial"
)

// meant are calls and what the client's own rules say of them, from the
// settings in testdata: "source ours call".
var meant = map[string]string{
	"claude/settings.json": `
allow allow $ npm run lint
ask   ask   $ npm run lint --fix
allow allow $ npm run test
allow allow $ npm run test --watch
ask   ask   $ npm run tester
allow allow $ git log
allow allow $ git -C sub log -1
allow allow $ git diff HEAD~1
allow allow $ git checkout main
ask   ask   $ git checkout other
ask   ask   $ git push
deny  deny  $ curl https://x.example.org
deny  deny  $ rm -rf build
deny  deny  $ rm -fr build
deny  deny  $ sudo ls
deny  deny  $ wget -q x | sh
ask   deny  $ wget -q x
deny  deny  $ npm publish
deny  deny  $ true && npm publish
ask   ask   $ python3 --version
allow ask   $ git commit -m "fix: a"
allow allow read ~/notes/a/b
allow allow read /usr/share/doc/x
allow allow read sub/README.md
ask   ask   read /etc/hosts
deny  deny  read .env
deny  deny  read .env.local
deny  deny  $ cat .env
deny  deny  read secrets/a/b
deny  deny  read sub/id_rsa
allow allow edit src/a/b.go
ask   ask   edit package.json
ask   ask   write tmp/x
allow ask   edit docs/x
deny  deny  edit etc/x
allow allow fetch https://docs.example.org/a
ask   ask   fetch https://example.org/
deny  deny  fetch https://a.internal.example.org/
allow allow mcp tracker get_issue
ask   ask   mcp tracker delete_issue
allow allow mcp files anything
deny  deny  mcp db drop_table
allow allow task reviewer
ask   ask   task other`,
	"codex/default.rules": `
allow allow $ git status -s
allow allow $ git log
deny  deny  $ rm -rf x
deny  deny  $ rm -r -f x
ask   ask   $ git push origin
ask   ask   $ git stash
allow allow $ cargo test --all
allow allow $ npm run test:unit
ask   ask   $ npm run test:unitx
allow allow $ echo 'a b'
ask   ask   $ echo a b`,
	"codex/config.toml": `
ask   ask   mcp docs search
deny  deny  mcp docs write
deny  deny  mcp db drop
ask   ask   mcp db list`,
	"gemini/settings.json": `
allow allow $ git status
allow allow $ git status -s
ask   ask   $ git statusx
deny  deny  $ rm x
deny  deny  $ ls; rm x
allow allow read a.txt
ask   ask   read /etc/passwd
allow allow mcp tracker get_issue
deny  deny  mcp tracker delete_issue
ask   ask   mcp files list
deny  deny  mcp files remove
deny  deny  mcp old anything`,
	"gemini/policy.toml": `
ask   ask   $ make
allow allow $ git log
allow allow $ npm run x
deny  deny  $ git push
deny  deny  $ git push origin main
allow allow $ git push origin docs
deny  deny  $ terraform apply
deny  deny  $ terraform destroy -auto
ask   deny  $ terraform plan
allow allow mcp tracker get_issue
deny  deny  mcp tracker delete_issue
ask   ask   write a.txt`,
	"opencode/opencode.json": `
allow allow read src/a.go
deny  deny  read .env
deny  deny  read sub/.env
deny  deny  read .env.local
allow allow read .env.example
ask   ask   read ~/notes/x
ask   ask   read /etc/hosts
allow allow edit docs/a/b
deny  deny  edit docs/gen/x
allow allow edit docs/gen/x.md
allow allow edit sub/README.md
ask   ask   edit src/a.go
allow allow $ git log
deny  deny  $ git push origin main
allow allow $ git push origin docs
allow allow $ npm run test:unit
allow allow $ npm run test:unit --x
deny  deny  $ rm a
deny  deny  $ git status && rm a
ask   ask   fetch https://docs.example.org/x
deny  deny  fetch https://evil.example.org/x
deny  deny  task other
allow allow task reviewer
allow allow mcp tracker get
deny  deny  mcp db drop_table`,
	"opencode/last.json": `
deny  deny  $ git status
deny  deny  $ rm x
deny  deny  edit a
deny  deny  read a
deny  deny  mcp any thing`,
	"opencode/open.json": `
allow allow $ make all 2>/dev/null
allow allow $ cat src/a | grep x
ask   ask   $ cat /etc/hosts
ask   ask   $ cp a /srv/b
deny  deny  $ npm publish
allow allow edit src/a
ask   ask   edit /etc/x`,
	"pi/config.json": `
allow allow read src/a
deny  deny  read .env
deny  deny  edit src/.env
deny  deny  read /etc/hosts
allow allow $ git
allow allow $ git log
deny  deny  $ git push
deny  deny  $ git push x
allow allow $ npm run dev:web
allow allow edit src/a
ask   ask   edit lib/a
ask   ask   write src/a`,
	"pi/deny.json": `
allow deny  $ ls -l
allow allow $ git log -1
deny  deny  $ git status
allow allow read a
deny  deny  write a
deny  deny  mcp other tool
allow allow mcp my tool`,
}

func callOf(t *testing.T, client, s string) *trial.Case {
	t.Helper()
	verb, rest, _ := strings.Cut(s, " ")
	m := map[string]string{"client": client, "tool": verb}
	switch verb {
	case "$":
		m["tool"], m["command"] = "bash", rest
	case "read", "write", "edit":
		m["path"] = rest
	case "fetch":
		m["tool"], m["url"] = "webfetch", rest
	case "mcp":
		m["server"], m["name"], _ = strings.Cut(rest, " ")
	case "task":
		m["agent"] = rest
	}
	raw, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	c, err := trial.Parse(raw, trial.Place{Cwd: work, Home: "/home/dev"})
	if err != nil {
		t.Fatal(err)
	}
	c.View = paths.Fixed{}
	return c
}

// No translation is wider than its source meant.
func TestNeverWider(t *testing.T) {
	for _, s := range settings {
		f, err := policy.Decode("rules.toml", translated(t, s.client, s.file).TOML(), policy.LayerUser)
		if err != nil {
			t.Fatal(err)
		}
		p := policy.CompileAlone(f)
		k := trial.Court{Policy: func(string) *policy.Policy { return p }}
		n := 0
		for line := range strings.Lines(meant[s.client+"/"+s.file]) {
			w := strings.Fields(line)
			if len(w) == 0 {
				continue
			}
			n++
			var source, ours ask.Verdict
			if source.UnmarshalText([]byte(w[0])) != nil || ours.UnmarshalText([]byte(w[1])) != nil {
				t.Fatalf("%s", line)
			}
			what := strings.TrimSpace(line[12:])
			r := k.Judge(callOf(t, s.client, what))
			if r.Verdict != ours {
				t.Errorf("%s/%s: %s: %s, want %s: %+v", s.client, s.file, what, r.Verdict, ours, r.Reasons)
			}
			if r.Verdict > source {
				t.Errorf("%s/%s: %s is wider: %s where the source says %s", s.client, s.file, what, r.Verdict, source)
			}
		}
		if n < 4 {
			t.Errorf("%s/%s: only %d calls", s.client, s.file, n)
		}
	}
}

// What cannot be read whole translates to nothing.
func TestRefused(t *testing.T) {
	for _, x := range []struct{ client, name, data, why string }{
		{"nobody", "a.json", `{}`, "is one of"},
		{"claude", "a.json", `{"permissions":{"allow":["Bash(ls)"]}`, "not JSON"},
		{"claude", "a.json", `{"permissions":{"allow":["Bash(ls)"],"allow":[]}}`, "twice"},
		{"claude", "a.json", `{"permissions":{"deny":"Bash(ls)"}}`, "list of texts"},
		{"claude", "a.json", `{"permissions":{"deny":[1]}}`, "list of texts"},
		{"claude", "a.json", `[]`, "not a JSON object"},
		{"codex", "a.rules", `prefix_rule(pattern=["a"] + X, decision="forbidden")`, "line 1"},
		{"codex", "a.rules", "prefix_rule(pattern=['a'])\nfor x in y: pass", "line 2"},
		{"codex", "a.rules", `prefix_rule(pattern=[])`, "pattern"},
		{"codex", "a.rules", `prefix_rule(pattern=["a"], decision="perhaps")`, "decision"},
		{"codex", "a.rules", `prefix_rule(pattern=[["a", 1]])`, "line 1"},
		{"codex", "a.rules", `prefix_rule(pattern=["""a"""])`, "line 1"},
		{"codex", "a.rules", `prefix_rule(pattern=["a`, "line 1"},
		{"codex", "config.toml", `a = `, "not TOML"},
		{"gemini", "a.toml", "[[rule]]\ntoolName = 3\ndecision = \"deny\"", "toolName"},
		{"gemini", "a.toml", "[[rule]]\ntoolName = \"x\"", "decision"},
		{"gemini", "a.json", `{"tools":{"exclude":"x"}}`, "not a list"},
		{"gemini", "a.toml", "[[rule]]\ntoolName = \"x\"\ndecision = \"allow\"\nwhen = \"night\"", "not known"},
		{"opencode", "a.json", `{"permission":{"bash":{"rm *":"never"}}}`, "no verdict"},
		{"opencode", "a.json", `{"permission":{"bash":3}}`, "not a JSON object"},
		{"opencode", "a.json", `{"tools":{"bash":"no"}}`, "true or false"},
		{"pi", "a.json", `{"permission":{"bash":{"rm *":{"action":"no"}}}}`, "no verdict"},
		{"pi", "a.json", `{"permission": /* never closed`, "not JSON"},
		{"pi", "a.json", strings.Repeat(" ", MaxSource+1), "at most"},
	} {
		r, err := Translate(x.client, Source{Name: "/home/dev/" + x.name, Data: []byte(x.data)})
		if err == nil || !strings.Contains(err.Error(), x.why) || r != nil {
			t.Errorf("%s %.80s: %v", x.client, x.data, err)
		}
	}
}

// Whatever a file says, what comes out is a rule file, and with nothing
// allowed in the source nothing is.
func FuzzTranslate(f *testing.F) {
	f.Add(0, `{"permissions":{"deny":["Bash(rm:*)","Read(./x/**)","mcp__a__b","Edit(~/**)","Task(x)","WebFetch(domain:a.b)"],"ask":["Bash(a * b)"]}}`)
	f.Add(1, `prefix_rule(pattern=["a", ["b", "c d"]], decision="forbidden")`)
	f.Add(2, `{"tools":{"exclude":["run_shell_command(rm)"],"core":["read_file"]},"mcpServers":{"a":{"excludeTools":["b"]}}}`)
	f.Add(3, "[[rule]]\ntoolName = \"run_shell_command\"\ncommandRegex = \"^rm\\\\s\"\ndecision = \"deny\"\n")
	f.Add(4, `{"permission":{"bash":{"*":"ask","rm *":"deny"},"edit":{"a*b/*c":"deny"},"*":"deny","s_t":"ask"}}`)
	f.Add(5, `{"permission":{"*":"deny","bash":{"x?":"deny"},"path":{"*.env":"deny"}}}`)
	f.Fuzz(func(t *testing.T, which int, data string) {
		where := []struct{ client, name string }{{"claude", "a.json"}, {"codex", "a.rules"}, {"gemini", "a.json"}, {"gemini", "a.toml"}, {"opencode", "a.json"}, {"pi", "a.json"}}
		w := where[((which%len(where))+len(where))%len(where)]
		r, err := Translate(w.client, Source{Name: work + "/" + w.name, Data: []byte(data)})
		if err != nil {
			return
		}
		if _, err := policy.Decode("rules.toml", r.TOML(), policy.LayerUser); err != nil {
			t.Errorf("%v\n%s", err, r.TOML())
		}
		allows := strings.Contains(data, "allow") || strings.Contains(data, "llow") || strings.Contains(data, `\`) || strings.Contains(data, "trust") || strings.Contains(data, "prefix_rule")
		for _, x := range r.Rules {
			if x.Action == ask.Allow && !allows {
				t.Errorf("%q allows %s", data, policy.Line(&x.Rule))
			}
		}
	})
}
