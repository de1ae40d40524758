package shell

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"sync"

	"mvdan.cc/sh/v3/syntax"
)

var commentParsers = sync.Pool{New: func() any {
	return syntax.NewParser(syntax.Variant(syntax.LangBash), syntax.KeepComments(true))
}}

// Digest stands for text that is not shown: its length and the first half of
// its SHA-256.
func Digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return fmt.Sprintf("‹%d bytes, sha256:%x›", len(text), sum[:16])
}

// Redact returns cmd for the record: values of variables, options and headers
// that are named like secrets, passwords in addresses, and whatever has the
// shape of a known token are taken out; bodies of here-documents, here-strings
// and comments are a digest. What cannot be parsed is a digest as a whole.
func Redact(cmd string) string { return redact(cmd, 0) }

func redact(cmd string, depth int) string {
	const most = 4 // texts within texts
	if Check(cmd) != nil || depth > most {
		return Digest(cmd)
	}
	p := commentParsers.Get().(*syntax.Parser)
	defer commentParsers.Put(p)
	file, err := p.Parse(strings.NewReader(cmd), "")
	if err != nil {
		return Digest(cmd)
	}
	r := &redactor{src: cmd, depth: depth}
	syntax.Walk(file, r.node)
	return Scrub(r.apply())
}

type edit struct {
	from, to int
	text     string
}

type redactor struct {
	src   string
	depth int
	edits []edit
}

func (r *redactor) span(n syntax.Node) (from, to int) {
	from, to = int(n.Pos().Offset()), int(n.End().Offset())
	return min(from, len(r.src)), min(max(from, to), len(r.src))
}

func (r *redactor) put(n syntax.Node, text string) {
	from, to := r.span(n)
	r.edits = append(r.edits, edit{from, to, text})
}

// after redacts the part of n behind the first sep.
func (r *redactor) after(n syntax.Node, sep string) {
	from, to := r.span(n)
	i := strings.Index(r.src[from:to], sep)
	if i < 0 {
		r.put(n, Redacted)
		return
	}
	r.edits = append(r.edits, edit{from + i + len(sep), to, Redacted})
}

// apply makes the edits; of two that overlap the outer one is made.
func (r *redactor) apply() string {
	slices.SortStableFunc(r.edits, func(a, b edit) int {
		if a.from != b.from {
			return a.from - b.from
		}
		return b.to - a.to
	})
	var b strings.Builder
	at := 0
	for _, e := range r.edits {
		if e.from < at {
			if e.to > at { // they cross: nothing of either stays
				at = e.to
			}
			continue
		}
		b.WriteString(r.src[at:e.from])
		b.WriteString(e.text)
		at = e.to
	}
	b.WriteString(r.src[at:])
	return b.String()
}

func (r *redactor) node(n syntax.Node) bool {
	switch x := n.(type) {
	case *syntax.Comment:
		r.put(x, "# "+Digest(x.Text))
	case *syntax.Assign:
		if x.Name != nil && SecretName(x.Name.Value) {
			if x.Value != nil {
				r.put(x.Value, Redacted)
			}
			if x.Array != nil {
				r.put(x.Array, Redacted)
			}
		}
	case *syntax.Redirect:
		if x.Hdoc != nil {
			from, to := r.span(x.Hdoc)
			body := r.src[from:to]
			if short := heredoc(body); strings.TrimLeft(body[len(short):], "\t") == r.delimiter(x) {
				body = short
			}
			tail := ""
			if strings.HasSuffix(body, "\n") {
				tail = "\n"
			}
			r.edits = append(r.edits, edit{from, from + len(body), Digest(body) + tail})
		} else if x.Op == syntax.WordHdoc && x.Word != nil {
			from, to := r.span(x.Word)
			r.edits = append(r.edits, edit{from, to, Digest(r.src[from:to])})
		}
	case *syntax.BinaryCmd:
		if (x.Op == syntax.Pipe || x.Op == syntax.PipeAll) && r.wantsSecret(x.Y) {
			r.printed(x.X)
		}
	case *syntax.CallExpr:
		r.call(x.Args)
	}
	return true
}

// heredoc returns the body without the line that ends it, which the parser
// counts in.
func heredoc(text string) string {
	return text[:strings.LastIndexByte(text, '\n')+1]
}

func (r *redactor) delimiter(x *syntax.Redirect) string {
	from, to := r.span(x.Word)
	return unquote.Replace(r.src[from:to])
}

// wantsSecret reports whether the command reads a secret from its input.
func (r *redactor) wantsSecret(s *syntax.Stmt) bool {
	from, to := r.span(s)
	for _, f := range strings.Fields(r.src[from:to]) {
		switch strings.Trim(f, `'"`) {
		case "--password-stdin", "--with-token", "--passphrase-fd", "--token-stdin", "chpasswd", "passwd", "cryptsetup", "login", "htpasswd":
			return true
		case "-S", "--stdin":
			return strings.Contains(r.src[from:to], "sudo") || strings.Contains(r.src[from:to], "su ")
		}
	}
	return false
}

// printed redacts what echo and printf write.
func (r *redactor) printed(s *syntax.Stmt) {
	syntax.Walk(s, func(n syntax.Node) bool {
		c, ok := n.(*syntax.CallExpr)
		if !ok {
			return true
		}
		prints := false
		for _, a := range c.Args {
			if prints {
				r.put(a, Redacted)
			}
			lit := a.Lit()
			prints = prints || lit == "echo" || lit == "printf"
		}
		return true
	})
}

// secretFlags are short options whose value is a secret, by program. A
// capital G before the letter means that the value is always glued.
var secretFlags = map[string]string{
	"sshpass": "p", "mysql": "Gp", "mysqldump": "Gp", "mysqladmin": "Gp", "mariadb": "Gp", "mycli": "p", "curl": "uUb", "redis-cli": "a",
	"ldapsearch": "w", "ldapadd": "w", "ldapmodify": "w", "smbclient": "U", "7z": "Gp", "7za": "Gp", "zip": "P", "unzip": "P", "openssl": "k",
	"htpasswd": "", "mosquitto_pub": "P", "mosquitto_sub": "P", "mongosh": "p", "mongo": "p", "sqlcmd": "P", "bcp": "P", "xfreerdp": "p",
	"lftp": "u", "http": "a", "https": "a", "login": "p", "psexec": "p", "security": "w", "sqlplus": "", "mongodump": "p", "clickhouse-client": "",
}

func (r *redactor) call(args []*syntax.Word) {
	flags := ""
	for i := 0; i < len(args); i++ {
		from, to := r.span(args[i])
		text := withoutQuotes(r.src[from:to])
		base := text[strings.LastIndexByte(text, '/')+1:]
		if f, ok := secretFlags[base]; ok {
			flags = f
		}
		if shells[base] {
			r.shellText(args[i+1:])
		}
		switch {
		case strings.HasPrefix(text, "--"):
			i += r.named(args[i:], strings.TrimLeft(text, "-"))
		case strings.HasPrefix(text, "-") && len(text) > 1:
			if SecretName(strings.TrimLeft(text, "-")) || strings.Contains(text, "=") {
				i += r.named(args[i:], strings.TrimLeft(text, "-"))
			} else if flags != "" {
				i += r.short(args[i:], text, flags)
			}
		default:
			if name, _, ok := strings.Cut(text, "="); ok && !strings.ContainsAny(name, " \t\n") && SecretName(name) {
				r.after(args[i], "=")
			}
		}
	}
}

func withoutQuotes(s string) string {
	if !strings.ContainsAny(s, `'"`) {
		return s
	}
	return strings.Map(func(c rune) rune {
		if c == '\'' || c == '"' {
			return -1
		}
		return c
	}, s)
}

// named redacts the value of --name=value, --name value and -name=value, and
// returns how many further words that took.
func (r *redactor) named(args []*syntax.Word, text string) int {
	name, _, glued := strings.Cut(text, "=")
	if !SecretName(name) && name != "user" && name != "proxy-user" {
		return 0
	}
	if glued {
		r.after(args[0], "=")
		return 0
	}
	if len(args) < 2 {
		return 0
	}
	if from, _ := r.span(args[1]); r.src[from] == '-' {
		return 0
	}
	if name == "user" || name == "proxy-user" {
		r.after(args[1], ":")
	} else {
		r.put(args[1], Redacted)
	}
	return 1
}

// short redacts the value of a program's short option for secrets.
func (r *redactor) short(args []*syntax.Word, text, flags string) int {
	for j := 1; j < len(text); j++ {
		k := strings.IndexByte(flags, text[j])
		if k < 0 {
			continue
		}
		if j+1 < len(text) {
			r.after(args[0], text[:j+1])
			return 0
		}
		if k > 0 && flags[k-1] == 'G' || len(args) < 2 {
			return 0
		}
		r.put(args[1], Redacted)
		return 1
	}
	return 0
}

// shellText redacts the text after sh -c as the command line that it is.
func (r *redactor) shellText(args []*syntax.Word) {
	for i, a := range args {
		from, to := r.span(a)
		s := r.src[from:to]
		if !strings.HasPrefix(s, "-") || strings.HasPrefix(s, "--") {
			return
		}
		if !strings.Contains(s, "c") || i+1 >= len(args) {
			continue
		}
		next := args[i+1]
		if len(next.Parts) != 1 {
			return
		}
		var inner string
		switch q := next.Parts[0].(type) {
		case *syntax.SglQuoted:
			inner = q.Value
		case *syntax.DblQuoted:
			from, to := r.span(q)
			inner = unescapeDouble(strings.Trim(r.src[from:to], `"`))
		default:
			return
		}
		r.put(next, "'"+strings.ReplaceAll(redact(inner, r.depth+1), "'", `'\''`)+"'")
		return
	}
}
