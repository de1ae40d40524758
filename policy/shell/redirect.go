package shell

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// noFiles are targets of redirections that keep or show nothing elsewhere.
var noFiles = map[string]bool{"/dev/null": true, "/dev/stdin": true, "/dev/stdout": true, "/dev/stderr": true, "/dev/zero": true, "/dev/fd/0": true, "/dev/fd/1": true, "/dev/fd/2": true}

func (w *walker) redirect(r *syntax.Redirect, c *context) {
	w.floor("a redirection")
	if r.Word != nil {
		w.within(r.Word, c)
	}
	if r.N != nil && strings.Trim(r.N.Value, "0123456789") != "" {
		w.doubt("a redirection that sets a variable")
	}
	if r.Hdoc != nil {
		w.within(r.Hdoc, c)
		w.feeds = append(w.feeds, heredoc(w.text(r.Hdoc)))
		c.fed, c.piped = true, false
		var o builder
		for _, part := range r.Hdoc.Parts {
			w.part(&o, part, c, false, true, false)
		}
		if o.broken {
			w.doubt(o.x.why)
		}
		c.stdin = o.b.String()
		return
	}
	if r.Word == nil {
		return
	}
	target := w.word(r.Word, c)
	if !target.Settled() {
		w.doubt(target.Why())
	}
	write := true
	switch r.Op {
	case syntax.WordHdoc:
		w.feeds = append(w.feeds, target.Text)
		c.fed, c.piped, c.stdin = true, false, target.Text
		return
	case syntax.Hdoc, syntax.DashHdoc:
		c.fed, c.piped, c.stdin = true, false, ""
		return
	case syntax.RdrIn:
		write = false
		c.fed, c.piped, c.stdin = true, false, ""
	case syntax.DplIn, syntax.DplOut:
		if target.Lit && (target.Text == "-" || strings.Trim(strings.TrimSuffix(target.Text, "-"), "0123456789") == "") {
			return // joins two streams
		}
	}
	switch {
	case target.Pipe || target.Lit && noFiles[target.Text]:
		return
	case strings.HasPrefix(target.Text, "/dev/tcp/") || strings.HasPrefix(target.Text, "/dev/udp/"):
		w.doubt("a connection to another machine")
	case target.Glob() != "":
		w.doubt("a redirection to a file name pattern")
	}
	w.script.Redirs = append(w.script.Redirs, Redir{Target: target, Write: write, Dir: c.dir, Alts: c.alts, Lost: c.lost})
}
