package policy

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"
)

// domain is a pattern over hosts: one host, "*.x" for every host below x, or
// "*" for all; with a port, that port only.
type domain struct {
	host string // canonical
	sub  bool
	any  bool
	port string
}

// parseDomain reads a domain pattern. Errors say what to write instead.
func parseDomain(s string) (*domain, error) {
	switch {
	case s == "":
		return nil, errors.New("the domain is empty")
	case s == "*":
		return &domain{any: true}, nil
	case len(s) > 255:
		return nil, errors.New("the domain is longer than any can be")
	case strings.Contains(s, "://") || strings.ContainsAny(s, "/?#@\\ "):
		return nil, errors.New(`a domain is a host name alone, as in "docs.example.org"; leave out scheme, user and path`)
	case s[0] == '.':
		return nil, fmt.Errorf("a leading dot matches nothing; write %q for the hosts below it", "*"+s)
	}
	d := &domain{}
	rest := s
	if tail, ok := strings.CutPrefix(s, "*."); ok {
		d.sub, rest = true, tail
	}
	if strings.Contains(rest, "*") {
		return nil, errors.New(`"*" stands only at the beginning, as in "*.example.org", or alone`)
	}
	if i := strings.LastIndexByte(rest, ':'); i > 0 && !strings.Contains(rest[:i], ":") {
		d.port, rest = rest[i+1:], rest[:i]
		if n, err := strconv.ParseUint(d.port, 10, 16); err != nil || n == 0 || strconv.FormatUint(n, 10) != d.port {
			return nil, errors.New("the port is not a number from 1 to 65535")
		}
	}
	if ascii, ok := toASCII(rest); ok && ascii != rest && !isASCII(rest) {
		return nil, fmt.Errorf("letters that look alike are different hosts: write the encoded form %q", strings.Replace(s, rest, ascii, 1))
	}
	host, err := canonicalHost(strings.Trim(rest, "[]"))
	if err != nil {
		return nil, err
	}
	d.host = host
	if d.sub {
		if _, err := netip.ParseAddr(host); err == nil {
			return nil, errors.New("an address has no hosts below it")
		}
	}
	return d, nil
}

// matches reports whether the canonical host is d's, whatever the port.
func (d *domain) matches(host string) bool {
	switch {
	case d.any:
		return true
	case d.sub:
		return strings.HasSuffix(host, "."+d.host)
	}
	return host == d.host
}

// target is where a URL leads.
type target struct {
	host    string // canonical, "" when it cannot be told
	port    string // as written, "" for the scheme's own
	scheme  string
	path    string // of file:
	certain bool   // nothing in the URL may be read in two ways
	why     string // what is not certain
}

// permits reports whether t certainly goes to d, on d's port or the scheme's
// own.
func (d *domain) permits(t *target) bool {
	return t.certain && t.host != "" && d.matches(t.host) && (t.port == d.port)
}

// forbids reports whether t may go to d.
func (d *domain) forbids(t *target, raw string) bool {
	if d.port != "" && t.host != "" && t.port != d.port {
		return false
	}
	if d.any || t.host != "" && d.matches(t.host) {
		return true
	}
	return !t.certain && d.host != "" && strings.Contains(strings.ToLower(raw), d.host)
}

// parseTarget reads a URL as a client may.
func parseTarget(raw string) *target {
	t := &target{certain: true}
	doubt := func(why string) {
		if t.certain {
			t.certain, t.why = false, why
		}
	}
	if strings.ContainsFunc(raw, func(r rune) bool { return r <= ' ' || r == 0x7f || r == '\\' }) {
		doubt("the address has characters that clients read in different ways")
	}
	clean := strings.Map(func(r rune) rune {
		if r == '\t' || r == '\n' || r == '\r' {
			return -1
		}
		if r == '\\' {
			return '/'
		}
		return r
	}, strings.TrimSpace(raw))
	u, err := url.Parse(clean)
	if err != nil {
		doubt("the address cannot be read")
		return t
	}
	t.scheme = strings.ToLower(u.Scheme)
	switch t.scheme {
	case "http", "https":
	case "file":
		t.path = u.Path
		doubt("a file: address reads a file")
		return t
	default:
		doubt("the address is neither http nor https")
	}
	if u.User != nil {
		doubt("the address has a user name")
	}
	host := u.Hostname()
	if !isASCII(host) {
		if ascii, ok := toASCII(host); ok {
			host = ascii
		} else {
			doubt("the host name cannot be encoded")
		}
	}
	if t.host, err = canonicalHost(host); err != nil {
		t.host = ""
		doubt("the host name is not valid")
	}
	if t.port = u.Port(); t.port == "80" && t.scheme == "http" || t.port == "443" && t.scheme == "https" {
		t.port = ""
	}
	return t
}

// canonicalHost is the one spelling of a host: lower case, no final dot, an
// address in every form that clients take in its usual one.
func canonicalHost(host string) (string, error) {
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	if host == "" {
		return "", errors.New("there is no host name")
	}
	if a, err := netip.ParseAddr(host); err == nil {
		return a.WithZone("").Unmap().String(), nil
	}
	if a, numeric, err := looseIPv4(host); numeric {
		if err != nil {
			return "", err
		}
		return a.String(), nil
	}
	for label := range strings.SplitSeq(host, ".") {
		if label == "" || len(label) > 63 {
			return "", fmt.Errorf("%q is not a host name", host)
		}
		for i := range len(label) {
			if c := label[i]; c != '-' && c != '_' && (c < 'a' || c > 'z') && (c < '0' || c > '9') {
				return "", fmt.Errorf("%q is not a host name", host)
			}
		}
	}
	return host, nil
}

// looseIPv4 reads addresses as browsers and C libraries do: one to four
// numbers, decimal, octal or hexadecimal, the last one filling the rest.
func looseIPv4(s string) (a netip.Addr, numeric bool, err error) {
	parts := strings.Split(s, ".")
	last := parts[len(parts)-1]
	if last == "" || last[0] < '0' || last[0] > '9' {
		return a, false, nil
	}
	if _, err := strconv.ParseUint(last, 0, 64); err != nil && strings.Trim(last, "0123456789") != "" {
		return a, false, nil
	}
	bad := fmt.Errorf("%q is not an address", s)
	if len(parts) > 4 {
		return a, true, bad
	}
	var v uint64
	for i, p := range parts {
		base := 10
		switch {
		case strings.HasPrefix(p, "0x"):
			base, p = 16, p[2:]
			if p == "" {
				p = "0"
			}
		case len(p) > 1 && p[0] == '0':
			base = 8
		}
		n, err := strconv.ParseUint(p, base, 64)
		if err != nil {
			return a, true, bad
		}
		if i < len(parts)-1 {
			if n > 255 {
				return a, true, bad
			}
			v |= n << (8 * (3 - i))
			continue
		}
		if n >= 1<<(8*(5-len(parts))) {
			return a, true, bad
		}
		v |= n
	}
	return netip.AddrFrom4([4]byte{byte(v >> 24), byte(v >> 16), byte(v >> 8), byte(v)}), true, nil
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}
