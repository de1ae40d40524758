package policy

import (
	"strings"
	"testing"

	"permd/ask"
	"permd/policy/paths"
)

// What an ordinary session does all day does not ask.
func TestBaselineAllows(t *testing.T) {
	p := Compile()
	for _, cmd := range []string{
		"ls", "ls -la", "ls -la --color=auto src docs", "pwd", "cat go.mod", "cat -n a.go b.go", "head -20 a.go", "head -n 5 a.go", "tail -n +10 a.go",
		"tail -5 a.go", "wc -l a.go", "grep foo a.go", "grep -rn 'git clean -f' src", "grep -rniE --include='*.go' foo .", "grep -A 3 -B2 foo a.go",
		"rg -n foo", "rg --files -g '*.go'", "rg -t go 'a|b' src", "git status", "git status --short --branch", "git status --porcelain=v1", "git log --oneline -10",
		"git log --format='%h %s' -n 5 -- a.go", "git log HEAD..origin/master", "git diff", "git diff --stat HEAD~1", "git diff --cached -- src/a.go",
		"git show HEAD", "git show HEAD:a.go", "git show --stat abc123", "git branch", "git branch -a", "git branch --show-current", "git remote -v",
		"git rev-parse --show-toplevel", "git rev-parse --abbrev-ref HEAD", "git ls-files src", "git blame -L 1,5 a.go", "git stash list", "git tag -l 'v*'",
		"git -C sub status", "git --no-pager log -3", "git grep -n foo", "which go", "which -a python3", "type ls", "command -v go", "echo hello", "echo 'a; b'", "echo -n x",
		"printf '%s' x", "date", "date -u +%Y", "date -d 'tomorrow' +%F", "whoami", "uname -a", "id -u", "basename a/b", "dirname a/b", "realpath a", "stat a.go",
		"stat -c %s a.go", "file a.go", "du -sh .", "df -h", "tree -L 2", "find . -name '*.go'", "find src -type f -maxdepth 2", "find . \\( -name a -o -name b \\) -print",
		"sort a.txt", "sort -u -k2,2 a.txt", "uniq -c a.txt", "cut -d: -f1 a.txt", "diff a b", "diff -u a.go b.go", "diff -q a b", "cmp a b", "md5sum a", "sha256sum a b",
		"sed -n '860,915p' src/api/types.ts", "sed -n 5p a", "jq . a.json", "jq -r '.a[]' a.json", "cd src", "test -f go.mod", "[ -d src ]", "true", ":", "sleep 1", "seq 3",
		"go version", "node --version", "python3 -V", "npm -v", "git --version", "nl a", "od -c a", "xxd a", "strings a", "/bin/ls", "/usr/bin/git status",
		"permd status", "permd status --short", "permd asks --json", "permd sessions", "permd doctor", "permd review tail", "permd policy explain x", "permd policy check", "permd version", "permd --help", "permd ask x",
		"# a comment\ngit diff --stat", "cat " + proj + "/a.go", "ls ./src/../docs", "cat .env.example", "cat id_rsa.pub", "ls .env",
		// composition
		"ls | head", "ls; ls", "ls && ls", "ls 2>&1", "! ls", "(ls)", "{ ls; }", "ls &", "ls & wait", "command ls", "bash -c ls", "bash -lc 'ls -la | head -5'", "/bin/zsh -lc 'git status'", "time ls", "timeout 5 ls",
		"timeout -k 5 60 nice -n 5 ls", "env ls", "env NO_COLOR=1 ls", "nohup ls", "stdbuf -oL ls", "TZ=UTC date +%F", "LC_ALL=C sort a.txt | uniq -c | sort -rn | head -20", "CI=1 git status",
		"cd src && ls", "cd src; ls", "cd src && git status && cd ..", "cd src || exit 1; ls ..", "(cd src && ls ..)", "{ cd src; } && cat ../go.mod", "cd src && cat ../go.mod", "set -euo pipefail; ls", "ls 2>/dev/null", "ls >/dev/null 2>&1 || echo none",
		"cat < go.mod", "cat <<'E'\n$(x) `y`; rm z\nE", "cat <<E\ntext $HOME $(pwd)\nE", "grep foo <<< \"$(git log)\"", "wc -l < go.mod", "sort < a.txt | uniq",
		"for f in a.go b.go; do echo \"$f\"; wc -l \"$f\"; done", "for f in a b; do head -1 $f; done", "for i in 1 2 3; do echo $i; sleep 1; done", "for i in {1..3}; do echo $i; done", "for i in $(seq 3); do echo $i; done",
		"for ((i=0;i<3;i++)); do echo $i; done", "i=0; while [ $i -lt 3 ]; do echo $i; i=$((i+1)); done", "while read -r line; do echo \"$line\"; done < go.mod", "git log --oneline | while read -r sha rest; do echo \"$sha\"; done",
		"if [ -f go.mod ]; then cat go.mod; else echo no; fi", "if git diff --quiet; then echo clean; fi", "[ -f go.mod ] && echo yes || echo no", "[[ -f go.mod && -d src ]] && ls src", "case $(uname) in Linux) ls;; *) pwd;; esac",
		"ls; echo \"exit: $?\"", "ls | head; echo ${PIPESTATUS[0]}", "echo \"$(date)\"", "echo $(date) $((1+2))", "echo \"$HOME $PWD $USER\"", "f=go.mod; cat \"$f\"; wc -l $f", "out=$(git status --short); echo \"$out\"", "n=$(wc -l < go.mod); echo \"$n lines\"",
		"x=$(pwd); [ -n \"$x\" ] && echo yes", "name=a.go; echo \"${name%.go}\" \"${name##*/}\"", "cat \"$PWD/go.mod\"", "cat " + proj + "/{a,b}.go", "ls src/{a,b}", "diff <(sort a.txt) <(sort b.txt)", "f() { git status; }; f", "f() { echo hi; }; f; f",
		"git log -1 --format=%H | cut -c1-8", "git status; git diff --stat; git log --oneline -3", "# note\nls # another\n\npwd", "ls \\\n  -la \\\n  | head", "eval 'ls -la'", "export NO_COLOR=1; ls", "export LANG=C && git status", "true && { ls; pwd; } | head -3",
		"git diff | grep -c '^+' || true", "find . -name '*.go' | head -5 | sort", "rg -n foo src | head -20; echo done", "echo a; echo b & wait",
	} {
		if r := decide(p, bash(cmd)); r.Verdict != ask.Allow {
			t.Errorf("%q: %s, %s", cmd, r.Verdict, r.Reason)
		}
	}
	for _, name := range []string{"a.go", "src/deep/b.go", proj, ".", ".gitignore", ".env.example", "docs/.env.sample"} {
		if r := decide(p, onFile(ask.ToolRead, name)); r.Verdict != ask.Allow {
			t.Errorf("read %q: %s, %s", name, r.Verdict, r.Reason)
		}
	}
	for _, tool := range []string{"TodoWrite", "AskUserQuestion", "ExitPlanMode", "TaskOutput"} {
		if r := decide(p, action(ask.ToolOther, tool)); r.Verdict != ask.Allow {
			t.Errorf("%s: %s, %s", tool, r.Verdict, r.Reason)
		}
	}
	task := action(ask.ToolTask, "Task")
	task.Agent = "general-purpose"
	if r := decide(p, task); r.Verdict != ask.Allow {
		t.Errorf("a subagent in its client: %s, %s", r.Verdict, r.Reason)
	}
}

// What reads nothing but the project is no more than that: everything else
// asks, and nothing is denied.
func TestBaselineAsks(t *testing.T) {
	p := Compile()
	for _, cmd := range []string{
		"cat /etc/passwd", "ls /", "ls ..", "cat ../x", "cat " + home + "/.ssh/config", "cat ~/x", "cat $HOME/x", "cat /proc/self/environ", "cat /proc/self/cwd/a.go x/../../..",
		"cat .env", "cat web/.env.local", "head -5 secrets.yaml", "cat id_rsa", "cat certs/server.pem", "git show HEAD:.env", "git show :0:.env", "grep x .env", "strings key.p12",
		"rm x", "mv a b", "cp a b", "touch x", "mkdir x", "go test ./...", "go build", "npm test", "make", "python3 x.py", "curl x", "git commit -m x", "git push", "git checkout x",
		"git branch new", "git branch -D x", "git remote set-url origin x", "git stash", "git tag v1", "git config user.name x", "git diff --output=x", "git log --output=x", "git diff --ext-diff",
		"git diff --no-index a b", "git -c a.b=c status", "git --git-dir=/x status", "git -C /etc status", "git grep -O x", "git reflog expire",
		"sort -o x a", "sort -uo x a", "sort --output=x a", "sort --compress-program=x a", "sort -T /x a", "uniq a b", "sed -i s/a/b/ a", "sed -n 'w x' a", "sed -n '1e x' a",
		"find . -delete", "find -L . -name x", "find . -follow", "grep -R x src", "grep --dereference-recursive x .", "rg -L x", "rg --follow x", "diff -r a b", "tree -l", "find . -exec x {} +", "find . -fprint x", "find / -name x", "rg --pre x y", "rg -z x", "rg --hostname-bin x y", "tree -o x", "tree -R -L 2", "date -s x", "date 010100002030", "hostname x", "xxd a b",
		"file -C -m x", "jq env", "jq 'input_filename, env.X' a", "jq --rawfile a b c", "env", "printenv", "tee x", "xargs ls", "sudo ls", "bash -c 'ls /'", "time ls /", "timeout 5 ls /",
		"ls | tee x", "ls; rm x", "ls && ls /", "ls > x", "ls < /etc/passwd", "ls ../*.go", "ls $(pwd)", "PATH=. ls", "PAGER=x git log", "! ls /", "(rm x)", "make &", "./ls",
		"cd /; ls", "cd .. && ls", "cd sub; ls ..", "bash", "echo ls | bash", "bash <<< ls", "curl x | sh", "ls $x", "echo $SECRET", "echo \"${X:-$Y}\"", "echo ${PATH:=x}", "echo $((x[1]))",
		"for PATH in x; do ls; done", "PATH=x", "export PATH=x; ls", "f() { rm x; }; f", "cd() { ls; }; cd x", "alias ls=rm; ls", "eval \"$x\"", "source x; ls", "trap 'rm x' EXIT", "exec 3> x",
		"while read PATH; do ls; done", "printf -vPATH x", "read IFS", "[[ -v a[0] ]]", "[ -v x ]", "[[ $x -eq 1 ]]", "coproc ls", "ls > /dev/tcp/h/80", "cat $(ls)", "cat \"$(git ls-files)\"",
		"head -n \"$(cat n)\" a", "for f in *.env; do cat $f; done", "x=.env; cat $x", "x=a; if ls; then x=.env; fi; cat $x", "while ls; do cat $x; x=.env; done", "find . | xargs cat", "/tmp/ls", "bin/git status",
		"command rm x", "type -x", "which --x", "printf -v x y", "ls --unknown", "node -e x", "node a.js", "go env", "go list", "date -f x", "cat --unknown a",
		"\\ls", "", "# only a comment",
	} {
		if cmd == `\ls` { // the shell removes the backslash: it is ls
			continue
		}
		if r := decide(p, bash(cmd)); r.Verdict != ask.Prompt || r.Reason == "" {
			t.Errorf("%q: %s, %q", cmd, r.Verdict, r.Reason)
		}
	}
	for _, a := range []*ask.Action{
		onFile(ask.ToolRead, "/etc/hosts"), onFile(ask.ToolRead, ".env"), onFile(ask.ToolRead, "../x"), onFile(ask.ToolRead, "a.go", "/etc/hosts"), onFile(ask.ToolRead, "/proc/self/fd/3"),
		onFile(ask.ToolRead, proj+"-secrets/key"), onFile(ask.ToolRead, "~/x"), onFile(ask.ToolRead), onFile(ask.ToolWrite, "a.go"), onFile(ask.ToolEdit, "a.go"),
		fetch("https://example.org/"), fetch("file:///home/dev/proj/a"), mcp("x", "y"), action(ask.ToolWebSearch, "WebSearch"), action(ask.ToolOther, "SlashCommand"), action(ask.ToolOther, "Unknown"),
	} {
		if r := decide(p, a); r.Verdict != ask.Prompt || r.Reason == "" {
			t.Errorf("%s %+v %s: %s, %q", a.Tool, a.Paths, a.URL, r.Verdict, r.Reason)
		}
	}
	codex := action(ask.ToolOther, "TodoWrite")
	codex.Client = "codex"
	if r := decide(p, codex); r.Verdict != ask.Prompt {
		t.Errorf("a tool of the same name of another client: %s", r.Verdict)
	}
}

func TestNoProjectNothingInside(t *testing.T) {
	p := Compile()
	for _, project := range []string{"", home, "/home", "/"} {
		a := bash("cat a.go")
		a.Project = project
		a.Cwd = home + "/x"
		if r := decide(p, a); r.Verdict != ask.Prompt {
			t.Errorf("project %q: %s", project, r.Verdict)
		}
		b := bash("date")
		b.Project = project
		if r := decide(p, b); r.Verdict != ask.Allow {
			t.Errorf("project %q: date: %s", project, r.Verdict)
		}
	}
}

func TestLinksOutOfTheProject(t *testing.T) {
	in := input(Compile(), bash("cat out/x"))
	in.View = paths.Fixed{Links: map[string]string{proj + "/out": "/srv", proj + "/note": proj + "/.env"}}
	if r := Decide(in); r.Verdict != ask.Prompt {
		t.Errorf("through a link out: %s", r.Verdict)
	}
	in.Action = bash("cat note")
	if r := Decide(in); r.Verdict != ask.Prompt {
		t.Errorf("a link to a secret: %s", r.Verdict)
	}
	in.View = nil
	in.Action = bash("cat a.go")
	if r := Decide(in); r.Verdict != ask.Prompt {
		t.Errorf("without a file system: %s", r.Verdict)
	}
}

func TestSearchThroughATree(t *testing.T) {
	view := paths.Fixed{Files: []string{proj + "/src/a.go", proj + "/.env", proj + "/web/deep/.env.local", proj + "/lib/b.go"}}
	deny := Compile(file(t, "p", "[[rule]]\naction = \"deny\"\ntool = \"read\"\npath = \"**/*.go\"\n", LayerUser))
	for _, c := range []struct {
		policy *Policy
		cmd    string
		want   ask.Verdict
	}{
		{Compile(), "grep -rn x src", ask.Allow},
		{Compile(), "grep -rn x .", ask.Prompt},
		{Compile(), "grep -rn x web", ask.Prompt},
		{Compile(), "rg x", ask.Allow}, // hidden files are left out
		{Compile(), "rg --hidden x", ask.Prompt},
		{Compile(), "ls -R .", ask.Allow}, // names only
		{deny, "grep -rn x src", ask.Prompt},
		{deny, "rg x lib", ask.Prompt},
		{deny, "grep -rn x web", ask.Prompt},
	} {
		in := input(c.policy, bash(c.cmd))
		in.View = view
		if r := Decide(in); r.Verdict != c.want {
			t.Errorf("%q: %s, want %s: %s", c.cmd, r.Verdict, c.want, r.Reason)
		}
	}
	grep := onFile(ask.ToolRead, ".")
	grep.ClientTool = "Grep"
	in := input(Compile(), grep)
	in.View = view
	if r := Decide(in); r.Verdict != ask.Prompt {
		t.Errorf("Grep over a secret: %s", r.Verdict)
	}
	allowed := Compile(file(t, "p", "[[rule]]\naction = \"allow\"\ncommand = \"grep *\"\n[[rule]]\naction = \"deny\"\ntool = \"read\"\npath = \"**/.env\"\n", LayerUser))
	in = input(allowed, bash("grep -rn x ."))
	in.View = view
	if r := Decide(in); r.Verdict != ask.Prompt {
		t.Errorf("a search allowed by its name reads what is denied: %s", r.Verdict)
	}
}

func TestTooLargeATree(t *testing.T) {
	view := paths.Fixed{}
	for i := range deepBudget + 10 {
		view.Files = append(view.Files, proj+"/big/"+strings.Repeat("x", 1+i%7)+string(rune('a'+i%26))+strings.Repeat("y", i/26))
	}
	in := input(Compile(), bash("grep -rn x big"))
	in.View = view
	if r := Decide(in); r.Verdict != ask.Allow {
		t.Errorf("without rules: %s, %s", r.Verdict, r.Reason)
	}
	in.Policy = Compile(file(t, "p", "[[rule]]\naction = \"deny\"\ntool = \"read\"\npath = \"**/zz\"\n", LayerUser))
	if r := Decide(in); r.Verdict != ask.Prompt {
		t.Errorf("with a rule that may be met: %s", r.Verdict)
	}
}

// Every flag of every reader is accepted alone, so that the tables say what
// they mean; and a made-up one never is.
func TestReaderTables(t *testing.T) {
	for name, d := range readers {
		if strings.ContainsAny(d.flags, d.values+d.files+d.glued) && d.values+d.files+d.glued != "" {
			t.Errorf("%s: an option is in two lists", name)
		}
		if d.words {
			continue
		}
		if r := decide(Compile(), bash(name+" --no-such-option")); r.Verdict == ask.Allow {
			t.Errorf("%s takes any option", name)
		}
	}
	for name, d := range gitReaders {
		if d.values+d.glued != "" && strings.ContainsAny(d.flags, d.values+d.glued) {
			t.Errorf("git %s: an option is in two lists", name)
		}
		if r := decide(Compile(), bash("git "+name+" --no-such-option")); r.Verdict == ask.Allow {
			t.Errorf("git %s takes any option", name)
		}
	}
}
