package policy

import (
	"testing"

	"permd/ask"
)

func TestLikeness(t *testing.T) {
	write := func(name, content string) *ask.Action {
		a := onFile(ask.ToolWrite, name)
		a.Input = []byte(`{"content":"` + content + `"}`)
		a.Paths[0].Real = a.Paths[0].Given
		return a
	}
	for _, c := range []struct {
		a, b       *ask.Action
		same, near bool
	}{
		{bash("rm -rf build"), bash("rm -rf build"), true, true},
		{bash("rm -rf build"), bash("rm  -rf   build"), true, true},
		{bash("rm -rf build"), bash("'rm' -rf \"build\""), true, true},
		{bash("rm -rf build"), bash("r\\m -rf build # now"), true, true},
		{bash("rm -rf build"), bash("rm -rf build;"), true, true},
		{bash("rm -rf build"), bash("rm -r -f build"), false, true},
		{bash("rm -rf build"), bash("rm -rf ./build"), false, true},
		{bash("rm -rf build"), bash("cd src && rm -rf build"), false, false},
		{bash("git push origin a"), bash("git push origin b"), false, true},
		{bash("git push origin a"), bash("git pull origin a"), false, false},
		{bash("a > x"), bash("a > y"), false, true},
		{bash("a > x"), bash("a"), false, true},
		{bash("a b"), bash("'a b'"), false, false},
		{bash("a $x"), bash("a $x"), false, true}, // not settled: only equal input is the same
		{bash("a; b"), bash("b; a"), false, true},
		{write("x", "1"), write("x", "2"), false, true},
		{write("x", "1"), write("y", "1"), false, false},
		{fetch("https://example.org/a"), fetch("https://example.org/b"), false, true},
		{fetch("https://example.org/a"), fetch("https://example.net/a"), false, false},
		{mcp("db", "get"), mcp("db", "get"), false, true},
		{mcp("db", "get"), mcp("db", "put"), false, false},
		{bash("x"), onFile(ask.ToolWrite, "x"), false, false},
	} {
		sa, na := Likeness(c.a)
		sb, nb := Likeness(c.b)
		if (sa != "" && sa == sb) != c.same || (na == nb) != c.near {
			t.Errorf("%s and %s: same %q, %q; near %q, %q", c.a.Command, c.b.Command, sa, sb, na, nb)
		}
	}
	there, here := bash("rm x"), bash("rm x")
	there.Cwd = home + "/other"
	a, _ := Likeness(there)
	b, _ := Likeness(here)
	if a == b {
		t.Error("the same words in another directory are another call")
	}
}
