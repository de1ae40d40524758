package policy

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"permd/ask"
)

// deniedCommand is a command that a rule denies, as the words of the program
// and its arguments. Every text made from it would run it, were it run.
type deniedCommand struct {
	rule string
	argv []string
	// other are arguments that say the same in other words.
	other [][]string
}

// deniedCommands are what people most want to be kept from.
var deniedCommands = []deniedCommand{
	{"rm -rf *", []string{"rm", "-rf", "build"}, [][]string{{"-fr", "build"}, {"-r", "-f", "build"}, {"build", "-rf"}, {"--recursive", "--force", "build"}, {"-rvf", "build"}, {"--recurs", "--forc", "build"}, {"-r", "build", "-f"}}},
	{"git push --force*", []string{"git", "push", "--force", "origin", "main"}, [][]string{{"push", "origin", "main", "--force"}, {"-C", ".", "push", "--force"}, {"--no-pager", "push", "--force"}, {"push", "origin", "--force-with-lease"}, {"-c", "a.b=c", "push", "--force"}, {"--git-dir=.git", "push", "--force"}, {"-P", "push", "-q", "--force"}}},
	{"git reset --hard *", []string{"git", "reset", "--hard", "HEAD~3"}, [][]string{{"reset", "HEAD~3", "--hard"}, {"-C", ".", "reset", "-q", "--hard"}, {"reset", "--hard"}, {"reset", "--har", "HEAD"}}},
	{"git clean -f*", []string{"git", "clean", "-fdx"}, [][]string{{"clean", "-f"}, {"-C", "sub", "clean", "-fd"}, {"clean", "-fx", "-d"}}},
	{"curl *", []string{"curl", "-s", "https://files.example.net/x"}, [][]string{{"https://files.example.net/x", "-o", "y"}, {"--silent", "files.example.net"}}},
	{"wget *", []string{"wget", "-q", "https://files.example.net/x"}, nil},
	{"dd *", []string{"dd", "if=/dev/zero", "of=disk.img"}, [][]string{{"of=disk.img", "if=/dev/zero", "bs=1M"}}},
	{"chmod 777 *", []string{"chmod", "777", "run.sh"}, [][]string{{"-R", "777", "."}, {"--verbose", "777", "run.sh"}}},
	{"chown *", []string{"chown", "-R", "root", "."}, nil},
	{"shutdown *", []string{"shutdown", "-h", "now"}, [][]string{{"now"}}},
	{"mkfs*", []string{"mkfs.ext4", "/dev/sdz1"}, nil},
	{"kubectl delete *", []string{"kubectl", "delete", "pod", "web"}, [][]string{{"-n", "prod", "delete", "pod", "web"}, {"--context=prod", "delete", "ns", "x"}, {"delete", "--all", "pods"}}},
	{"terraform destroy *", []string{"terraform", "destroy", "-auto-approve"}, [][]string{{"-chdir=infra", "destroy"}, {"destroy"}}},
	{"npm publish", []string{"npm", "publish"}, nil},
	{"docker system prune *", []string{"docker", "system", "prune", "-af"}, [][]string{{"--context", "x", "system", "prune"}, {"system", "prune", "--all"}}},
	{"killall *", []string{"killall", "node"}, nil},
	{"nc *", []string{"nc", "-l", "4444"}, nil},
	{"psql *", []string{"psql", "-c", "drop table users"}, [][]string{{"--command=drop table users"}}},
	{"cargo publish *", []string{"cargo", "publish"}, [][]string{{"publish", "--allow-dirty"}, {"--offline", "publish"}}},
	{"truncate *", []string{"truncate", "-s", "0", "app.db"}, [][]string{{"--size=0", "app.db"}}},
}

// everythingBut allows what can be allowed and denies the commands above.
func everythingBut(t fataler) *Policy {
	text := everything
	for _, d := range deniedCommands {
		text += fmt.Sprintf("[[rule]]\naction = \"deny\"\ncommand = %q\n", d.rule)
	}
	return Compile(file(t, "policy.toml", text, LayerUser))
}

func single(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

func double(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, `$`, `\$`, "`", "\\`").Replace(s) + `"`
}

// plainly writes a word so that the shell gives it back.
func plainly(s string) string {
	if strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:=") == "" && s != "" {
		return s
	}
	return single(s)
}

// spellings write one word in a way that the shell undoes.
var spellings = []func(r *rand.Rand, s string) string{
	func(r *rand.Rand, s string) string { return plainly(s) },
	func(r *rand.Rand, s string) string { return single(s) },
	func(r *rand.Rand, s string) string { return double(s) },
	func(r *rand.Rand, s string) string { // a backslash before some letters
		var b strings.Builder
		for i, c := range s {
			if i > 0 && strings.ContainsRune("nt", c) || r.IntN(2) == 0 && c < 0x80 || strings.ContainsRune(" '\"$`&|;<>()*?[]~#", c) {
				b.WriteByte('\\')
			}
			b.WriteRune(c)
		}
		return b.String()
	},
	func(r *rand.Rand, s string) string { // an empty pair of quotes within
		i := r.IntN(len(s) + 1)
		return bits(s[:i]) + pick(r, []string{`''`, `""`, `''""`, `$''`}) + bits(s[i:])
	},
	func(r *rand.Rand, s string) string { // quoted in part
		i := r.IntN(len(s) + 1)
		return single(s[:i]) + double(s[i:])
	},
	func(r *rand.Rand, s string) string { // encoded
		var b strings.Builder
		b.WriteString("$'")
		for i := range len(s) {
			switch r.IntN(4) {
			case 0:
				fmt.Fprintf(&b, `\x%02x`, s[i])
			case 1:
				fmt.Fprintf(&b, `\%03o`, s[i])
			case 2:
				fmt.Fprintf(&b, `\u%04x`, s[i])
			default:
				if s[i] == '\'' || s[i] == '\\' {
					b.WriteByte('\\')
				}
				b.WriteByte(s[i])
			}
		}
		return b.String() + "'"
	},
	func(r *rand.Rand, s string) string { // a line continued
		i := r.IntN(len(s) + 1)
		return bits(s[:i]) + "\\\n" + bits(s[i:])
	},
}

func bits(s string) string {
	if s == "" {
		return ""
	}
	return plainly(s)
}

// programs write a program's name; what stands before a command is given too.
var programs = []func(r *rand.Rand, s string) (before, word string){
	func(r *rand.Rand, s string) (string, string) { return "", pick(r, spellings)(r, s) },
	func(r *rand.Rand, s string) (string, string) {
		return "", pick(r, spellings)(r, pick(r, []string{"/bin/", "/usr/bin/", "/usr/local/bin/", "//bin//", "/usr/../bin/", "/bin/./", "/usr/bin/../bin/", "/proc/self/root/bin/", "bin/", "./", "../x/"})+s)
	},
	func(r *rand.Rand, s string) (string, string) { return "", "\\" + s },
	func(r *rand.Rand, s string) (string, string) { return "", "$(echo " + s + ")" },
	func(r *rand.Rand, s string) (string, string) { return "", "`echo " + s + "`" },
	func(r *rand.Rand, s string) (string, string) { return "", "$(printf '%s' " + s + ")" },
	func(r *rand.Rand, s string) (string, string) { return "", "\"$(command -v " + s + ")\"" },
	func(r *rand.Rand, s string) (string, string) { return "", "${NONE:-" + s + "}" },
	func(r *rand.Rand, s string) (string, string) { return "", "{" + s + ",}" },
	func(r *rand.Rand, s string) (string, string) { return "C=" + s + "; ", "$C" },
	func(r *rand.Rand, s string) (string, string) { return "C=" + s + "\n", "${C}" },
	func(r *rand.Rand, s string) (string, string) { return "export C=" + s + "; ", "\"$C\"" },
	func(r *rand.Rand, s string) (string, string) {
		return "A=" + s[:1] + " B=" + s[1:] + "; ", "$A$B"
	},
	func(r *rand.Rand, s string) (string, string) { return "C=(" + s + "); ", "${C[0]}" },
	func(r *rand.Rand, s string) (string, string) { return "", "/bin/" + s[:1] + "*" + s[2:] },
	func(r *rand.Rand, s string) (string, string) { return "", "/?in/" + s },
	func(r *rand.Rand, s string) (string, string) { return "", "/bin/[" + s[:1] + "]" + s[1:] },
	func(r *rand.Rand, s string) (string, string) { return "", s[:1] + "$()" + s[1:] },
	func(r *rand.Rand, s string) (string, string) { return "", s[:1] + "${NONE}" + s[1:] },
	func(r *rand.Rand, s string) (string, string) { return "", s[:1] + "$@" + s[1:] },
	func(r *rand.Rand, s string) (string, string) { return "", s[:1] + "``" + s[1:] },
	func(r *rand.Rand, s string) (string, string) { return "read C <<< " + s + "; ", "$C" },
	func(r *rand.Rand, s string) (string, string) { return "printf -v C %s " + s + "; ", "$C" },
	func(r *rand.Rand, s string) (string, string) { return "set -- " + s + "; ", "$1" },
	func(r *rand.Rand, s string) (string, string) { return "alias z=" + s + "\n", "z" },
	func(r *rand.Rand, s string) (string, string) { return "hash -p /bin/" + s + " z; ", "z" },
	func(r *rand.Rand, s string) (string, string) { return "ln -s /bin/" + s + " z; ", "./z" },
}

// wrappersAround are programs that start the command.
var wrappersAround = []func(r *rand.Rand, cmd string) string{
	prefix("sudo ", "sudo -n ", "sudo -u root ", "sudo -uroot ", "sudo --user=root -- ", "sudo -E -H ", "sudo A=1 ", "sudo -nu root ", "doas ", "doas -u root ", "pkexec "),
	prefix("env ", "env A=1 ", "env -i ", "env -u X ", "env -uX B=2 ", "env --unset=X ", "/usr/bin/env ", "env -i PATH=/bin ", "env -- ", "env -C . "),
	prefix("command ", "exec ", "exec -a x ", "command -p ", "command -- ", "builtin command ", "builtin exec ", "time ", "time -p ", "nocorrect ", "noglob "),
	prefix("nohup ", "nice ", "nice -n 5 ", "nice -5 ", "nice --adjustment=5 ", "ionice -c 3 ", "ionice -c3 ", "setsid ", "setsid -f ", "stdbuf -oL ", "stdbuf -o 0 -e 0 ", "chrt -b 0 ", "taskset -c 0 ", "unbuffer "),
	prefix("timeout 5 ", "timeout -s KILL 5 ", "timeout --signal=KILL 5s ", "timeout -k 1 5 ", "gtimeout 5 ", "timeout --foreground 5m ", "timeout --preserve-status 5 "),
	prefix("xargs ", "xargs -n1 ", "xargs -I{} ", "xargs -0 ", "xargs -P 4 -n 1 ", "xargs --no-run-if-empty ", "xargs -r ", "xargs -d x "),
	prefix("busybox ", "toybox ", "flock x ", "flock -n x ", "strace -f ", "strace -o x -e open ", "ltrace ", "systemd-run --user ", "unshare -r ", "proxychains -q ", "caffeinate -i ", "dbus-run-session "),
	prefix("ssh host ", "ssh -t host ", "ssh -p 22 host ", "ssh -o X=y host ", "docker exec web ", "docker exec -it web ", "docker exec -u 0 web ", "podman run img ", "kubectl exec web -- ", "kubectl exec -it web -c x -- "),
	prefix("sudo env A=1 nice -n 5 ", "nohup setsid ", "timeout 5 nice xargs ", "exec env -i sudo "),
	func(r *rand.Rand, cmd string) string {
		return "find . -maxdepth 0 -exec " + cmd + pick(r, []string{` \;`, ` ';'`, ` {} +`})
	},
	func(r *rand.Rand, cmd string) string {
		return pick(r, []string{"find . -execdir ", "find . -ok "}) + cmd + ` \;`
	},
	func(r *rand.Rand, cmd string) string {
		return pick(r, []string{"fd x -x ", "fdfind . --exec ", "fd -X "}) + cmd
	},
	func(r *rand.Rand, cmd string) string { return "parallel " + cmd + " ::: a" },
	prefix("setpriv --no-new-privs ", "firejail ", "fakeroot ", "gosu root ", "nsenter -t 1 -m ", "numactl -N 0 ", "prlimit --nproc=1 ", "faketime now ", "eatmydata ", "xvfb-run -a ", "uv run ", "poetry run ", "bundle exec ", "pipx run ", "direnv exec . ", "mise exec -- ", "cross-env A=1 "),
}

func prefix(of ...string) func(*rand.Rand, string) string {
	return func(r *rand.Rand, cmd string) string { return pick(r, of) + cmd }
}

// texts hand the command to something that reads text.
var texts = []func(r *rand.Rand, s string) string{
	quoted("sh -c ", "bash -c ", "bash -lc ", "bash -ec ", "bash -euo pipefail -c ", "dash -c ", "zsh -c ", "ksh -c ", "/bin/sh -c ", "bash --norc -c ", "bash -O extglob -c ", "bash -o pipefail -c ", "sh -x -c ", "fish -c "),
	quoted("eval ", "eval -- ", "builtin eval ", "command eval ", "env -S ", "env --split-string=", "sudo sh -c ", "sudo -u root bash -c ", "su -c ", "su root -c ", "su - root --command=", "script -q -c ", "watch ", "watch -n 1 ", "flock x -c ", "timeout 5 sh -c "),
	quoted("xargs -I{} sh -c ", "xargs bash -c ", "find . -exec sh -c ", "nohup bash -c ", "exec bash -c ", "ssh host ", "docker exec web sh -c ", "npx -c ", "busybox sh -c ", "runuser -c "),
	func(r *rand.Rand, s string) string { return "trap " + single(s) + " EXIT" },
	func(r *rand.Rand, s string) string { return "sh <<< " + single(s) },
	func(r *rand.Rand, s string) string {
		return pick(r, []string{"sh", "bash", "bash -s", "sudo bash"}) + " <<'E'\n" + s + "\nE"
	},
	func(r *rand.Rand, s string) string {
		return "echo " + single(s) + pick(r, []string{" | sh", " | bash", "|bash -", " | sudo sh", " | env bash"})
	},
	func(r *rand.Rand, s string) string { return "printf '%s\\n' " + single(s) + " | sh" },
	func(r *rand.Rand, s string) string { return "cat <<'E' | sh\n" + s + "\nE" },
	func(r *rand.Rand, s string) string { return "bash <(echo " + single(s) + ")" },
	func(r *rand.Rand, s string) string {
		return pick(r, []string{". ", "source "}) + "<(echo " + single(s) + ")"
	},
	func(r *rand.Rand, s string) string { return "eval \"$(echo " + single(s) + ")\"" },
	func(r *rand.Rand, s string) string { return "X=" + single(s) + "; eval \"$X\"" },
	func(r *rand.Rand, s string) string { return "X=" + single(s) + "; bash -c \"$X\"" },
	func(r *rand.Rand, s string) string { return "git -c alias.z=" + single("!"+s) + " z" },
	func(r *rand.Rand, s string) string { return "git submodule foreach " + single(s) },
	func(r *rand.Rand, s string) string { return "git rebase -x " + single(s) + " HEAD~1" },
	func(r *rand.Rand, s string) string { return "echo " + hexed(s) + " | xxd -r -p | sh" },
	func(r *rand.Rand, s string) string { return "$(echo " + hexed(s) + " | xxd -r -p)" },
	func(r *rand.Rand, s string) string { return "eval \"$(base64 -d <<< " + hexed(s) + ")\"" },
	func(r *rand.Rand, s string) string {
		return "tar cf x.tar y --checkpoint=1 --checkpoint-action=exec=" + single("sh -c "+single(s))
	},
	func(r *rand.Rand, s string) string {
		return "awk " + single("BEGIN { system(\""+strings.ReplaceAll(s, `"`, `\"`)+"\") }")
	},
	func(r *rand.Rand, s string) string { return "ssh -o ProxyCommand=" + single(s) + " host" },
	func(r *rand.Rand, s string) string { return "hyperfine " + single(s) },
}

func quoted(of ...string) func(*rand.Rand, string) string {
	return func(r *rand.Rand, s string) string {
		return pick(r, of) + pick(r, []func(string) string{single, double})(s)
	}
}

func hexed(s string) string { return fmt.Sprintf("%x", s) }

// places put a whole command somewhere in a script.
var places = []string{
	"%s", " \t%s ", "%s;", "%s &", "%s # a note", "# a note\n%s", "true; %s", "true;%s", "true && %s", "false || %s", "true&&%s||true", "ls\n%s", "ls & %s", "%s | cat", "echo y | %s", "ls |& %s",
	"(%s)", "( ( %s ) )", "{ %s; }", "if true; then %s; fi", "if %s; then :; fi", "if false; then :; elif %s; then :; fi", "if false; then :; else %s; fi", "while %s; do break; done",
	"while true; do %s; break; done", "until %s; do :; done", "for i in 1; do %s; done", "for ((i=0;i<1;i++)); do %s; done", "case a in a) %s;; esac", "case a in b) ;; *) %s; esac", "select a in 1; do %s; done",
	"f() { %s; }; f", "function f { %s; }; f", "f() ( %s ); f", "! %s", "time %s", "coproc %s", "echo $(%s)", "echo \"$(%s)\"", "echo \"a $(echo $(%s)) b\"", "cat <(%s)", "tee >(%s)", "echo ${A:-$(%s)}", "echo $(( $(%s) ))",
	": \"${A:=$(%s)}\"", "A=$(%s)", "A=1 B=$(%s) ls", "export A=$(%s)", "local A=$(%s)", "A=($(%s))", "A[$(%s)]=1", "[[ -n $(%s) ]]", "[ -n \"$(%s)\" ]", "echo hi > $(%s)", "cat <<E\n$(%s)\nE", "cat <<E\n`%s`\nE", "cat <<< $(%s)",
	"%s > /dev/null 2>&1", "> out %s", "2>/dev/null %s", "%s >> log", "%s < /dev/null", "%s 2>&1 | tail -1", "cd . && %s", "cd sub; %s", "cd \"$X\" && %s", "A=1 %s", "A=1 B='2 3' %s", "set -e; %s", "exec 3>&1; %s", "pushd . && %s",
	"echo 'it''s'; %s", "echo \\; %s\n%s", "git commit -F - <<'M' 2>&1 | %s\nbody\nM", "cat <<'A' <<'B' && %s\na\nA\nb\nB", "true \\\n && %s", "echo a;\n\n\n%s", "(cd x; %s) 2>/dev/null", "[ -f x ] && %s", "test -f x || { %s; exit 1; }",
}

func place1(p, cmd string) string { return strings.ReplaceAll(p, "%s", cmd) }

// disguise gives one text that would run d.
func disguise(r *rand.Rand, d *deniedCommand) string {
	args := d.argv[1:]
	if len(d.other) > 0 && r.IntN(3) == 0 {
		args = pick(r, d.other)
	}
	before, word := "", d.argv[0]
	spell := r.IntN(2) == 0
	if spell {
		before, word = pick(r, programs)(r, d.argv[0])
	}
	words := []string{word}
	for _, a := range args {
		if spell && r.IntN(3) == 0 {
			words = append(words, pick(r, spellings)(r, a))
		} else {
			words = append(words, plainly(a))
		}
	}
	if r.IntN(4) == 0 {
		words = nil
		for _, a := range append([]string{d.argv[0]}, args...) {
			words = append(words, plainly(a))
		}
		cmd := whole(r, words)
		if r.IntN(4) == 0 {
			cmd = pick(r, []string{"sh -c ", "bash -c ", "bash -lc ", "eval ", "sudo sh -c ", "timeout 5 bash -c ", "X=1 sh -c ", "env -S "}) + single(cmd)
		}
		return cmd
	}
	cmd := strings.Join(words, pick(r, []string{" ", " ", " ", "  ", "\t", " \\\n "}))
	if r.IntN(3) == 0 && before == "" {
		cmd = pick(r, wrappersAround)(r, cmd)
	}
	cmd = before + cmd
	if r.IntN(3) == 0 {
		cmd = pick(r, texts)(r, cmd)
	}
	if before != "" || strings.Contains(cmd, "<<") || strings.Contains(cmd, "\n") {
		// Only whole lines hold such a text.
		return place1(pick(r, []string{"%s", "ls\n%s", "true; %s", "set -e\n%s\n"}), cmd)
	}
	p := pick(r, places)
	for strings.Contains(p, "`") && strings.Contains(cmd, "`") {
		p = pick(r, places) // these do not nest
	}
	return place1(p, cmd)
}

// shortest reports what failed, the shortest texts first.
func shortest(t *testing.T, failed map[string]string) {
	t.Helper()
	var all []string
	for text := range failed {
		all = append(all, text)
	}
	slices.SortFunc(all, func(a, b string) int {
		if d := utf8.RuneCountInString(a) - utf8.RuneCountInString(b); d != 0 {
			return d
		}
		return strings.Compare(a, b)
	})
	for i, text := range all {
		if i == 25 {
			break
		}
		t.Errorf("%s\n\t%s", text, failed[text])
	}
	if len(all) > 0 {
		t.Errorf("%d failed", len(all))
	}
}

// inCI reports whether the long versions of generated tests are to run.
func inCI() bool { return os.Getenv("CI") != "" }

// However a denied command is written, wrapped, hidden or handed on, it is
// never allowed, not even where everything else is. Nothing here is run.
func TestT8NoDisguiseIsAllowed(t *testing.T) {
	const least = 5000
	n := 2 * least
	if inCI() && !raceOn {
		n *= 10
	}
	p, r := everythingBut(t), rand.New(rand.NewPCG(8, 2026))
	seen, failed, denied := map[string]bool{}, map[string]string{}, 0
	for i := 0; len(seen) < n; i++ {
		d := &deniedCommands[i%len(deniedCommands)]
		text := disguise(r, d)
		if seen[text] {
			continue
		}
		seen[text] = true
		switch res := decide(p, bash(text)); res.Verdict {
		case ask.Allow:
			failed[text] = "allowed, though " + d.rule + " is denied"
		case ask.Deny:
			denied++
		}
	}
	shortest(t, failed)
	t.Logf("%d disguises of %d commands: %d denied, %d asked, %d allowed", len(seen), len(deniedCommands), denied, len(seen)-denied-len(failed), len(failed))
	if denied < len(seen)/5*2 {
		t.Errorf("only %d of %d are seen through", denied, len(seen))
	}
}
