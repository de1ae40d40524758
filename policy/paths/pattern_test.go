package paths

import (
	"path"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func bind(t interface {
	Fatal(...any)
	Fatalf(string, ...any)
}, s string, view View) *Bound {
	p, err := Parse(s)
	if err != nil {
		t.Fatalf("%q: %v", s, err)
	}
	r := NewResolver(view, proj+"/sub", home)
	project, err := r.Project(proj)
	if err != nil {
		t.Fatal(err)
	}
	return p.Bind(r, Anchors{Project: project, Home: r.Dir(home), Cwd: r.Dir(proj + "/sub")})
}

func TestMatch(t *testing.T) {
	for _, c := range []struct {
		pattern, name   string
		permits, forbid bool
	}{
		{"src/**", proj + "/src/a/b.go", true, true},
		{"src/**", proj + "/src", true, true},
		{"src/**", proj + "/srcx", false, false},
		{"src/*", proj + "/src/a", true, true},
		{"src/*", proj + "/src/a/b", false, true}, // forbids what is below
		{"src/*.go", proj + "/src/a.go", true, true},
		{"src/*.go", proj + "/src/.go", true, true},
		{"src/*.go", proj + "/src/a.gob", false, false},
		{"<project>/src/**", proj + "/src/x", true, true},
		{"<project>", proj, true, true},
		{"<project>", proj + "/x", false, true},
		{"<project>/", proj + "/x", true, true},
		{"node_modules/", proj + "/node_modules/x/i.js", true, true},
		{"node_modules/", proj + "/node_modules", true, true},
		{"secret.txt", proj + "/secret.txt", true, true},
		{"secret.txt", proj + "/sub/secret.txt", false, false},
		{"**/.env", proj + "/.env", true, true},
		{"**/.env", "/.env", true, true},
		{"**/.env", "/a/b/c/.env", true, true},
		{"**/.env", proj + "/.envrc", false, false},
		{"**/.env.*", proj + "/.env.local", true, true},
		{"**/.git/**", proj + "/.git", true, true},
		{"**/.git/**", proj + "/.git/hooks/x", true, true},
		{"**/*.pem", "/x/a.pem", true, true},
		{"**/*.pem", "/x/a.pem/below", false, true},
		{"/etc", "/etc/shadow", false, true},
		{"/etc/", "/etc/shadow", true, true},
		{"/etc/**", "/etc", true, true},
		{"/etc/**", "/etcetera", false, false},
		{"/", "/x/y", true, true},
		{"/**", "/x/y", true, true},
		{"~/.ssh/**", home + "/.ssh/id", true, true},
		{"~/.ssh/**", "/root/.ssh/id", false, false},
		{"~", home, true, true},
		{"~/", home + "/x/y", true, true},
		{"<home>/x", home + "/x", true, true},
		{"<cwd>/x", proj + "/sub/x", false, true}, // the agent chooses where it is
		{"/a/{b,c}/d", "/a/c/d", true, true},
		{"/a/{b,c}/d", "/a/e/d", false, false},
		{"/a/{b/x,c}/d", "/a/b/x/d", true, true},
		{"/a/[bc]", "/a/b", true, true},
		{`/a/\*`, "/a/*", true, true},
		{`/a/\*`, "/a/b", false, false},
		{"/var/log/*", "/var/log/../../etc/shadow", false, false},
	} {
		b := bind(t, c.pattern, links())
		r := NewResolver(links(), proj, home)
		p := r.Place(c.name)
		if got := b.Permits(p); got != c.permits {
			t.Errorf("%q permits %q: %v", c.pattern, c.name, got)
		}
		if got := b.Forbids(p, false); got != c.forbid {
			t.Errorf("%q forbids %q: %v", c.pattern, c.name, got)
		}
	}
}

func TestLinks(t *testing.T) {
	mac := links("/tmp", "/private/tmp", "/var", "/private/var")
	mac.RootLinks = []string{"/tmp", "/var"}
	for _, c := range []struct {
		why             string
		view            Fixed
		pattern, name   string
		permits, forbid bool
	}{
		{"a link in the project leads out", links(proj+"/out", "/srv"), proj + "/**", proj + "/out/x", false, true},
		{"a link in the project stays in", links(proj+"/cur", "v2"), proj + "/**", proj + "/cur/x", true, true},
		{"a denied place by another name", links(proj+"/s", "/home/dev/secrets"), "/home/dev/secrets/**", proj + "/s/k", false, true},
		{"the rule's own parent is a link", mac, "/var/secret/**", "/private/var/secret/a", true, true},
		{"an absolute rule through a link of root", mac, "/tmp/agent-out/**", "/private/tmp/agent-out/x", true, true},
		{"by the link's name too", mac, "/tmp/agent-out/**", "/tmp/agent-out/x", true, true},
		{"a rule is not moved by a link of the agent", links("/tmp/out", "/etc"), "/tmp/out/**", "/tmp/out/shadow", false, true},
		{"nor a rule for one file", links(proj+"/a.txt", "/etc/shadow"), "a.txt", proj + "/a.txt", false, true},
		{"a directory of the project that is a link", links(proj+"/secrets", "/data/s"), "secrets/**", "/data/s/k", false, true},
	} {
		b := bind(t, c.pattern, c.view)
		p := NewResolver(c.view, proj, home).Place(c.name)
		if got := b.Permits(p); got != c.permits {
			t.Errorf("%s: permits %v", c.why, got)
		}
		if got := b.Forbids(p, false); got != c.forbid {
			t.Errorf("%s: forbids %v", c.why, got)
		}
	}
}

func TestProjectThatIsALink(t *testing.T) {
	view := links("/tmp", "/private/tmp")
	r := NewResolver(view, "/tmp/work", home)
	project, err := r.Project("/tmp/work")
	if err != nil {
		t.Fatal(err)
	}
	a := Anchors{Project: project, Home: r.Dir(home), Cwd: project}
	for _, pattern := range []string{"<project>/**", "/tmp/work/**", "/private/tmp/work/**"} {
		p, _ := Parse(pattern)
		if !p.Bind(r, a).Permits(r.Place("/tmp/work/a")) && pattern != "/private/tmp/work/**" {
			t.Errorf("%s does not permit a file of the project", pattern)
		}
	}
}

func TestWithoutAProject(t *testing.T) {
	r := NewResolver(links(), proj, home)
	p, _ := Parse("secrets/**")
	b := p.Bind(r, Anchors{Home: r.Dir(home), Cwd: r.Dir(proj)})
	if b.Permits(r.Place("secrets/x")) {
		t.Error("permits without a project")
	}
	if !b.Forbids(r.Place("secrets/x"), false) {
		t.Error("forbids nothing without a project")
	}
}

func TestFold(t *testing.T) {
	for _, c := range []struct{ pattern, name string }{
		{"**/.git/**", proj + "/.GIT/config"},
		{"~/.ssh/**", "/Home/Dev/.SSH/id"},
		{"/etc/Secret", "/ETC/secret"},
		{"**/*.PEM", "/x/a.pem"},
	} {
		b := bind(t, c.pattern, links())
		p := NewResolver(links(), proj, home).Place(c.name)
		if b.Forbids(p, false) || !b.Forbids(p, true) {
			t.Errorf("%s and %s: %v, folded %v", c.pattern, c.name, b.Forbids(p, false), b.Forbids(p, true))
		}
		if b.Permits(p) {
			t.Errorf("%s permits %s", c.pattern, c.name)
		}
	}
}

func TestCovers(t *testing.T) {
	r := NewResolver(links(), proj, home)
	for _, c := range []struct {
		pattern, dir string
		want         bool
	}{
		{"**/.env", proj, true}, {"src/**/x", proj + "/src/lib", true}, {"src/x", proj, true}, {"src/x", proj + "/lib", false},
		{"/etc/**", proj, false}, {"/etc/**", "/", true}, {"secret", proj + "/secret/deep", true},
	} {
		if got := bind(t, c.pattern, links()).Covers(r.Place(c.dir), false); got != c.want {
			t.Errorf("%s in %s: %v", c.pattern, c.dir, got)
		}
	}
}

// What Parse refuses, and a word of what it says to do.
var badPatterns = map[string]string{
	"":                              "empty",
	strings.Repeat("a", 1025):       "1024",
	"a\x00b":                        "control",
	"a\nb":                          "control",
	" a":                            "space",
	"a ":                            "space",
	"a/../b":                        "cleaned",
	"..":                            "cleaned",
	"./a":                           "<project>",
	"~/../x":                        "cleaned",
	"/a//b":                         "slashes",
	"~bob/x":                        "absolute",
	"<root>/x":                      "anchors",
	"<projects>/x":                  "anchors",
	"$HOME/x":                       "~",
	"${HOME}/x":                     "~",
	"src/**x":                       "segment",
	"src/x**/y":                     "segment",
	"[a":                            "not closed",
	"{a,b":                          "not closed",
	"a}b{":                          "not closed",
	`a\`:                            "backslash",
	"{a,{b,c}}":                     "braces",
	strings.Repeat("{a,aa}", 25):    "alternatives",
	"**/a/**/b/**/c/**/d/**/e":      "stars",
	strings.Repeat("a*", 17):        "stars",
	"{" + strings.Repeat("a,", 300): "not closed",
}

func TestBadPatterns(t *testing.T) {
	for s, word := range badPatterns {
		p, err := Parse(s)
		if err == nil {
			t.Errorf("%.40q was accepted: %+v", s, p)
			continue
		}
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%.40q: %q does not say %q", s, err, word)
		}
	}
}

// No accepted pattern may stall a decision.
func TestSlowPatterns(t *testing.T) {
	start := time.Now()
	for _, s := range []string{
		strings.Repeat("{a,aa}", 8), strings.Repeat("*a", 15) + "*", "**/*a*a*a/**/*a*a/**/*a*a/**/b",
	} {
		b := bind(t, s, links())
		b.Forbids(NewResolver(links(), proj, home).Place(strings.Repeat("a", 200)+"/"+strings.Repeat("a/", 100)), true)
	}
	if d := time.Since(start); d > 5*time.Second {
		t.Errorf("took %v", d)
	}
}

func TestEscapeMatchesItselfAlone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seg := rapid.StringMatching(`[a-c*?\[\]{}\\ ,.-]{1,6}`)
		draw := func(label string) string {
			return path.Clean("/" + strings.Join(rapid.SliceOfN(seg, 1, 3).Draw(t, label), "/"))
		}
		name, other := draw("name"), draw("other")
		if name == "/" {
			return // the root is a directory, with all in it
		}
		p, err := Parse(Escape(name))
		if err != nil {
			return // a name that ends in a space cannot be written as a pattern
		}
		if !p.Literal() {
			t.Fatalf("%q is not literal", Escape(name))
		}
		r := NewResolver(links(), "/", "")
		b := p.Bind(r, Anchors{})
		if !b.Permits(r.Place(name)) {
			t.Fatalf("%q does not match itself", name)
		}
		if name != other && b.Permits(r.Place(other)) {
			t.Fatalf("%q matches %q", name, other)
		}
	})
}

// An index by key finds every name that the pattern matches.
func TestKeysMissNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.SampledFrom([]string{
			"src/**", "**/.env", "**/a/*", "/a/b/**", "~/a", "a/{b,c/d}", "*", "**", "/", "a/*/b", "**/[a]/b", `a\*`, "<project>/b/", "*.a",
		}).Draw(t, "pattern")
		b := bind(t, s, links(proj+"/src", "/other/place", "/a/b", "/elsewhere"))
		name := "/" + strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"home", "dev", "proj", "src", "a", "b", "c", "d", ".env", "other", "place", "elsewhere", "x.a", "a*"}), 1, 6).Draw(t, "name"), "/")
		p := Place{Given: name, Real: name, Trusted: name}
		keys := b.Keys()
		if keys == nil || !b.Forbids(p, false) && !b.Permits(p) {
			return
		}
		for _, k := range keys {
			if strings.Contains(name+"/", "/"+k+"/") {
				return
			}
		}
		t.Fatalf("%s matches %s, which has none of %q", s, name, keys)
	})
}

func FuzzParse(f *testing.F) {
	for s := range badPatterns {
		f.Add(s)
	}
	for _, s := range []string{"src/**", "~/.ssh/**", "<cwd>/{a,b}/[c-d]?", `**/a\*`, "/"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		p, err := Parse(s)
		if err != nil {
			return
		}
		if p.String() != s {
			t.Fatalf("%q reads back as %q", s, p)
		}
		r := NewResolver(links(), proj, home)
		at := r.Dir(proj)
		b := p.Bind(r, Anchors{Project: at, Home: r.Dir(home), Cwd: at})
		place := r.Place("a/b/.env")
		if b.Permits(place) && !b.Forbids(place, false) {
			t.Fatalf("%q permits what it would not forbid", s)
		}
		b.Forbids(place, true)
		b.Keys()
	})
}
