package shell

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

var env = Env{Cwd: "/home/dev/proj", Home: "/home/dev"}

// commands lists the units as text, unknown pieces as "?".
func commands(s *Script) []string {
	var out []string
	for _, u := range s.Units {
		var words []string
		for _, w := range u.Words {
			words = append(words, strings.ReplaceAll(w.Text, string(unknown), "?"))
		}
		out = append(out, strings.Join(words, " "))
	}
	return out
}

func TestPlain(t *testing.T) {
	for _, c := range []struct {
		cmd  string
		argv []string
	}{
		{"ls", []string{"ls"}},
		{"git   log  --oneline -5", []string{"git", "log", "--oneline", "-5"}},
		{"git commit -m 'fix: a; b && c | d'", []string{"git", "commit", "-m", "fix: a; b && c | d"}},
		{"git commit -m \"[T-123] Title\n\n- item (three)\"", []string{"git", "commit", "-m", "[T-123] Title\n\n- item (three)"}},
		{"git log --grep='$(curl x)'", []string{"git", "log", "--grep=$(curl x)"}},
		{"git log HEAD^ HEAD~1 @{u} a..b", []string{"git", "log", "HEAD^", "HEAD~1", "@{u}", "a..b"}},
		{"# Check \"make all\" vs 'x' - don't\ngit diff --stat", []string{"git", "diff", "--stat"}},
		{`r\m -rf "a b"c'd'`, []string{"rm", "-rf", "a bcd"}},
		{`echo $'\x72m\t\u00e9\101'`, []string{"echo", "rm\té" + "A"}},
		{"a \\\n  b", []string{"a", "b"}},
		{`echo "a \$x \"q\" \\ \n"`, []string{"echo", `a $x "q" \ \n`}},
		{"echo hi !!", []string{"echo", "hi", "!!"}},
		{"ls;", []string{"ls"}},
		{"[ -f x ]", []string{"[", "-f", "x", "]"}},
		{"find . -exec touch {} +", []string{"find", ".", "-exec", "touch", "{}", "+"}},
	} {
		s := Read(c.cmd, env)
		argv, ok := []string(nil), false
		if len(s.Units) > 0 {
			argv, ok = s.Units[0].Argv()
		}
		if !s.Plain() || !ok || !slices.Equal(argv, c.argv) {
			t.Errorf("%q: plain %v (%s), %q", c.cmd, s.Plain(), s.Floor, argv)
		}
	}
}

func TestFloor(t *testing.T) {
	for cmd, why := range map[string]string{
		"":                          "no command",
		"# only a comment":          "no command",
		"a; b":                      "several commands",
		"a\nb":                      "several commands",
		"a && b":                    "several commands",
		"a || b":                    "several commands",
		"a | b":                     "a pipe",
		"a |& b":                    "a pipe",
		"a &":                       "a background command",
		"! a":                       "a negation",
		"(a)":                       "a subshell",
		"{ a; }":                    "a group of commands",
		"if a; then b; fi":          "a condition",
		"case x in a) b;; esac":     "a condition",
		"for x in a; do b; done":    "a loop",
		"while a; do b; done":       "a loop",
		"f() { a; }":                "a function",
		"export A=b":                "a declaration",
		"time a":                    "time",
		"coproc a":                  "a coprocess",
		"[[ -f x ]]":                "an arithmetic or test expression",
		"((1))":                     "an arithmetic or test expression",
		"a > b":                     "a redirection",
		"a 2>&1":                    "a redirection",
		"a <<X\nX":                  "a redirection",
		"A=1":                       "an assignment",
		"A=1 b":                     "an assignment",
		"a $(b)":                    "a command substitution",
		"a `b`":                     "a command substitution",
		"a <(b)":                    "a process substitution",
		"a $x":                      "a variable",
		"a \"$x\"":                  "a variable",
		"a ${x:-y}":                 "a variable",
		"a $((1))":                  "an arithmetic expansion",
		"a *.go":                    "a file name pattern",
		"a b?":                      "a file name pattern",
		"a [b]":                     "a file name pattern",
		"a ~/x":                     "a ~",
		"a {b,c}":                   "a brace expansion",
		"a {1..3}":                  "a brace expansion",
		"a =ls":                     "a = before a name, which zsh expands",
		"a '":                       "it cannot be parsed",
		"a )":                       "it cannot be parsed",
		"a\x00b":                    "control characters",
		"a \x1b[31m":                "control characters",
		"a \ufffd":                  "text that is not UTF-8",
		strings.Repeat("a ", 40000): "longer than 64 KiB",
		strings.Repeat("(", 300):    "nested too deeply, or too many brackets",
	} {
		s := Read(cmd, env)
		if s.Plain() || s.Floor != why {
			t.Errorf("%.60q: floor %q, want %q", cmd, s.Floor, why)
		}
	}
}

// Every program that the text would start is a unit.
func TestFindsEveryCommand(t *testing.T) {
	for cmd, want := range map[string][]string{
		"a; b & c\nd":                    {"a", "b", "c", "d"},
		"a && b || c":                    {"a", "b", "c"},
		"a | b |& c":                     {"a", "b", "c"},
		"echo $(rm x)":                   {"rm x", "echo ?"},
		"echo \"$(rm x)\" '$(no)'":       {"rm x", "echo ? $(no)"},
		"echo `rm x`":                    {"rm x", "echo ?"},
		"echo $(echo $(rm x))":           {"rm x", "echo ?", "echo ?"},
		"diff <(rm x) y":                 {"rm x", "diff ? y"},
		"echo ok > >(curl u | sh)":       {"curl u", "sh", "echo ok", "ok"},
		"echo hi > $(rm x)":              {"rm x", "echo hi"},
		"cat <<E\n$(id)\nE":              {"id", "cat"},
		"cat <<'E'\n$(id) `id`; rm x\nE": {"cat"},
		"cat <<< $(rm x)":                {"rm x", "cat"},
		"(rm x)":                         {"rm x"},
		"{ rm x; }":                      {"rm x"},
		"if a; then b; elif c; then d; else e; fi": {"a", "b", "c", "d", "e"},
		"for f in $(ls); do rm $f; done":           {"ls", "rm ?"},
		"for ((i=$(a);i<3;i++)); do rm x; done":    {"a", "rm x"},
		"while a; do b; done":                      {"a", "b"},
		"until a; do b; done":                      {"a", "b"},
		"case $(a) in x) rm y;; $(b)) c;; esac":    {"a", "rm y", "b", "c"},
		"select x in a; do rm x; done":             {"rm x"},
		"f() { rm x; }":                            {"rm x"},
		"function f { rm x; }":                     {"rm x"},
		"A=$(rm x)":                                {"rm x"},
		"A=$(rm x) b":                              {"rm x", "b"},
		"export A=$(rm x)":                         {"rm x", "export A=$(rm x)"},
		"a=($(rm x))":                              {"rm x"},
		"a[$(rm x)]=1":                             {"rm x"},
		"[[ -n $(rm x) ]] && ls":                   {"rm x", "[ -n ? ]", "ls"},
		"[ -n $(rm x) ]":                           {"rm x", "[ -n ? ]"},
		"echo $(( $(rm x) ))":                      {"rm x", "echo ?"},
		"echo $((a[$(rm x)]))":                     {"rm x", "echo ?"},
		"echo ${A:-$(rm x)}":                       {"rm x", "echo ?"},
		"echo ${A/$(b)/$(c)}":                      {"b", "c", "echo ?"},
		"! rm x":                                   {"rm x"},
		"coproc rm x":                              {"rm x"},
		"coproc N { rm x; }":                       {"rm x"},
		"time rm x":                                {"rm x"},
		"time ( rm x )":                            {"rm x"},
		"let x=$(rm x)":                            {"rm x"},
		"git commit -F - <<'M' 2>&1 | rm -rf x\nbody\nM": {"git commit -F -", "rm -rf x"},
		"C=rm; $C x":                             {"rm x"},
		"C='rm -rf'; $C x":                       {"rm -rf x"},
		"C=rm; C=ls; $C x":                       {"ls x"},
		"if a; then C=rm; else C=ls; fi; $C x":   {"a", "rm x", "ls x", "? x"},
		"for c in rm ls; do $c x; done":          {"rm x", "ls x"},
		"{rm,-rf,build}":                         {"rm -rf build"},
		"a{b,c}d":                                {"abd acd"},
		"cat \"$HOME/.ssh/id\" $PWD/x ${HOME}/y": {"cat /home/dev/.ssh/id /home/dev/proj/x /home/dev/y"},
		"HOME=/e; cat $HOME/x":                   {"cat /e/x"},
		"cat ~/x ~bob/y":                         {"cat /home/dev/x ~bob/y"},
		"echo \"unclosed; rm -rf build":          {"echo unclosed", "rm -rf build"},
		"if then; sudo rm x":                     {"sudo rm x", "rm x"},
		"\"$X\" a":                               {"? a"},
	} {
		got := commands(Read(cmd, env))
		if !slices.Equal(got, want) {
			t.Errorf("%q:\n got %q\nwant %q", cmd, got, want)
		}
	}
}

// Wrappers are read as they read themselves.
func TestWrappers(t *testing.T) {
	for cmd, want := range map[string]string{
		"sudo rm x":                              "rm x",
		"sudo -n -u root -- rm x":                "rm x",
		"sudo -nu root rm x":                     "rm x",
		"sudo -uroot A=1 rm x":                   "rm x",
		"sudo --user=root rm x":                  "rm x",
		"sudo --us root rm x":                    "rm x",
		"/usr/bin/sudo rm x":                     "rm x",
		"env rm x":                               "rm x",
		"env -i FOO=1 rm x":                      "rm x",
		"env -u A -C /etc rm x":                  "rm x",
		"env -S 'rm x'":                          "rm x",
		"env -S'rm' x":                           "rm x",
		"env --split-string='rm x'":              "rm x",
		"doas -nu root rm x":                     "rm x",
		"command rm x":                           "rm x",
		"command -p rm x":                        "rm x",
		"builtin rm x":                           "rm x",
		"exec rm x":                              "rm x",
		"exec -a n rm x":                         "rm x",
		"nohup rm x":                             "rm x",
		"nice rm x":                              "rm x",
		"nice -n 5 rm x":                         "rm x",
		"nice -5 rm x":                           "rm x",
		"ionice -c2 -n7 rm x":                    "rm x",
		"/usr/bin/time -v rm x":                  "rm x",
		"timeout 5 rm x":                         "rm x",
		"timeout -k 5 --signal=KILL 10 rm x":     "rm x",
		"stdbuf -oL rm x":                        "rm x",
		"setsid -f rm x":                         "rm x",
		"taskset -c 1 rm x":                      "rm x",
		"xargs rm":                               "rm",
		"xargs -n1 rm":                           "rm",
		"xargs -0r -I {} rm {}":                  "rm {}",
		"xargs -i rm {}":                         "rm {}",
		"xargs -I{} sh -c 'rm {}'":               "rm {}",
		"busybox rm x":                           "rm x",
		"busybox sh -c 'rm x'":                   "rm x",
		"noglob rm x":                            "rm x",
		"flock /tmp/l rm x":                      "rm x",
		"flock /tmp/l -c 'rm x'":                 "rm x",
		"find . -exec rm {} \\;":                 "rm {}",
		"find . -name x -execdir rm {} +":        "rm {}",
		"find . -ok rm {} \\; -exec ls {} \\;":   "rm {}",
		"fd x -x rm":                             "rm",
		"fdfind --exec-batch rm":                 "rm",
		"sh -c 'rm x'":                           "rm x",
		"/bin/bash -lc 'rm x'":                   "rm x",
		"bash -ec 'ls; rm x'":                    "rm x",
		"bash -o pipefail -c 'rm x'":             "rm x",
		"bash -c -e 'rm x'":                      "rm x",
		"bash --norc -c \"rm $f\"":               "rm ?",
		"zsh -fc 'rm x' zsh a":                   "rm x",
		"bash <<'E'\nrm x\nE":                    "rm x",
		"bash <<< 'rm x'":                        "rm x",
		"echo 'rm x' | sh":                       "rm x",
		"printf 'rm x' | sudo bash -s":           "rm x",
		"eval rm x":                              "rm x",
		"eval 'rm x'":                            "rm x",
		"eval \"rm $f\"":                         "rm ?",
		"eval eval rm x":                         "rm x",
		"trap 'rm x' EXIT":                       "rm x",
		"watch -n1 rm x":                         "rm x",
		"watch cat x \\; rm y":                   "rm y",
		"parallel rm ::: a":                      "rm",
		"parallel -j4 'ls; rm {}' ::: a":         "rm {}",
		"ssh -p 22 host rm x":                    "rm x",
		"ssh host 'ls; rm x'":                    "rm x",
		"ssh -o ProxyCommand='rm x' host":        "rm x",
		"docker exec -it web rm x":               "rm x",
		"docker exec web sh -c 'rm x'":           "rm x",
		"docker run --rm -v a:b img rm x":        "rm x",
		"docker compose run --rm web rm x":       "rm x",
		"kubectl exec -it pod -c c -- rm x":      "rm x",
		"su -c 'rm x'":                           "rm x",
		"su - root -c 'rm x'":                    "rm x",
		"script -c 'rm x' out":                   "rm x",
		"git -c alias.st='!rm x' st":             "rm x",
		"git submodule foreach 'rm x'":           "rm x",
		"git submodule foreach --recursive rm x": "rm x",
		"git bisect run rm x":                    "rm x",
		"git rebase -i --exec 'rm x' HEAD~2":     "rm x",
		"npx -y rm x":                            "rm x",
		"npx rm@5.1 x":                           "rm x",
		"npm exec -- rm x":                       "rm x",
		"pnpm dlx rm x":                          "rm x",
		"permd run -- rm x":                      "rm x",
		"permd acp --root /x -- rm x":            "rm x",
		"systemd-run --user -p A=b rm x":         "rm x",
		"strace -f -o out rm x":                  "rm x",
		"sudo env nice rm x":                     "rm x",
		"X=1 sudo rm x":                          "rm x",
		"sudo -Z rm x":                           "rm x", // not understood: suspected
		"sudo -Z val rm x":                       "rm x",
		"unshare -r --pid rm x":                  "rm x",
		"=rm x":                                  "=rm x",
	} {
		s := Read(cmd, env)
		if !slices.Contains(commands(s), want) {
			t.Errorf("%q: %q has no %q", cmd, commands(s), want)
		}
	}
}

// Text that is no command is no unit, however it reads.
func TestNotCommands(t *testing.T) {
	for _, cmd := range []string{
		"echo 'a && rm x'",
		"echo \"; rm x\"",
		"grep -rn 'rm x' src",
		"# rm x",
		"ls # rm x",
		"cat <<'E'\nrm x\nE",
		"cat <<E\nrm x; rm y\nE",
		"git commit -m 'rm x'",
		"command -v rm",
		"sudo -l rm",
		"sudo grep rm x",
		"xargs grep rm",
		"find . -name rm",
		"env A=rm ls",
		"timeout rm ls",
		"bash rm.sh",
		"bash ./rm x",
		"trap - EXIT",
		"git log rm",
		"ssh host",
		"docker ps rm",
		"echo a > rm",
		"A=rm",
		"[ rm = x ]",
		"[[ rm == x ]]",
	} {
		for _, u := range Read(cmd, env).Units {
			if n := u.Name(); n == "rm" {
				t.Errorf("%q: a unit %q", cmd, commands(&Script{Units: []Unit{u}}))
			}
		}
	}
}

func TestDirectories(t *testing.T) {
	for _, c := range []struct {
		cmd, dir string
		lost     bool
	}{
		{"x", "/home/dev/proj", false},
		{"cd a && x", "/home/dev/proj/a", false},
		{"cd a; cd ../b; x", "/home/dev/proj/b", false},
		{"cd /etc && x", "/etc", false},
		{"cd && x", "/home/dev", false},
		{"cd ~ && x", "/home/dev", false},
		{"cd ~/p && x", "/home/dev/p", false},
		{"cd \"$HOME/p\" && x", "/home/dev/p", false},
		{"cd \"$D\" && x", "/home/dev/proj", true},
		{"cd - && x", "/home/dev/proj", true},
		{"cd \"$D\" && cd /abs && x", "/abs", false},
		{"cd \"$D\"; cd /abs; x", "/abs", true},
		{"(cd a) && x", "/home/dev/proj", false},
		{"cd a | x", "/home/dev/proj", false},
		{"cd a & x", "/home/dev/proj", false},
		{"{ cd a; } && x", "/home/dev/proj/a", false},
		{"if y; then cd \"$D\"; fi; x", "/home/dev/proj", true},
		{"while y; do cd a; x; done", "/home/dev/proj/a", true},
		{"cd a || y; x", "/home/dev/proj/a", false},
		{"pushd a && x", "/home/dev/proj/a", false},
		{"popd; x", "/home/dev/proj", true},
		{"env -C /etc x", "/etc", false},
		{"env --chdir=sub x", "/home/dev/proj/sub", false},
		{"sudo -D /srv x", "/srv", false},
		{"f() { x; }; f", "/home/dev/proj", false},
		{"f() { x; }; cd a && f", "/home/dev/proj", true},
		{"f() { x; }; cd a && eval f", "/home/dev/proj", true},
		{"if y; then f() { x; }; fi; cd a && f", "/home/dev/proj", true},
	} {
		s := Read(c.cmd, env)
		i := slices.IndexFunc(s.Units, func(u Unit) bool { return u.Name() == "x" })
		if i < 0 {
			t.Errorf("%q: no x in %q", c.cmd, commands(s))
			continue
		}
		if u := s.Units[i]; u.Dir != c.dir || u.Lost != c.lost {
			t.Errorf("%q: in %s lost %v, want %s %v", c.cmd, u.Dir, u.Lost, c.dir, c.lost)
		}
	}
	if u := Read("git -C sub status", env).Units[0]; u.Dir != "/home/dev/proj/sub" {
		t.Errorf("git -C: %s", u.Dir)
	}
}

func TestRedirectionsAndAssignments(t *testing.T) {
	s := Read("cd sub && A=1 B=$C x > out.txt 2>> ~/log <in 2>&1 >&- 3<>f &>g; export D=2; env E=3 y; unset F; G=4", env)
	var got []string
	for _, r := range s.Redirs {
		got = append(got, fmt.Sprintf("%v %s in %s", r.Write, r.Target.Text, r.Dir))
	}
	want := []string{"true out.txt in /home/dev/proj/sub", "true /home/dev/log in /home/dev/proj/sub", "false in in /home/dev/proj/sub",
		"true f in /home/dev/proj/sub", "true g in /home/dev/proj/sub"}
	if !slices.Equal(got, want) {
		t.Errorf("redirections %q", got)
	}
	got = nil
	for _, a := range s.Assigns {
		name := ""
		if a.Unit >= 0 {
			name = s.Units[a.Unit].Name()
		}
		got = append(got, a.Name+"="+strings.ReplaceAll(a.Value.Text, string(unknown), "?")+" "+name)
	}
	if want := []string{"A=1 x", "B=? x", "D=2 ", "E=3 env", "G=4 "}; !slices.Equal(got, want) {
		t.Errorf("assignments %q", got)
	}
}

func TestWhoStartsWhom(t *testing.T) {
	s := Read("sudo sh -c 'a; ssh h rm x' | xargs ls", env)
	for _, u := range s.Units {
		switch u.Name() {
		case "rm":
			if !u.Remote || u.Via != "ssh" || s.Units[u.Outer].Name() != "ssh" {
				t.Errorf("rm: %+v", u)
			}
		case "a":
			if u.Remote || u.Via != "sh" {
				t.Errorf("a: %+v", u)
			}
		case "sh":
			if u.Via != "sudo" || u.Inner != "" {
				t.Errorf("sh: %+v", u)
			}
		case "ls":
			if !u.More || u.Via != "xargs" {
				t.Errorf("ls: %+v", u)
			}
		}
	}
	if s := Read("bash -lc 'a; b'", env); !s.Plain() || s.Units[0].Inner != "" || !s.Units[0].Passes {
		t.Errorf("a plain command that hands text on: floor %q, inner %q", s.Floor, s.Units[0].Inner)
	}
	if s := Read("bash -lc 'a; $b'", env); s.Doubt != "" || s.Units[1].Doubt != "" || s.Units[2].Doubt == "" {
		t.Errorf("text that is not understood: %+v", s)
	}
	if s := Read("sudo -Z rm x", env); !s.Units[1].Guess {
		t.Error("behind an unknown option, and no guess")
	}
}

// No text of 64 KiB may stall a node.
func TestHostileText(t *testing.T) {
	fill := func(s string) string { return strings.Repeat(s, MaxBytes/len(s)) }
	for name, cmd := range map[string]string{
		"long":            strings.Repeat("x", MaxBytes+1),
		"parens":          fill("("),
		"substitutions":   fill("$("),
		"hidden depth":    fill("( ')' "),
		"hidden depth 2":  "# '\n" + fill("( '' )'"),
		"in double":       fill("\"$("),
		"arithmetic":      fill("$(("),
		"unary":           "((" + fill("-"),
		"ternary":         "((" + fill("1?"),
		"subscripts":      fill("${a["),
		"ifs":             fill("if "),
		"whiles":          fill("while "),
		"bangs":           fill("! "),
		"functions":       fill("f()"),
		"chain":           fill("a&&") + "a",
		"pipes":           fill("a|") + "a",
		"eval":            fill("eval ") + "rm x",
		"sudo":            fill("sudo ") + "rm x",
		"unknown options": fill("sudo -Z ") + "rm x",
		"find":            fill("find . -exec "),
		"ssh":             fill("ssh h "),
		"watch":           fill("watch "),
		"parallel":        fill("parallel "),
		"variables":       "C=1;" + fill("C=rm;$C x;"),
		"braces":          fill("{a,b}"),
		"quotes":          fill("'a'\"b\""),
		"here-documents":  fill("<<a "),
		"unclosed":        "'" + fill("rm x;"),
	} {
		start := time.Now()
		s := Read(cmd, env)
		if s.Plain() && name != "quotes" && name != "sudo" && name != "unknown options" && name != "find" && name != "watch" && name != "parallel" && name != "ssh" && name != "eval" {
			t.Errorf("%s is plain", name)
		}
		if d := time.Since(start); d > 10*time.Second {
			t.Errorf("%s: %v", name, d)
		} else if d > 50*time.Millisecond {
			t.Logf("%s: %v, %d units", name, d, len(s.Units))
		}
		switch name {
		case "eval", "sudo", "unknown options":
			if !slices.ContainsFunc(s.Units, func(u Unit) bool { return u.Name() == "rm" }) {
				t.Errorf("%s: rm is not seen", name)
			}
		}
	}
}

// Commands read without the parser are what the parser says they are.
func FuzzPlain(f *testing.F) {
	for _, s := range []string{"git status", " a  b ", "git commit -m 'a; b' \"c\"", "a=b c", "time a", "a 'b'c", "a =b", "a\\ b", "export a", "a ''", "cd x", "'a' b", "a --b=c", "function", "sudo rm x", "a \"b\"", "let x=1", "repeat 3 ls", "noglob ls *",
		"a | b | c 2>&1", "cd x && a; b", "cd x || exit; a", "a && b || c && d", "a > /dev/null 2>&1 | b", "a;b;", "a; ", "a | ", "a && && b", "a;; b", "cd a | b; c", "a 2>&1 x", "| a", "a &", "a |& b", "a || b | c && d"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, cmd string) {
		if Check(cmd) != nil {
			t.Skip()
		}
		comparePlain(t, cmd)
	})
}

// comparePlain reports whether cmd was read without the parser, and fails when
// the parser says something else.
func comparePlain(t *testing.T, cmd string) bool {
	var r Reader
	r.walker = walker{reader: &r, script: &r.script, env: env, budget: maxScripts}
	c := context{dir: env.Cwd, outer: -1}
	if !r.walker.plain(cmd, &c) {
		return false
	}
	file, err := parse(cmd)
	if err != nil {
		t.Fatalf("%q: read without the parser, which refuses it", cmd)
	}
	var q Reader
	q.walker = walker{reader: &q, script: &q.script, env: env, budget: maxScripts, src: cmd}
	d := context{dir: env.Cwd, outer: -1}
	q.walker.stmts(file.Stmts, &d)
	if len(file.Stmts) > 1 {
		q.walker.floor("several commands")
	}
	if got, want := fmt.Sprintf("%+v", &r.script), fmt.Sprintf("%+v", &q.script); got != want {
		t.Fatalf("%q:\n%s\nthe parser says\n%s", cmd, got, want)
	}
	return true
}

func TestPlainIsWhatTheParserSays(t *testing.T) {
	tokens := []string{"a", "b", "cd", "x", "..", "exit", "1", "-la", "'q r'", "\"s;t\"", "sudo", "timeout", "5", "sh", "-c", "'ls | head'", "xargs", "set", "-e", "read", "n", "popd", "echo", "git", "-C", "if",
		"|", "||", "&&", ";", ";", "|", "&&", "2>&1", ">/dev/null", "2>/dev/null", "> /dev/null", "env", "A=1", "find", ".", "-exec", "eval", "command", "bash"}
	r := rand.New(rand.NewPCG(1, 2))
	plain := 0
	for range 40000 {
		var b strings.Builder
		for range 1 + r.IntN(12) {
			b.WriteString(tokens[r.IntN(len(tokens))])
			if r.IntN(9) > 0 {
				b.WriteByte(' ')
			}
		}
		if comparePlain(t, b.String()) {
			plain++
		}
	}
	if plain < 4000 {
		t.Errorf("%d of 40000 were read without the parser", plain)
	}
}

func FuzzRead(f *testing.F) {
	for _, s := range []string{
		"a; b", "sudo -u x sh -c 'rm \"$y\"' | xargs -I{} z {}", "cat <<E\n$(id)\nE", "f() { a; }; f", "echo $'\\x41\\u00e9'", "eval \"a $b\"",
		"for f in {a,b}; do $f; done", "find . -exec a {} +", "git -c alias.x='!y' x", "((a[$(b)]))", "ssh -o ProxyCommand=x h y", "case x in a) b;; esac", "'",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, cmd string) {
		start := time.Now()
		s := Read(cmd, env)
		if d := time.Since(start); d > 20*time.Second {
			t.Fatalf("%v for %d bytes", d, len(cmd))
		}
		if s.Plain() {
			argv, ok := s.Units[0].Argv()
			if !ok || len(argv) == 0 {
				t.Fatalf("plain, and not literal: %+v", s.Units[0])
			}
			if Check(cmd) != nil {
				t.Fatal("plain, and refused before parsing")
			}
		}
		if s.Floor == "" && len(s.Units) == 0 {
			t.Fatal("neither understood nor not")
		}
		for i, u := range s.Units {
			if len(u.Words) == 0 || u.Outer >= i {
				t.Fatalf("unit %d: %+v", i, u)
			}
		}
		Redact(cmd)
	})
}

func BenchmarkRead(b *testing.B) {
	for _, cmd := range []string{"git status --short", "cd packages/core && go test ./... 2>&1 | grep -v ok | tail -20"} {
		b.Run(strings.Fields(cmd)[0], func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				Read(cmd, env)
			}
		})
		b.Run(strings.Fields(cmd)[0]+"-parse-alone", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := parse(cmd); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
