package shell

import (
	"regexp"
	"strings"
	"sync"
)

// Redacted stands where a secret was.
const Redacted = "‹redacted›"

var secretWords = map[string]bool{
	"pass": true, "password": true, "passwd": true, "pwd": true, "passphrase": true, "passcode": true, "secret": true, "secrets": true,
	"token": true, "tokens": true, "key": true, "keys": true, "apikey": true, "auth": true, "authorization": true, "credential": true,
	"credentials": true, "creds": true, "cookie": true, "cookies": true, "pat": true, "dsn": true, "bearer": true, "jwt": true,
	"otp": true, "totp": true, "pin": true, "seed": true, "mnemonic": true, "webhook": true, "signature": true, "sig": true, "salt": true,
}

// plainEnds are endings that make a name one of a place, not of a secret.
var plainEnds = []string{"file", "path", "stdin", "fd", "dir", "store", "type", "name", "url", "length", "size"}

// SecretName reports whether a variable, option, header or field of this name
// is taken to hold a secret.
func SecretName(name string) bool {
	lower := strings.ToLower(name)
	switch lower {
	case "pwd", "oldpwd", "": // the shell's own directories
		return false
	}
	for _, end := range plainEnds {
		if strings.HasSuffix(lower, end) && !strings.HasSuffix(lower, "password"+end) && lower != end {
			return false
		}
	}
	for _, part := range nameParts(name) {
		if secretWords[part] {
			return true
		}
	}
	for _, within := range []string{"password", "passwd", "secret", "token", "apikey", "credential", "passphrase"} {
		if strings.Contains(lower, within) {
			return true
		}
	}
	return false
}

// nameParts splits API_KEY, api-key and apiKey into lower-case words.
func nameParts(name string) []string {
	var parts []string
	start := 0
	cut := func(end int) {
		if end > start {
			parts = append(parts, strings.ToLower(name[start:end]))
		}
	}
	for i := 0; i < len(name); i++ {
		c := name[i]
		switch {
		case c == '_' || c == '-' || c == '.' || c == ' ' || '0' <= c && c <= '9':
			cut(i)
			start = i + 1
		case 'A' <= c && c <= 'Z' && i > 0 && 'a' <= name[i-1] && name[i-1] <= 'z':
			cut(i)
			start = i
		}
	}
	cut(len(name))
	return parts
}

// shape finds secrets by their look in any text. What the group "keep" holds
// stays. It is tried only when the lower-case text has one of the hints.
type shape struct {
	re    *regexp.Regexp
	keep  int
	tail  string // put behind the mark
	hints []string
}

var shapes = sync.OnceValue(func() []shape {
	var out []shape
	for _, s := range []struct{ expr, tail, hints string }{
		{`(?P<keep>\b[a-zA-Z][a-zA-Z0-9+.-]*://)[^/\s'"@?#]+@`, "@", "://"},
		{`(?i)(?P<keep>\b(?:proxy-)?authorization\s*[:=]\s*(?:(?:bearer|basic|digest|token|negotiate)\s+)?)[^\s'"][^'"\n]*`, "", "authorization"},
		{`(?i)(?P<keep>\b(?:set-)?cookie\s*:\s*)[^'"\n]+`, "", "cookie"},
		{`(?i)(?P<keep>\b[a-z0-9_-]*(?:token|secret|key|auth|password|session)[a-z0-9_-]*\s*:\s+)[^\s'"][^'"\n]*`, "", ": "},
		{`(?i)(?P<keep>\bbearer\s+)[a-z0-9._~+/=-]{8,}`, "", "bearer"},
		{`(?i)(?P<keep>\b(?:identified\s+(?:with\s+\S+\s+)?by|password)\s+)'[^']*'?`, "", "identified password"},
		{`\b(?:AKIA|ASIA|AROA)[0-9A-Z]{12,}`, "", "akia asia aroa"},
		{`\bgh[pousr]_[A-Za-z0-9]{16,}`, "", "ghp_ gho_ ghu_ ghs_ ghr_"},
		{`\bgithub_pat_[A-Za-z0-9_]{16,}`, "", "github_pat_"},
		{`\bglpat-[A-Za-z0-9_-]{16,}`, "", "glpat-"},
		{`\bsk-[A-Za-z0-9_-]{16,}`, "", "sk-"},
		{`\bsk_(?:live|test)_[A-Za-z0-9]{12,}`, "", "sk_"},
		{`\bxox[a-z]-[A-Za-z0-9-]{10,}`, "", "xox"},
		{`\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{4,}(?:\.[A-Za-z0-9_-]*)?`, "", "eyj"},
		{`\bAIza[A-Za-z0-9_-]{30,}`, "", "aiza"},
		{`\b(?:npm|hf|pypi)_[A-Za-z0-9]{24,}`, "", "npm_ hf_ pypi_"},
		{`\bpypi-[A-Za-z0-9_-]{24,}`, "", "pypi-"},
		{`(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)`, "", "-----begin"},
	} {
		re := regexp.MustCompile(s.expr)
		hints := strings.Fields(s.hints)
		if s.hints == ": " {
			hints = []string{s.hints}
		}
		out = append(out, shape{re, re.SubexpIndex("keep"), s.tail, hints})
	}
	return out
})

// Scrub returns text with what looks like a secret, by name or by shape,
// taken out. It is for text whose grammar is not known.
func Scrub(text string) string {
	lower := strings.ToLower(text)
	for _, s := range shapes() {
		for _, hint := range s.hints {
			if strings.Contains(lower, hint) {
				text = s.scrub(text)
				break
			}
		}
	}
	return scrubPairs(text)
}

func (s *shape) scrub(text string) string {
	return s.re.ReplaceAllStringFunc(text, func(m string) string {
		if strings.Contains(m, Redacted) {
			return m
		}
		out := Redacted + s.tail
		if s.keep > 0 {
			out = s.re.FindStringSubmatch(m)[s.keep] + out
		}
		return out
	})
}

// scrubPairs finds name=value, name = "value" and "name": "value".
func scrubPairs(text string) string {
	if !strings.ContainsAny(text, "=:") {
		return text
	}
	var b strings.Builder
	at := 0
	for i := 0; i < len(text); i++ {
		c := text[i]
		if c != '=' && c != ':' {
			continue
		}
		name, quoted := nameBefore(text[at:i])
		if name == "" || c == ':' && !quoted || !SecretName(name) {
			continue
		}
		from := i + 1
		for from < len(text) && strings.IndexByte(" \t\"'", text[from]) >= 0 {
			from++
		}
		to := from
		for to < len(text) && strings.IndexByte(" \t\n\"'&;,)}]", text[to]) < 0 {
			to++
		}
		if to == from || strings.HasPrefix(text[from:], Redacted) {
			continue
		}
		b.WriteString(text[at:from])
		b.WriteString(Redacted)
		at, i = to, to-1
	}
	b.WriteString(text[at:])
	return b.String()
}

// nameBefore returns the name that ends text, and whether it stands in
// quotes.
func nameBefore(text string) (name string, quoted bool) {
	text = strings.TrimRight(text, " \t")
	if n := len(text); n > 0 && (text[n-1] == '"' || text[n-1] == '\'') {
		quoted, text = true, text[:n-1]
	}
	i := len(text)
	for i > 0 && isNameByte(text[i-1]) {
		i--
	}
	return text[i:], quoted
}

func isNameByte(c byte) bool {
	return c == '_' || c == '-' || c == '.' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}
