package policy

import (
	"encoding/json"
	"net/url"
	"strings"

	"permd/ask"
	"permd/policy/paths"
	"permd/policy/shell"
)

// maxRecorded is the most bytes of a command that go on the record.
const maxRecorded = 4096

// RedactCommand returns cmd as it may be recorded: what is named or shaped
// like a secret is taken out, bodies of here-documents and comments are a
// digest, and what cannot be parsed is a digest as a whole. A long one loses
// its middle.
func RedactCommand(cmd string) string { return recordable(shell.Redact(cmd)) }

func recordable(s string) string {
	if len(s) <= maxRecorded {
		return s
	}
	const head, tail = 3000, 900
	from, to := head, len(s)-tail
	for from > 0 && s[from]&0xC0 == 0x80 {
		from--
	}
	for to < len(s) && s[to]&0xC0 == 0x80 {
		to++
	}
	return s[:from] + " … " + shell.Digest(s[from:to]) + " … " + s[to:]
}

// RedactAction returns a as it may be recorded. The input as sent is a
// digest; commands, addresses and searches are redacted; names of files, of
// servers and of their tools stay.
func RedactAction(a *ask.Action) ask.Action {
	r := *a
	r.Input, _ = json.Marshal(struct {
		Bytes  int    `json:"bytes"`
		Digest string `json:"action_digest"`
	}{len(a.Input), a.ActionDigest().String()})
	if a.Command != "" {
		r.Command = RedactCommand(a.Command)
	}
	if a.URL != "" {
		r.URL = recordable(redactURL(a.URL))
	}
	if a.Query != "" {
		r.Query = recordable(shell.Scrub(a.Query))
	}
	r.Paths = append([]ask.Path(nil), a.Paths...)
	if a.MCP != nil {
		m := *a.MCP
		r.MCP = &m
	}
	return r
}

// redactURL takes out user names and passwords, and the values of parameters
// that are named like secrets.
func redactURL(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return shell.Digest(raw)
	}
	if u.Opaque != "" {
		return u.Scheme + ":" + shell.Digest(u.Opaque)
	}
	u.User = nil
	q := u.RawQuery
	u.RawQuery, u.Fragment, u.RawFragment = "", "", ""
	out := shell.Scrub(u.String())
	if q == "" {
		return out
	}
	var parts []string
	for pair := range strings.SplitSeq(q, "&") {
		name, value, ok := strings.Cut(pair, "=")
		plain, err := url.QueryUnescape(name)
		switch {
		case ok && (err != nil || shell.SecretName(plain)):
			pair = name + "=" + shell.Redacted
		case ok:
			pair = name + "=" + shell.Scrub(value)
		}
		parts = append(parts, pair)
	}
	return out + "?" + strings.Join(parts, "&")
}

// nowhere stands for a real place that is not certain. No rule that permits
// lies there.
const nowhere = "/"

// Complete finds where the files really are that a names, so that every node
// on the way can judge it without the origin's file system: it fills in the
// real places of a's paths, and for a command adds the files that its words
// name. It is for the origin, before the ask is sealed.
func Complete(a *ask.Action, view paths.View) {
	const most = 256
	r := paths.NewResolver(view, a.Cwd, a.Home)
	r.Dir(a.Cwd)
	given := a.Paths
	a.Paths = nil
	for _, p := range given {
		for _, pl := range r.Places(p.Given, "") {
			p.Given, p.Real = pl.Given, pl.Real
			if !pl.Sure() {
				p.Real = nowhere
			}
			a.Paths = append(a.Paths, p)
		}
	}
	if a.Tool != ask.ToolBash {
		return
	}
	seen := map[ask.Path]bool{}
	add := func(pl paths.Place, how access) {
		p := ask.Path{Given: pl.Given, Real: pl.Real, Access: ask.AccessRead}
		if how&accessWrite != 0 {
			p.Access = ask.AccessWrite
		}
		if pl.Sure() && len(a.Paths) < most && !seen[p] {
			seen[p] = true
			a.Paths = append(a.Paths, p)
		}
	}
	for _, dir := range []string{a.Cwd, a.Project, a.Home} {
		if dir != "" {
			add(r.Dir(dir), accessRead)
		}
	}
	s := shell.Read(a.Command, shell.Env{Cwd: a.Cwd, Home: a.Home})
	for i := range s.Units {
		touches, _ := touched(&s.Units[i])
		for _, t := range touches {
			for _, pl := range r.Places(t.word.Text, s.Units[i].Dir) {
				add(pl, t.how)
			}
		}
	}
	for _, d := range s.Redirs {
		how := accessRead
		if d.Write {
			how = accessWrite
		}
		for _, pl := range r.Places(d.Target.Text, d.Dir) {
			add(pl, how)
		}
	}
}

// Moved names a file of a that does not lie any more where [Complete] found
// it, "" when all do. It is for the moment before an action runs: a link that
// was exchanged since the question leads elsewhere.
func Moved(a *ask.Action, view paths.View) string {
	r := paths.NewResolver(view, a.Cwd, a.Home)
	found := map[string]bool{} // whether one of the places of a name is still right
	var names []string
	for _, p := range a.Paths {
		if _, seen := found[p.Given]; !seen {
			names = append(names, p.Given)
		}
		now := r.Place(p.Given)
		found[p.Given] = found[p.Given] || now.Real == p.Real || p.Real == nowhere && !now.Sure()
	}
	for _, n := range names {
		if !found[n] {
			return n
		}
	}
	return ""
}

// ProjectDir checks dir as the anchor of a session: what it returns is where
// "inside the project" is, "" when dir is the home directory, a parent of it
// or the root, and then nothing is inside. The error says so.
func ProjectDir(dir, home string, view paths.View) (string, error) {
	r := paths.NewResolver(view, dir, home)
	p, err := r.Project(dir)
	if err != nil {
		return "", err
	}
	return p.Given, nil
}
