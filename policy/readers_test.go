package policy

import (
	"testing"

	"permd/ask"
)

func TestSedScripts(t *testing.T) {
	for _, s := range []string{
		"p", "5p", "5,9p", "1,+3p", "$p", "$!d", "/a/p", "/a/,/b/p", "/a/I,$d", "0~4p", "1~2!d", "s/a/b/", "s/a/b/g", "s/a/b/gI", "s/a/b/2p", "s|/usr|/opt|g", "s,a,b,;s:c:d:", "y/abc/xyz/", "1d;$d", "/^$/d", "/a/{p;q}",
		"/a/{s/b/c/\np\n}", ":a;N;$!ba;s/\\n/ /g", "q", "5q", "/a/q1", "=", "l 20", "a\\\ntext", "1i # head; w x", "$a the end", "s/w/e/", "s/a/w x/", "s/[[:space:]]*$//", "s/[^ab]//g", "s/\\/a/b/", "s/a\\/w x/b/", "# note\np", "n;d", "G", "1!G;h;$!d", "s/a/b/;t x;d;:x", "F", "P;D", "/x/c\\new",
	} {
		if !sedReads(s) {
			t.Errorf("%q only prints", s)
		}
	}
	for _, s := range []string{
		"w x", "1w x", "/a/w x", "s/a/b/w x", "s/a/b/gw x", "e", "1e rm x", "s/a/b/e", "s/a/rm x/ge", "r x", "R x", "W x", "p;w x", "p\nw x", "{w x}", "/a/{p;w x}", "$!w x", "1,2w x", "/a/,/b/e", "!w x", "s/[/]e x/b/", "s/[/]/w x", "y/a/b/e", "s/a/b", "s/a", "/a", "}", "{p",
		"v 4.2;k", "M", "s/a/b/pw x", ":a w x", "p}", "s/a/b/ w x", "s\na\nb\nw x", "1,w x", "p;;;e ls", "p#\nw x", "a\\\nx\nw x", "a x\\\\\nw y", "s/a/b/m;e", "sbabbbe", "s\\a\\b\\w x", "10,20 w x", "/\\/w x", "s/a/\\/;w x", "-", "1,5", "D x",
	} {
		if sedReads(s) {
			t.Errorf("%q does more than to print", s)
		}
	}
}

func TestAwkPrograms(t *testing.T) {
	for _, s := range []string{
		"1", "{print $1}", "{ print $1, $NF }", "NR==1", "NR>1", "$3 > 5", "$3 > 5 {print $1}", "NR>=5 && NR<=10", "/a|b/ {print}", "/a/,/b/", "!/x/", "$1 ~ /^a/ { n++ } END { print n }", "{s+=$1} END {print s/NR}", "{ if ($3 > 5) print }", "BEGIN{FS=\",\"} {print $2}",
		"{printf \"%s|%s\\n\", $1, $2}", "{print length($0)}", "{gsub(/a/,\"b\"); print}", "{print substr($0, 1, 5)}", "length > 80", "!seen[$0]++", "{a[$1]+=$2} END {for (k in a) print k, a[k]}", "{print \"a > b | c system(x)\"}", "/[0-9]+/", "/[[:space:]]/{print}", "# note\n{print}",
		"function f(x) { return x*2 } {print f($1)}", "{print toupper($0)}", "END{print NR/2}", "$1==\"x\"{f=1} f", "{print $(NF-1)}", "{print FILENAME\":\"FNR}", "BEGIN { OFS=\"\\t\" } { $1=$1; print }", "{ x = $1 / $2; print x }", "$2 ~ \"/usr\" {print}",
	} {
		if !awkReads(s) {
			t.Errorf("%q only prints", s)
		}
	}
	for _, s := range []string{
		"BEGIN{system(\"x\")}", "{print > \"x\"}", "{print>\"x\"}", "{print >> \"x\"}", "{print | \"sh\"}", "{print |& \"x\"}", "{\"x\" | getline}", "{getline < \"x\"}", "{print ENVIRON[\"X\"]}", "BEGIN{ARGV[1]=\"/etc/x\";ARGC=2}", "@load \"x\"", "@include \"x\"", "{@f(1)}", "{system (\"x\")}",
		"{print(1)>\"f\"}", "{print (1, 2) > \"f\"}", "{f(1)}", "{if (/}/) print \"x\" > \"f\"}", "/\"/ { system(\"x\") } /\"/", "{ print $/\"/ + system(\"x\") + /\"/ }", "{ x \\\n/ system(\"y\") /1 }", "{if (x) /\"/; system(\"y\"); /\"/}", "{ a++ /\"/; system(\"x\") /\"/ }", "PROCINFO[\"x\"]",
		"{print}}", "{print SYMTAB[\"x\"]}", "'", "`x`", "{close(\"x\")}", "{print \"a", "/a", "{ return /\"/; system(\"x\"); /\"/ }", "{switch (x) { case /\"/: system(\"x\"); case /\"/: } }", "/[/]/ { print > \"x\" }", "/[]/]/{system(1)}", "\\", "{printf(\"x\") | \"sh\"}",
	} {
		if awkReads(s) {
			t.Errorf("%q does more than to print", s)
		}
	}
}

// The everyday commands that only look.
func TestEverydayReaders(t *testing.T) {
	p := Compile()
	for _, cmd := range []string{
		"sed 's/a/b/' a.txt", "sed -E -e 's/a/b/' -e '/c/d' a.txt", "sed -n '/start/,/end/p' a.txt", "sed --quiet 5p a", "awk '{print $1}' a.txt", "awk -F, -v n=2 '$n > 3 {print}' a.csv", "jq --arg a b '.x == $a' a.json", "jq '.environment.import' a.json", "base64 a", "base64 -d a",
		"ps aux", "ps -ef", "ps -p 12 -o pid,args", "pgrep -fl node", "free -h", "lsof -i:8080 -P -n", "lsof -nP -i", "ss -tlnp", "netstat -an", "fd -e go", "fd 'x.*y' src", "git branch --contains abc", "git branch --list 'a*'", "git tag --contains HEAD", "git tag -n1", "git stash show -p", "git config --get user.name", "git config get core.editor",
		"git remote get-url origin", "git worktree list", "git submodule status", "git show-ref --heads", "git symbolic-ref --short HEAD", "git for-each-ref --sort=-committerdate refs/heads", "git -c color.ui=never log -1", "git -c core.pager=cat diff", "git diff -U5 a.go", "git log -L1,5:a.go", "git blame --color-lines a.go", "git count-objects -vH", "git reflog -5", "git reflog show HEAD",
		"gh pr view 12", "gh pr list --state open --limit 5 --json number,title", "gh pr diff 12", "gh pr checks 12", "gh issue view 3 --comments", "gh run view 1 --log-failed", "gh run list -L 5", "gh repo view", "gh auth status", "gh search issues x --jq '.[].title'", "docker ps -a", "docker ps --format '{{.Names}}'", "docker images -q", "docker logs --tail 50 web",
		"docker compose ps", "docker compose logs -n 5 web", "docker version", "npm ls", "npm ls --depth=0", "npm list -g --json", "set -e", "set -euo pipefail", "set +x", "set -o pipefail", "exit 1", "exit", "wait", "popd", "pushd src", "who", "cal", "locale", "lsblk", "test -f a.go", "[ -n x ]", "printf '%d' 5", "date +%s", "python3 --version", "ruby -v", "cargo -V", "uniq -c a", "man ls", "man 3 printf", "expr 1 + 2", "clear", "tput cols", "ip a", "ip -br link show", "node --check a.js", "help cd",
	} {
		if r := decide(p, bash(cmd)); r.Verdict != ask.Allow {
			t.Errorf("%q: %s: %s", cmd, r.Verdict, r.Reason)
		}
	}
}

// What is close to them and does more. Each of these was, or could have been,
// taken for a reader.
func TestNoReaders(t *testing.T) {
	p := Compile()
	for _, cmd := range []string{
		// a program, a file or a setting instead of a version
		"python3 -v", "python -v", "python3 -VV x", "node -v x", "go version x", "go env -w A=b", "cargo -v", "make -v x", "ruby -v x",
		// what a shell evaluates, quoted or not
		"test -v 'a[$(touch x)]'", "[ -v 'a[$(touch x)]' ]", "[ 'a[$(touch x)]' -eq 0 ]", "test 'a[`touch x`]' -gt 1", "printf -v 'a[$(touch x)]' y", "printf '%d' 'a[$(touch x)]'", "exit 'a[$(touch x)]'", "return 'x[$(y)]'", "break 'a[$(touch x)]'",
		// options whose value is optional: the next word is a file
		"od -w /etc/passwd", "od -w .env", "git diff -U .env", "git diff --unified .env", "git blame --color-lines .env", "git blame --abbrev .env", "lsof -i -D b x", "git log -L1,5:.env", "git show -L:main:.env",
		// options that take a value on one system only
		"sed -l 'w x' p", "sed -l 5 's/a/b/' x", "ps auxe", "ps eww", "ps -auxe", "ps -o pid,environ", "ps -E", "ss -K dst x", "ss -D x", "lsof -D b x", "fd -x rm", "fd . -X rm", "fd --exec rm", "fd -L x", "fd -l x",
		// scripts that do more
		"sed 'w x' a", "sed -n 's/a/b/w x' a", "sed -e p -e 'w x' a", "sed --expression='e' a", "sed -i.bak s/a/b/ a", "sed -ni s/a/b/ a", "sed -f x a", "sed -s -i p a", "awk 'BEGIN{system(\"x\")}'", "awk -f x a", "awk -i inplace 1 a", "awk -v x=1 '{print > \"y\"}' a", "gawk -o x 1 a", "gawk -E x", "mawk -W exec=x a", "gawk --profile=x 1 a",
		"jq '$ENV' a", "jq -n env", "jq 'import \"x\" as y; .' a", "jq -f x a", "jq -L x . a", "jq '[env]' a", "jq '.a | env.PATH' a",
		// git's other halves
		"git branch --list -D x", "git branch --contains HEAD -d x", "git branch -l new", "git branch -f a b", "git tag -d x", "git tag -f x", "git stash show -p --ext-diff", "git config --get http.extraheader", "git config --get credential.helper", "git config user.name x", "git config --list", "git config get --global http.proxy", "git config set core.editor x", "git config --get a.b c",
		"git submodule status --x", "git submodule update", "git symbolic-ref HEAD refs/heads/x", "git worktree add x", "git -c core.pager='sh -c x' diff", "git -c core.fsmonitor=x status", "git -c color.ui=x -c alias.y='!z' y", "git -c diff.external=x diff", "git show-ref -d x --exclude-existing", "git notes add", "git bisect log x", "git ls-remote x", "git for-each-ref --shell-x",
		// the forge and the containers
		"gh pr view 12 --web", "gh pr view -w", "gh pr create", "gh pr merge 1", "gh api /user", "gh pr list --jq env", "gh pr list --jq '$ENV.GH_TOKEN'", "gh auth token", "gh auth status --show-token", "gh auth status -t", "gh run download 1", "gh run watch 1", "gh repo clone x", "gh secret list", "gh alias set x y", "gh pr checkout 1", "gh issue close 1", "gh extension exec x", "gh pr diff --web",
		"docker inspect web", "docker run x", "docker exec web ls", "docker compose config", "docker compose up", "docker ps --host=x", "docker -H x ps", "docker --context x ps", "docker cp a b", "docker system df", "docker image rm x", "docker volume rm x", "npm ls --prefix=x", "npm ls --userconfig x", "npm run ls", "npm list --script-shell x", "npm install", "npm exec ls",
		"set -a", "set -- x", "set -o vi", "set -m", "set", "set +o noclobber", "pushd", "pushd +1", "pushd -n x", "wait -p x", "uniq a b", "base64 -o x a", "base64 -i a", "man -P x ls", "man ./x", "man -H x", "ip link set x up", "ip addr add x dev y", "ip -batch x", "ip netns exec x ls", "ip route flush", "tput init x", "tput reset", "node a.js", "node --check a.js b.js", "node -r x --check a.js", "node -c /etc/x.js", "node -e 1 -v", "w -x", "lsblk x", "cal -x",
	} {
		if r := decide(p, bash(cmd)); r.Verdict == ask.Allow {
			t.Errorf("%q: %s by %+v", cmd, r.Verdict, r.Reasons)
		}
	}
}

// A person's own rule for a program covers what reads more, never what writes
// or runs.
func TestRulesForReaders(t *testing.T) {
	for _, c := range []struct {
		cmd  string
		want ask.Verdict
	}{
		{"grep -R x src", ask.Allow}, {"rg --follow x", ask.Allow}, {"rg -z x", ask.Allow}, {"diff -r a b", ask.Allow}, {"tree -l", ask.Allow}, {"fd -L x", ask.Allow}, {"sort -u -T x a", ask.Prompt}, {"jq env", ask.Allow}, {"sed '/a/{p;q}' x", ask.Allow}, {"awk 'function f(x) {return x} {print f($1)}' x", ask.Allow},
		{"find -L . -name x", ask.Allow}, {"sort -o x a", ask.Prompt}, {"sort --outp x a", ask.Prompt}, {"sort -uox a", ask.Prompt}, {"rg --pre x y", ask.Prompt}, {"rg --pre=x y", ask.Prompt}, {"tree -o x", ask.Prompt}, {"uniq a -- -b", ask.Prompt}, {"xxd -r a b", ask.Prompt}, {"file -C -m x", ask.Prompt}, {"date -s x", ask.Prompt},
		{"jq --rawfile a b .", ask.Prompt}, {"sed -i s/a/b/ x", ask.Prompt}, {"sed s/a/b/w\\ x y", ask.Prompt}, {"awk '{print > \"x\"}' y", ask.Prompt}, {"find . -fprint x", ask.Prompt}, {"fd . -x rm", ask.Prompt}, {"find . -delete", ask.Prompt},
		{"sudo -e x", ask.Prompt}, {"sudo -s", ask.Prompt}, {"sudo -nu root ls -i", ask.Allow}, {"sudo make CC=gcc", ask.Allow}, {"sudo PATH=x make", ask.Prompt}, {"env -i ls", ask.Allow}, {"env -S 'ls x'", ask.Prompt}, {"ssh -F x host", ask.Prompt}, {"ssh host ls -F", ask.Allow}, {"ssh -p 22 host ls -o x", ask.Allow},
	} {
		if r := protectedDecision(t, bash(c.cmd)); r.Verdict != c.want {
			t.Errorf("%q: %s, want %s: %s", c.cmd, r.Verdict, c.want, r.Reason)
		}
	}
}
