package policy

import (
	"testing"

	"pgregory.net/rapid"
)

func TestDomains(t *testing.T) {
	for _, c := range []struct {
		domain, url      string
		permits, forbids bool
	}{
		{"docs.example.org", "https://docs.example.org/x", true, true},
		{"docs.example.org", "HTTPS://DOCS.Example.ORG/x", true, true},
		{"docs.example.org", "http://docs.example.org:80/", true, true},
		{"docs.example.org", "https://docs.example.org:443/", true, true},
		{"docs.example.org", "https://docs.example.org:8443/", false, true},
		{"docs.example.org:8443", "https://docs.example.org:8443/", true, true},
		{"docs.example.org:8443", "https://docs.example.org/", false, false},
		{"docs.example.org", "https://docs.example.org./x", true, true},
		{"docs.example.org", "https://docs.example.org.evil.test/", false, false},
		{"docs.example.org", "https://evil.test/docs.example.org", false, false},
		{"docs.example.org", "https://evil.test?https://docs.example.org/", false, false},
		{"docs.example.org", "https://docs.example.org@evil.test/", false, true}, // not certain, and named
		{"evil.test", "https://docs.example.org@evil.test/", false, true},
		{"docs.example.org", "https://x@docs.example.org/", false, true},
		{"docs.example.org", `https://docs.example.org\@evil.test/`, false, true},
		{"docs.example.org", "https://docs.example.org/a\tb", false, true},
		{"docs.example.org", " https://docs.example.org/", false, true},
		{"docs.example.org", "docs.example.org", false, true},
		{"docs.example.org", "ftp://docs.example.org/", false, true},
		{"docs.example.org", "file:///etc/hosts", false, false},
		{"docs.example.org", "https:///x", false, false},
		{"docs.example.org", "", false, false},
		{"*.example.org", "https://a.b.example.org/", true, true},
		{"*.example.org", "https://example.org/", false, false},
		{"*.example.org", "https://badexample.org/", false, false},
		{"*", "https://anything.test/", true, true},
		{"*", "file:///etc/hosts", false, true},
		{"apple.example", "https://\u0430pple.example/x", false, false},
		{"xn--pple-43d.example", "https://\u0430pple.example/x", true, true},
		{"xn--bcher-kva.example", "https://B\u00dcCHER.example/", true, true},
		{"127.0.0.1", "http://127.0.0.1/", true, true},
		{"127.0.0.1", "http://2130706433/", true, true},
		{"127.0.0.1", "http://0x7f000001/", true, true},
		{"127.0.0.1", "http://0177.0.0.1/", true, true},
		{"127.0.0.1", "http://127.1/", true, true},
		{"127.0.0.1", "http://[::ffff:127.0.0.1]/", true, true},
		{"127.0.0.1", "http://127.0.0.256/", false, false},
		{"::1", "http://[::1]:80/", true, true},
		{"[::1]", "http://[0:0:0:0:0:0:0:1]/", true, true},
		{"localhost", "http://localhost/", true, true},
	} {
		d, err := parseDomain(c.domain)
		if err != nil {
			t.Errorf("%q: %v", c.domain, err)
			continue
		}
		u := parseTarget(c.url)
		if got := d.permits(u); got != c.permits {
			t.Errorf("%q permits %q: %v (%+v)", c.domain, c.url, got, u)
		}
		if got := d.forbids(u, c.url); got != c.forbids {
			t.Errorf("%q forbids %q: %v (%+v)", c.domain, c.url, got, u)
		}
	}
}

func TestPunycode(t *testing.T) {
	// From RFC 3492, section 7.1, and in daily use.
	for in, want := range map[string]string{
		"b\u00fccher": "bcher-kva", "m\u00fcnchen": "mnchen-3ya", "\u4ed6\u4eec\u4e3a\u4ec0\u4e48\u4e0d\u8bf4\u4e2d\u6587": "ihqwcrb4cv8a8dqg056pqjye",
		"\u0430pple": "pple-43d", "\u0440\u0444": "p1ai", "\u2603": "n3h", "ma\u00f1ana": "maana-pta", "3\u5e74b\u7d44\u91d1\u516b\u5148\u751f": "3b-ww4c5e180e575a65lsy2b",
	} {
		if got, ok := punycode(in); !ok || got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
	if _, ok := punycode("\xff"); ok {
		t.Error("encoded what is not UTF-8")
	}
}

func TestHostsHaveOneSpelling(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := rapid.StringMatching(`[a-zA-Z0-9.-]{1,12}`).Draw(t, "host")
		c, err := canonicalHost(h)
		if err != nil {
			return
		}
		if again, err := canonicalHost(c); err != nil || again != c {
			t.Fatalf("%q is %q, and that is %q, %v", h, c, again, err)
		}
	})
}

func FuzzTarget(f *testing.F) {
	for _, s := range []string{"https://a.b/c", "http://0x7f.1/", "http://[::1]:80/", `https:\\x@y/`, "file:///x", "http://\u0430.b/"} {
		f.Add(s)
	}
	d, err := parseDomain("allowed.example")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, s string) {
		u := parseTarget(s)
		if d.permits(u) && (u.host != "allowed.example" || !d.forbids(u, s)) {
			t.Fatalf("%q: %+v", s, u)
		}
	})
}
