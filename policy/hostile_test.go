package policy

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"permd/ask"
	"permd/policy/shell"
)

// hostile are shapes of text that cost a parser or a judge most, each filled
// up to 64 KiB. Where a denied command stands in plain sight, it is "rm".
func hostile() map[string]string {
	fill := func(s string) string { return strings.Repeat(s, shell.MaxBytes/len(s)) }
	around := func(open, middle, closed string, n int) string {
		return strings.Repeat(open, n) + middle + strings.Repeat(closed, n)
	}
	tail := func(s, end string) string { return strings.Repeat(s, (shell.MaxBytes-len(end))/len(s)) + end }
	shapes := map[string]string{
		"units":                  tail("a;", "rm x"),
		"units of words":         tail("a b c d e;", "rm x"),
		"units of other paths":   tail("cat a/b;", "rm x"),
		"lines":                  tail("a\n", "rm x"),
		"pipes":                  tail("a|", "rm x"),
		"chain":                  tail("a&&", "rm x"),
		"or":                     tail("a||", "rm x"),
		"background":             tail("a&", "rm x"),
		"words":                  "rm " + tail("a ", "x"),
		"options":                "rm " + tail("-a ", "x"),
		"long options":           "rm " + tail("--a=b ", "x"),
		"paths":                  "cat " + tail("a/b/c/d ", "/etc/x"),
		"climbing":               "cat " + tail("../", "x"),
		"dots":                   "cat " + tail("a/../", "x"),
		"addresses":              "curl " + tail("http://a/ ", "x"),
		"one word":               "echo " + tail("a", ""),
		"quoted":                 "echo '" + tail("a", "'"),
		"cd":                     tail("cd a;", "rm x"),
		"cd and":                 tail("cd a&&", "rm x"),
		"cd or":                  tail("cd a||", "rm x"),
		"cd to many":             tail("cd /a;cd b;", "rm x"),
		"variables":              tail("a=1;", "rm x"),
		"many variables":         many("x%d=1;", "rm x"),
		"uses of variables":      "a=1;" + tail("echo $a;", "rm x"),
		"program in a variable":  "C=1;" + tail("C=rm;$C x;", "rm x"),
		"loops":                  tail("for f in a b c;do echo $f;done;", "rm x"),
		"loop of many":           "for f in " + tail("a ", ";do rm x;done"),
		"loop in loop":           around("for f in a b c;do ", "rm x", ";done", 60),
		"loop in loop of many":   around("for f in a b c d e f g h i j;do ", "rm x;echo $f", ";done", 12) + ";" + fill("a")[:60000],
		"whiles":                 around("while a;do ", "rm x", ";done", 190),
		"ifs":                    tail("if a;then b;fi;", "rm x"),
		"ifs in ifs":             around("if a;then ", "rm x", ";fi", 190),
		"elifs":                  "if a;then b;" + tail("elif a;then b;", "else rm x;fi"),
		"cases":                  "case a in " + tail("a)b;;", "c)rm x;;esac"),
		"subshells":              around("(", "rm x", ")", 190),
		"groups":                 around("{ ", "rm x", ";}", 190),
		"substitutions":          tail("$(a)", ";rm x"),
		"substitutions in words": "echo " + tail("$(a) ", ";rm x"),
		"nested substitutions":   "echo " + around("$(", "rm x", ")", 190),
		"backquotes":             "echo " + tail("`a` ", ";rm x"),
		"in double quotes":       "echo " + around("\"$(", "rm x", ")\"", 150),
		"process substitutions":  "cat " + tail("<(a) ", ";rm x"),
		"parameters":             "echo " + tail("${a} ", ";rm x"),
		"lengths":                "echo " + tail("${#a} ", ";rm x"),
		"defaults":               "echo " + around("${a:-", "x", "}", 190) + ";rm x",
		"cuts":                   "a=b;echo " + tail("${a%b} ", ";rm x"),
		"arithmetic":             "echo " + tail("$((1)) ", ";rm x"),
		"long arithmetic":        "echo $((" + tail("1+", "1))") + ";rm x",
		"deep arithmetic":        "echo $((" + around("(", "1", ")", 190) + "));rm x",
		"unary":                  "((" + tail("-", "1))"),
		"ternary":                "((" + tail("1?", "1))"),
		"tests":                  tail("[[ a = b ]];", "rm x"),
		"long tests":             "[[ a " + tail("&& b ", "]];rm x"),
		"braces":                 "echo " + tail("{a,b} ", ";rm x"),
		"brace bomb":             "echo " + around("{a,b}", "", "", 8) + " " + tail("{a,b}{a,b}{a,b}{a,b}{a,b}{a,b} ", ";rm x"),
		"brace ranges":           "echo " + tail("{1..9999999} ", ";rm x"),
		"open braces":            fill("{a,"),
		"globs":                  "cat " + tail("*/* ", ";rm x"),
		"deep globs":             "cat " + tail("*/", "*"),
		"glob classes":           "cat " + tail("[a-z]", "*"),
		"here-documents":         hereDocuments() + "rm x",
		"here-document":          "cat <<E\n" + tail("a b\n", "E\nrm x"),
		"here-document of uses":  "cat <<E\n" + tail("$(a)\n", "E\nrm x"),
		"here-document to sh":    "sh <<'E'\n" + tail("a b;", "rm x\nE"),
		"here-strings":           tail("cat<<<a;", "rm x"),
		"redirections":           "a " + tail(">b ", ";rm x"),
		"functions":              tail("f(){ a;};", "rm x"),
		"calls of functions":     "f(){ a;};" + tail("f;", "rm x"),
		"many functions":         many("f%d(){ a;};", "rm x"),
		"functions moved":        many("f%d(){ a;};cd a;", "rm x"),
		"sudo":                   tail("sudo ", "rm x"),
		"sudo -Z":                tail("sudo -Z ", "rm x"),
		"env":                    tail("env A=1 ", "rm x"),
		"nice":                   tail("nice ", "rm x"),
		"timeout":                tail("timeout 5 ", "rm x"),
		"xargs":                  tail("xargs ", "rm x"),
		"find -exec":             tail("find . -exec ", "rm x"),
		"ssh":                    tail("ssh h ", "rm x"),
		"watch":                  tail("watch ", "rm x"),
		"parallel":               tail("parallel ", "rm x"),
		"eval":                   tail("eval ", "rm x"),
		"sh -c":                  around("sh -c '", "rm x", "'", 1),
		"sh -c in sh -c":         shellInShell(),
		"many sh -c":             tail("sh -c 'a b';", "rm x"),
		"npx":                    tail("npx ", "rm x"),
		"docker exec":            tail("docker exec a ", "rm x"),
		"git -c":                 "git " + tail("-c a=b ", "x;rm x"),
		"git -C":                 "git " + tail("-C a ", "status;rm x"),
		"kill":                   "kill " + tail("1 ", ";rm x"),
		"pkill":                  tail("pkill a;", "rm x"),
		"pkill of patterns":      "pkill " + tail("a* ", ";rm x"),
		"permd":                  tail("permd status;", "rm x"),
		"claude":                 tail("claude a;", "rm x"),
		"unparsed":               "'" + tail("rm x;", "'\""),
		"unparsed sudo":          "if " + tail("sudo ", "rm x"),
		"unparsed pipes":         ") " + tail("sudo -Z a|", "rm x"),
		"ansi quotes":            "echo " + tail(`$'\x61' `, ";rm x"),
		"comments":               tail("#a\n", "rm x"),
		"continuations":          tail("a \\\n", "b;rm x"),
		"assignments before":     tail("A=1 ", "rm x"),
		"export":                 tail("export A=1;", "rm x"),
		"python":                 tail("python3 -c 'a/b';", "rm x"),
		"awk":                    "awk '" + tail("{a}", "' x;rm x"),
		"sed":                    "sed '" + tail("s/a/b/;", "' x;rm x"),
		"jq":                     "jq '" + tail(".a|", ".' x;rm x"),
		"trap":                   tail("trap 'a' 1;", "rm x"),
		"coproc":                 tail("coproc a;", "rm x"),
		"writes and runs":        many("echo a >f%[1]d;./f%[1]d;", "rm x"),
		"links":                  many("ln -s a f%[1]d;./f%[1]d;", "rm x"),
	}
	// None of it twice.
	for _, f := range []string{"a%d;", "a%d|", "a%d&&", "a%d||", "a%d\n", "cat a%d;", "cat a%d/b|", "ls a%d;", "git -C a%d status;", "git log a%d;", "sudo -Z a%d;", "sudo a%d;", "trap 'a%d' 1;",
		"sh -c 'a%d';", "sh -c 'a%d b|c';", "pkill a%d*;", "kill %d;", "cd a%d;", "cd /a%d&&", "echo $(a%d);", "echo a%d>b;", "cat <a%d;", "python3 -c 'a%d/b';", "python3 a%d.py;", "find a%d -exec b {} +;",
		"find . -exec a%d ", "ssh h%d ", "docker exec a%d ", "npx a%d ", "eval a%d;", "curl http://a%d/;", "claude a%d;", "permd a%d;", "tmux send a%d;", "export a%d=1;", "for f in a%d;do b;done;",
		"if a%d;then b;fi;", "[[ a%d = b ]];", "rm%d -rf /;", "cp a%d b;", "mv a%d .git;", "xargs a%d;", "parallel a%d;", "awk '{a%d}' b;", "sed -n 'a%d' b;", "jq '.a%d' b;", "tar -xf a%d;", "make a%d;", "./a%d;",
		"$a%d;", "a%d *;", "ls a%d/*;", "{a,b}%d;", "a%d $((1));", "a%d ${b};", "a%d 'b c';", "a%d \"$b\";", "(a%d);", "{ a%d; };", "! a%d;", "time a%d;", "a%d &", "A=%d b;", "TZ=%d b;", "env A=%d b;", "nice a%d;"} {
		shapes["different "+strings.ReplaceAll(f, "\n", "line")] = many(f, "\nrm x")
	}
	return shapes
}

// many repeats a text with a number in it.
func many(format, end string) string {
	var b strings.Builder
	for i := 0; b.Len() < shell.MaxBytes-64; i++ {
		fmt.Fprintf(&b, format, i)
	}
	return b.String() + end
}

func hereDocuments() string {
	var b strings.Builder
	for b.Len() < shell.MaxBytes-64 {
		b.WriteString("cat <<E\n$(a)\nE\n")
	}
	return b.String()
}

// shellInShell is sh -c within sh -c, quoted anew each time.
func shellInShell() string {
	s := "rm x"
	for {
		next := "sh -c '" + strings.ReplaceAll(s, "'", `'\''`) + "'"
		if len(next) > shell.MaxBytes {
			return s
		}
		s = next
	}
}

// hostileRules are rules of all kinds, so that every part of the judge works.
func hostileRules(t testing.TB) *Policy {
	f, err := Decode("hostile.toml", append(ruleText(50), `
[[rule]]
action = "allow"
tool = "bash"
[[rule]]
action = "deny"
command = "rm *"
[[rule]]
action = "deny"
path = "**/.env"
[[rule]]
action = "deny"
path = "/etc/**"
[[rule]]
action = "ask"
outside = "project"
[[rule]]
action = "deny"
domain = "*.example.net"
[[rule]]
action = "deny"
command = "git push * --force"
`...), LayerUser)
	if err != nil {
		t.Fatal(err)
	}
	return Compile(f)
}

// Trust test T8: a hostile command of 64 KiB is judged, none of them allowed,
// and a denied command in plain sight is denied however much stands around it.
func TestT8HostileText(t *testing.T) {
	p := hostileRules(t)
	for name, cmd := range hostile() {
		if len(cmd) > shell.MaxBytes+64 {
			t.Errorf("%s has %d bytes", name, len(cmd))
		}
		start := time.Now()
		r := decide(p, bash(cmd))
		if d := time.Since(start); d > 20*time.Second {
			t.Errorf("%s: %v", name, d)
		} else if os.Getenv("HOSTILE") != "" && d > 5*time.Millisecond {
			t.Logf("%s: %v, %d bytes, %d units, %d paths, %s %s", name, d, len(cmd), len(r.Units), len(r.Paths), r.Verdict, r.Reason)
		}
		switch {
		case strings.Contains(cmd, "rm x") && r.Verdict != ask.Deny:
			t.Errorf("%s: %s, though rm is denied: %s", name, r.Verdict, r.Reason)
		case r.Verdict == ask.Allow && name != "quoted" && name != "one word" && name != "addresses": // of which all is allowed
			t.Errorf("%s: allowed", name)
		}
	}
}

// BenchmarkHostile reports how long the worst of these keeps a node busy: the
// best of some turns for each, since a machine is never idle, and of more for
// those that seem to be worst.
func BenchmarkHostile(b *testing.B) {
	p := hostileRules(b).rebound(input(Compile(), bash("")).View, proj, home)
	best := func(cmd string, turns int) time.Duration {
		a, least := bash(cmd), time.Duration(1<<62)
		for range turns {
			runtime.GC()
			start := time.Now()
			decide(p, a)
			least = min(least, time.Since(start))
		}
		return least
	}
	worst, which := time.Duration(0), ""
	for b.Loop() {
		shapes := hostile()
		spent := map[string]time.Duration{}
		var names []string
		for name, cmd := range shapes {
			names, spent[name] = append(names, name), best(cmd, 3)
		}
		slices.SortFunc(names, func(x, y string) int { return int(spent[y] - spent[x]) })
		for _, name := range names[:12] {
			if d := best(shapes[name], 12); d > worst {
				worst, which = d, name
			}
		}
	}
	b.Logf("the worst is %q", which)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(worst.Microseconds())/1000, "hostile-64KiB-ms")
}
