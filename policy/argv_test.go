package policy

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"permd/policy/shell"
)

func pattern(t fataler, s string) *argv {
	p, err := parseArgv(s)
	if err != nil {
		t.Fatalf("%q: %v", s, err)
	}
	return p
}

func TestPermits(t *testing.T) {
	for _, c := range []struct {
		pattern string
		argv    string
		want    bool
	}{
		{"git status", "git status", true},
		{"git status", "git status -s", false},
		{"git status", "Git status", false},
		{"git status *", "git status -s", true},
		{"git status *", "git status", false},
		{"git *", "git push --force", true},
		{"*", "anything at all", true},
		{"git", "/usr/bin/git", false},
		{"/usr/bin/git *", "/usr/bin/git log", true},
		{"npm run 'test:'*", "npm run test:unit", true},
		{"npm run 'test:'*", "npm run test", false},
		{"cat /var/log/*", "cat /var/log/syslog", true},
		{"cat /var/log/*", "cat /var/log/syslog /etc/shadow", false},
		{"cat /var/log/*", "cat /var/log/../../etc/shadow", false},
		{"curl https://docs.example.org/*", "curl https://docs.example.org/a/b?c", true},
		{"curl https://docs.example.org/*", "curl https://docs.example.org/../x", false},
		{"git * --stat", "git diff --stat", true},
		{"git * --stat", "git -c --stat", false},
		{"git * --stat", "git diff x --stat", false},
		{"echo '*'", "echo *", true},
		{"echo '*'", "echo x", false},
		{`echo \*`, "echo *", true},
		{"a*b*c x", "aXbYc x", true},
		{"a*b*c x", "abc x", true},
		{"a*b*c x", "ac x", false},
	} {
		if got := pattern(t, c.pattern).permits(strings.Fields(c.argv)); got != c.want {
			t.Errorf("%q permits %q: %v", c.pattern, c.argv, got)
		}
	}
}

func TestForbids(t *testing.T) {
	for _, c := range []struct {
		pattern, cmd string
		want         bool
	}{
		{"rm *", "rm x", true},
		{"rm *", "rm", true},
		{"rm *", "/bin/rm x", true},
		{"rm *", "./rm x", true},
		{"rm *", "'rm' x", true},
		{"rm *", `\rm x`, true},
		{"rm *", "=rm x", true},
		{"rm *", "rmdir x", false},
		{"rm *", "echo rm x", false},
		{"/bin/rm *", "rm x", true},
		{"/bin/rm *", "/bin/rm x", true},
		{"/bin/rm *", "/opt/rm x", false},
		{"rm -rf *", "rm -rf x", true},
		{"rm -rf *", "rm  -rf   x", true},
		{"rm -rf *", "rm -fr x", true},
		{"rm -rf *", "rm -r -f x", true},
		{"rm -rf *", "rm -rvf x", true},
		{"rm -rf *", "rm x -rf", true},
		{"rm -rf *", "rm --recursive --force x", true},
		{"rm -rf *", "rm -r x", false},
		{"rm -rf *", "rm -- -rf", false},
		{"git push *", "git push origin main", true},
		{"git push *", "git push", true},
		{"git push *", "git -C /srv push", true},
		{"git push *", "git -c a=b push", true},
		{"git push *", "git --git-dir=/x push", true},
		{"git push *", "git log push", false},
		{"git push *", "git status", false},
		{"git push --force*", "git push --force-with-lease", true},
		{"git push --force*", "git push -v --force", true},
		{"git push --force*", "git push --forc", false},
		{"git push --force *", "git push --forc x", true},
		{"git push * --force*", "git push origin main --force", true},
		{"git push * --force*", "git push origin main", false},
		{"git reset --hard *", "git reset --hard", true},
		{"git reset --hard *", "git reset --hard HEAD~1", true},
		{"git reset --hard *", "git reset HEAD", false},
		{"gh pr view *", "gh pr --repo o/r view 12", true},
		{"id", "id", true},
		{"id", "id root", false},
		{"chmod 777 *", "chmod -R 777 x", true},
		{"chmod 777 *", "chmod 755 777", false},
		{"git* push", "git-x push", true},
		{"* --no-verify *", "git commit --no-verify", true},
		{"* --no-verify *", "git commit", false},
		{"*", "anything", true},
		{"npm run 'test:'*", "npm run test:unit", true},
	} {
		u := &shell.Read(c.cmd, shell.Env{Cwd: proj, Home: home}).Units[0]
		if got := pattern(t, c.pattern).forbids(u, false); got != c.want {
			t.Errorf("%q forbids %q: %v", c.pattern, c.cmd, got)
		}
	}
	u := &shell.Read("RM -rf x", shell.Env{Cwd: proj}).Units[0]
	if p := pattern(t, "rm -rf *"); p.forbids(u, false) || !p.forbids(u, true) {
		t.Error("case of a program's name")
	}
}

// A pattern made of words matches exactly these words.
func TestQuotedWordsMatchThemselvesAlone(t *testing.T) {
	word := rapid.StringMatching(`[a-c*?'"\\ ;:~$={}-]{1,4}`)
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SliceOfN(word, 1, 4).Draw(t, "words")
		other := rapid.SliceOfN(word, 1, 4).Draw(t, "other")
		s := quoteArgv(words)
		p, err := parseArgv(s)
		if err != nil {
			if name, _, ok := strings.Cut(words[0], "="); ok && shell.ValidName(name) {
				return // an assignment cannot be named
			}
			t.Fatalf("%q as %s: %v", words, s, err)
		}
		if !p.exact() || !p.permits(words) {
			t.Fatalf("%q as %s does not match itself", words, s)
		}
		if !slices.Equal(words, other) && p.permits(other) {
			t.Fatalf("%s matches %q", s, other)
		}
		read := shell.Read(s, shell.Env{Cwd: proj})
		if read.Plain() {
			if got, _ := read.Units[0].Argv(); !slices.Equal(got, words) {
				t.Fatalf("the shell reads %s as %q", s, got)
			}
		}
	})
}

// What a pattern permits it would forbid too: a deny rule never misses what
// an allow rule of the same words would let through.
func TestForbidsCoversPermits(t *testing.T) {
	word := rapid.SampledFrom([]string{"git", "push", "-f", "--force", "-C", "x", "a*b", "*", "'*'", "--", "-xyz", "/bin/rm", "rm"})
	arg := rapid.SampledFrom([]string{"git", "push", "-f", "--force", "-C", "x", "ab", "a1b", "*", "--", "-xyz", "/bin/rm", "rm", "--force=1"})
	rapid.Check(t, func(t *rapid.T) {
		p, err := parseArgv(strings.Join(rapid.SliceOfN(word, 1, 4).Draw(t, "pattern"), " "))
		if err != nil {
			return
		}
		words := rapid.SliceOfN(arg, 1, 5).Draw(t, "words")
		u := &shell.Unit{}
		for _, w := range words {
			u.Words = append(u.Words, shell.Word{Text: w, Lit: true})
		}
		if p.permits(words) && !p.forbids(u, false) {
			t.Fatalf("permits %q and would not forbid it", words)
		}
	})
}

func FuzzArgv(f *testing.F) {
	for _, s := range []string{"git *", "a 'b c' \\* d*e", "x:*", "'"} {
		f.Add(s, "git push")
	}
	f.Fuzz(func(t *testing.T, s, cmd string) {
		p, err := parseArgv(s)
		if err != nil {
			return
		}
		for i := range shell.Read(cmd, shell.Env{Cwd: proj}).Units {
			p.forbids(&shell.Read(cmd, shell.Env{Cwd: proj}).Units[i], true)
		}
		p.permits(strings.Fields(cmd))
	})
}
