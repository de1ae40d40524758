package policy

import (
	"path/filepath"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2/unstable"

	"permd/ask"
)

var linkKeys = []string{"name", "exec", "timeout", "paths", "outside"}

// linkDraft is an [[authorizer]] as written.
type linkDraft struct {
	link Link
	at   position
	keys map[string]position
	bad  bool
}

// linkMember reads one key of an authorizer.
func (d *decoder) linkMember(l *linkDraft, n *unstable.Node) {
	parts, at := d.key(n)
	key := strings.Join(parts, ".")
	before := len(d.problems)
	defer func() { l.bad = l.bad || len(d.problems) > before }()
	if _, twice := l.keys[key]; twice {
		d.problem(at, "%q is written twice", cut(key))
		return
	}
	if !contains(linkKeys, key) {
		d.problem(at, "%s", unknownWord("key", key, linkKeys))
		return
	}
	l.keys[key] = at
	v := n.Value()
	switch key {
	case "name":
		if s, ok := d.text(v, key); ok {
			l.link.Name = s
		}
	case "timeout":
		s, ok := d.text(v, key)
		if !ok {
			return
		}
		t, err := time.ParseDuration(s)
		if err != nil || t < time.Millisecond || t > MaxLinkTimeout {
			d.problem(d.valuePos(v), `"timeout" is %q; write a duration of at most %s, as in "2s"`, cut(s), MaxLinkTimeout)
			return
		}
		l.link.TimeoutMS = t.Milliseconds()
	case "paths", "outside":
		if v.Kind != unstable.Bool {
			d.problem(d.valuePos(v), "%q takes true or false", key)
			return
		}
		yes := string(v.Data) == "true"
		if key == "paths" {
			l.link.Paths = yes
		} else {
			l.link.Outside = yes
		}
	case "exec":
		d.linkExec(l, v)
	}
}

func (d *decoder) linkExec(l *linkDraft, v *unstable.Node) {
	if v.Kind != unstable.Array {
		d.problem(l.keys["exec"], `"exec" takes a list of texts, as in exec = ["/usr/local/bin/triage", "--short"]`)
		return
	}
	it := v.Children()
	for it.Next() {
		if it.Node().Kind == unstable.Comment {
			continue
		}
		s, ok := d.text(it.Node(), "exec")
		if !ok {
			return
		}
		l.link.Exec = append(l.link.Exec, s)
	}
	switch e := l.link.Exec; {
	case len(e) == 0 || len(e) > maxLinkArgs:
		d.problem(l.keys["exec"], `"exec" has %d words; it takes 1 to %d, the program first`, len(e), maxLinkArgs)
	case !filepath.IsAbs(e[0]) || filepath.Clean(e[0]) != e[0]:
		d.problem(l.keys["exec"], `%q is no absolute path: the program is named from the root, and found nowhere else`, cut(e[0]))
	}
}

// finishLink takes an authorizer into the file, unless it has a fault.
func (d *decoder) finishLink(l *linkDraft) {
	if l.bad {
		return
	}
	switch {
	case d.file.Layer != LayerManaged && d.file.Layer != LayerUser:
		d.problem(l.at, "an authorizer is an administrator's or the user's to name; take it out of this file")
		return
	case len(l.link.Exec) == 0:
		d.problem(l.at, `the authorizer has no exec; write exec = ["/absolute/path"]`)
		return
	}
	if l.link.Name == "" {
		l.link.Name = filepath.Base(l.link.Exec[0])
	}
	if !ask.ValidID(l.link.Name) {
		d.problem(l.at, `%q is no name; write name = "…" with letters, digits, ".", "_" or "-"`, cut(l.link.Name))
		return
	}
	for _, other := range d.file.Links {
		if other.Name == l.link.Name {
			d.problem(l.at, `a second authorizer %q; give each a "name" of its own`, l.link.Name)
			return
		}
	}
	if len(d.file.Links) >= maxLinks {
		d.problem(l.at, "more than %d authorizers", maxLinks)
		return
	}
	if l.link.TimeoutMS == 0 {
		l.link.TimeoutMS = DefaultLinkTimeout.Milliseconds()
	}
	l.link.Ref = ask.RuleRef{Layer: string(d.file.Layer), File: d.file.Name, Line: l.at.line}
	d.file.Links = append(d.file.Links, l.link)
}
