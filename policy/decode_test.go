package policy

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"permd/ask"
)

func TestGoodFiles(t *testing.T) {
	files, err := filepath.Glob("testdata/rules/good/*.toml")
	if err != nil || len(files) < 8 {
		t.Fatal(files, err)
	}
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		f, err := Decode(name, data, LayerUser)
		if err != nil {
			t.Errorf("%v", err)
			continue
		}
		again, err := Decode(name, Format(f.Default, f.Rules()), LayerUser)
		if err != nil {
			t.Errorf("%s written again: %v\n%s", name, err, Format(f.Default, f.Rules()))
			continue
		}
		if !reflect.DeepEqual(f.Rules(), again.Rules()) || !reflect.DeepEqual(f.Default, again.Default) {
			t.Errorf("%s written again says something else:\n%s", name, Format(f.Default, f.Rules()))
		}
	}
}

func TestBadFiles(t *testing.T) {
	files, err := filepath.Glob("testdata/rules/bad/*.toml")
	if err != nil || len(files) < 4*8 {
		t.Fatal(files, err)
	}
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		want, err := os.ReadFile(strings.TrimSuffix(name, "toml") + "want")
		if err != nil {
			t.Fatal(err)
		}
		f, err := Decode("f.toml", data, LayerUser)
		var ps Problems
		if !errors.As(err, &ps) || len(ps) == 0 {
			t.Errorf("%s: accepted: %+v", name, f.Rules())
			continue
		}
		if w := strings.TrimSuffix(string(want), "\n"); !strings.Contains(err.Error(), w) {
			t.Errorf("%s:\n got %s\nwant …%s", name, err, w)
		}
	}
}

// What a file with a fault denies can still be held.
func TestFaultsLeaveTheOtherRules(t *testing.T) {
	f, err := Decode("f.toml", []byte("[[rule]]\naction = \"deny\"\ncommand = \"npm publish)*\"\n\n[[rule]]\naction = \"deny\"\ncommand = \"git push *\"\n"), LayerUser)
	var ps Problems
	if !errors.As(err, &ps) || len(ps) != 1 || ps[0].Line != 3 || len(f.rules) != 1 || f.rules[0].Command != "git push *" || f.rules[0].ref.Line != 5 {
		t.Fatalf("%v, rules %+v", err, f.Rules())
	}
}

func TestAllFaultsAreReportedInOrder(t *testing.T) {
	_, err := Decode("f.toml", []byte("x = 1\n[[rule]]\ntool = \"Bash\"\nrisk = \"no\"\n[[ruel]]\n"), LayerUser)
	var ps Problems
	if !errors.As(err, &ps) || len(ps) < 4 {
		t.Fatalf("%v", err)
	}
	for i := 1; i < len(ps); i++ {
		if ps[i].Line < ps[i-1].Line {
			t.Errorf("line %d after line %d", ps[i].Line, ps[i-1].Line)
		}
	}
	var one Problem
	if !errors.As(err, &one) || one.File != "f.toml" || one.Line != 1 || one.Col != 1 {
		t.Errorf("%+v", one)
	}
}

func TestCaps(t *testing.T) {
	for name, data := range map[string]string{
		"size":     strings.Repeat("#", MaxFile+1),
		"rules":    strings.Repeat("[[rule]]\naction=\"deny\"\ntool=\"bash\"\n", MaxRules+1),
		"text":     "[[rule]]\naction = \"deny\"\ncommand = \"" + strings.Repeat("x", maxText+1) + "\"\n",
		"except":   "[[rule]]\naction = \"deny\"\ntool = \"bash\"\nexcept = [" + strings.Repeat("{command=\"x\"},", maxExcept+1) + "]\n",
		"examples": "[[rule]]\naction = \"deny\"\ntool = \"bash\"\nmatch = [" + strings.Repeat("\"x\",", maxSample+1) + "]\n",
		"nesting":  "default = " + strings.Repeat("[", 20000) + strings.Repeat("]", 20000),
		"words":    "[[rule]]\naction = \"deny\"\ncommand = \"" + strings.Repeat("x ", 65) + "\"\n",
	} {
		if _, err := Decode("f.toml", []byte(data), LayerUser); err == nil {
			t.Errorf("%s: no bound", name)
		}
	}
}

func TestProjectDefault(t *testing.T) {
	if _, err := Decode("f.toml", []byte(`default = "allow"`), LayerProject); err == nil || !strings.Contains(err.Error(), "1:11: a project's file may only tighten") {
		t.Errorf("%v", err)
	}
	f := file(t, "f.toml", "[[rule]]\naction = \"allow\"\ncommand = \"make *\"\n", LayerProject)
	if got := f.Ignored(); len(got) != 1 || got[0].Line != 1 {
		t.Errorf("ignored %+v", got)
	}
	if v := decide(CompileAlone(f), bash("make install")).Verdict; v != ask.Prompt {
		t.Errorf("a project's file allows: %s", v)
	}
}

func TestNearest(t *testing.T) {
	for s, want := range map[string]string{"comand": "command", "acton": "action", "exept": "except", "pth": "path", "zzzz": "", "": ""} {
		if got := nearest(s, ruleKeys); got != want {
			t.Errorf("%q: %q", s, got)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, glob := range []string{"testdata/rules/good/*.toml", "testdata/rules/bad/*.toml"} {
		files, _ := filepath.Glob(glob)
		for _, n := range files {
			if data, err := os.ReadFile(n); err == nil {
				f.Add(data)
			}
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		start := time.Now()
		file, err := Decode("f.toml", data, LayerUser)
		if d := time.Since(start); d > 20*time.Second {
			t.Fatalf("%v for %d bytes", d, len(data))
		}
		var ps Problems
		if err != nil && (!errors.As(err, &ps) || len(ps) == 0) {
			t.Fatalf("error of another kind: %v", err)
		}
		if file == nil {
			t.Fatal("no file")
		}
		for i := range file.Links {
			if l := &file.Links[i]; len(l.Exec) == 0 || !filepath.IsAbs(l.Exec[0]) || l.Timeout() <= 0 || l.Timeout() > MaxLinkTimeout || !ask.ValidID(l.Name) {
				t.Fatalf("an authorizer that cannot be: %+v", l)
			}
		}
		out := Format(file.Default, file.Rules())
		again, err := Decode("f.toml", out, LayerUser)
		if err != nil {
			t.Fatalf("what was read cannot be written and read: %v\n%s", err, out)
		}
		if !reflect.DeepEqual(file.Rules(), again.Rules()) {
			t.Fatalf("changed by writing and reading:\n%s", out)
		}
	})
}
