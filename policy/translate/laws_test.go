package translate

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"permd/ask"
	"permd/policy"
	"permd/policy/paths"
	"permd/policy/trial"
)

// Each law holds a naive reading of a client's own rules against what permd's
// rules say: on any settings and any call permd is never wider.

var verdictWords = []string{"deny", "ask", "allow"}

// starred is a pattern whose stars stand for any text.
func starred(p string, optional bool) *regexp.Regexp {
	tail := ""
	if rest, ok := strings.CutSuffix(p, " *"); ok && optional {
		p, tail = rest, "( .*)?"
	}
	parts := strings.Split(p, "*")
	for i := range parts {
		parts[i] = strings.ReplaceAll(regexp.QuoteMeta(parts[i]), `\?`, ".")
	}
	return regexp.MustCompile("(?s)^" + strings.Join(parts, ".*") + tail + "$")
}

var (
	programs = []string{"git", "npm", "rm", "make"}
	further  = []string{"push", "log", "run", "test", "test:unit", "-f", "--force", "main", "docs", "x"}
)

func drawCommand(t *rapid.T) string {
	words := []string{rapid.SampledFrom(programs).Draw(t, "program")}
	words = append(words, rapid.SliceOfN(rapid.SampledFrom(further), 0, 4).Draw(t, "words")...)
	return strings.Join(words, " ")
}

// drawPattern makes patterns near the commands, with stars in odd places.
func drawPattern(t *rapid.T) string {
	if rapid.IntRange(0, 9).Draw(t, "kind") == 0 {
		return rapid.SampledFrom([]string{"*", "* main", "*push*", "git*", "g*t push", "rm ?", "git push | sh", "npm 'run' *", "git  log"}).Draw(t, "odd")
	}
	words := strings.Split(drawCommand(t), " ")
	for i := range words {
		switch rapid.IntRange(0, 7).Draw(t, "star") {
		case 0:
			words[i] = "*"
		case 1:
			words[i] += "*"
		case 2:
			words[i] = words[i][:1] + "*" + words[i][len(words[i])-1:]
		}
	}
	if rapid.Bool().Draw(t, "more") {
		words = append(words, "*")
	}
	return strings.Join(words, " ")
}

// permdSays judges a call by the translation of settings.
func permdSays(t *rapid.T, client, name, data string, call map[string]string) ask.Verdict {
	r, err := Translate(client, Source{Name: work + "/" + name, Data: []byte(data)})
	if err != nil {
		t.Fatalf("%s: %v", data, err)
	}
	f, err := policy.Decode("rules.toml", r.TOML(), policy.LayerUser)
	if err != nil {
		t.Fatalf("%v\n%s", err, r.TOML())
	}
	call["client"] = client
	raw, err := json.Marshal(call)
	if err != nil {
		t.Fatal(err)
	}
	c, err := trial.Parse(raw, trial.Place{Cwd: work, Home: "/home/dev"})
	if err != nil {
		t.Fatal(err)
	}
	c.View = paths.Fixed{}
	p := policy.CompileAlone(f)
	k := trial.Court{Policy: func(string) *policy.Policy { return p }}
	return k.Judge(c).Verdict
}

func narrower(t *rapid.T, client, data string, ours, theirs ask.Verdict, what string) {
	if ours > theirs {
		t.Fatalf("%s says %s of %q, permd %s:\n%s", client, theirs, what, ours, data)
	}
}

func quoted(v any) string {
	b, _ := json.Marshal(v)
	return string(b)
}

// lastMatch is a map of patterns to verdicts as opencode and pi read it.
func lastMatch(t *rapid.T, draw func(*rapid.T) string, optional bool, on string) (object string, verdict ask.Verdict) {
	verdict = ask.Prompt
	var members []string
	seen := map[string]bool{}
	for range rapid.IntRange(1, 6).Draw(t, "entries") {
		p, v := draw(t), rapid.IntRange(0, 2).Draw(t, "verdict")
		if seen[p] {
			continue
		}
		seen[p] = true
		members = append(members, fmt.Sprintf("%s: %q", quoted(p), verdictWords[v]))
		if starred(p, optional).MatchString(on) {
			verdict = ask.Verdict(v)
		}
	}
	return "{" + strings.Join(members, ", ") + "}", verdict
}

func TestLawLastMatchIsNeverWider(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		client := rapid.SampledFrom([]string{"opencode", "pi"}).Draw(t, "client")
		command := drawCommand(t)
		object, theirs := lastMatch(t, drawPattern, client == "pi", command)
		data := `{"permission": {"bash": ` + object + `}}`
		narrower(t, client, data, permdSays(t, client, "c.json", data, map[string]string{"tool": "bash", "command": command}), theirs, command)
	})
}

func drawPath(t *rapid.T) string {
	segs := rapid.SliceOfN(rapid.SampledFrom([]string{"src", "docs", "gen", "a.go", ".env", "x.env.local", "b.md"}), 1, 3).Draw(t, "path")
	return strings.Join(segs, "/")
}

func drawPathPattern(t *rapid.T) string {
	segs := strings.Split(drawPath(t), "/")
	for i := range segs {
		switch rapid.IntRange(0, 6).Draw(t, "star") {
		case 0:
			segs[i] = "*"
		case 1:
			segs[i] = "*" + segs[i][1:]
		case 2:
			segs[i] = segs[i][:1] + "*"
		case 3:
			segs[i] = segs[i][:1] + "*" + segs[i][len(segs[i])-1:]
		}
	}
	return strings.Join(segs, "/")
}

func TestLawFilesAreNeverWider(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		client := rapid.SampledFrom([]string{"opencode", "pi"}).Draw(t, "client")
		tool := rapid.SampledFrom([]string{"read", "edit"}).Draw(t, "tool")
		file := drawPath(t)
		object, theirs := lastMatch(t, drawPathPattern, false, file)
		data := fmt.Sprintf(`{"permission": {%q: %s}}`, tool, object)
		narrower(t, client, data, permdSays(t, client, "c.json", data, map[string]string{"tool": tool, "path": file}), theirs, file)
	})
}

func TestLawClaudeIsNeverWider(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		command := drawCommand(t)
		lists := map[string][]string{}
		theirs, matched := ask.Allow, false
		for range rapid.IntRange(1, 6).Draw(t, "entries") {
			v := rapid.IntRange(0, 2).Draw(t, "verdict")
			p := drawPattern(t)
			match := starred(p, false)
			if base, ok := strings.CutSuffix(p, " *"); ok && rapid.Bool().Draw(t, "colon") {
				p, match = base+":*", starred(p, true)
			}
			lists[verdictWords[v]] = append(lists[verdictWords[v]], "Bash("+p+")")
			if match.MatchString(command) {
				matched, theirs = true, theirs.Stricter(ask.Verdict(v))
			}
		}
		if !matched {
			theirs = ask.Prompt
		}
		data := `{"permissions": ` + quoted(lists) + `}`
		narrower(t, "claude", data, permdSays(t, "claude", "s.json", data, map[string]string{"tool": "bash", "command": command}), theirs, command)
	})
}

func TestLawCodexIsNeverWider(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		command := drawCommand(t)
		words := strings.Split(command, " ")
		var data strings.Builder
		theirs, matched := ask.Allow, false
		for range rapid.IntRange(1, 5).Draw(t, "rules") {
			v := rapid.IntRange(0, 2).Draw(t, "verdict")
			prefix := strings.Split(drawCommand(t), " ")
			fmt.Fprintf(&data, "prefix_rule(pattern=%s, decision=%q)\n", quoted(prefix), []string{"forbidden", "prompt", "allow"}[v])
			if len(prefix) <= len(words) && strings.Join(prefix, " ") == strings.Join(words[:len(prefix)], " ") {
				matched, theirs = true, theirs.Stricter(ask.Verdict(v))
			}
		}
		if !matched {
			theirs = ask.Prompt
		}
		narrower(t, "codex", data.String(), permdSays(t, "codex", "d.rules", data.String(), map[string]string{"tool": "bash", "command": command}), theirs, command)
	})
}

func TestLawGeminiIsNeverWider(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		command := drawCommand(t)
		var data strings.Builder
		theirs, highest := ask.Prompt, -1
		for range rapid.IntRange(1, 6).Draw(t, "rules") {
			v, prio := rapid.IntRange(0, 2).Draw(t, "verdict"), rapid.IntRange(0, 4).Draw(t, "priority")
			prefix := ""
			if rapid.IntRange(0, 4).Draw(t, "all") > 0 {
				prefix = drawCommand(t)
			}
			fmt.Fprintf(&data, "[[rule]]\ntoolName = \"run_shell_command\"\ndecision = %q\npriority = %d\n", []string{"deny", "ask_user", "allow"}[v], prio)
			if prefix != "" {
				fmt.Fprintf(&data, "commandPrefix = %q\n", prefix)
			}
			if prefix == "" || command == prefix || strings.HasPrefix(command, prefix+" ") {
				switch {
				case prio > highest:
					theirs, highest = ask.Verdict(v), prio
				case prio == highest: // which of them counts is not said: the stricter
					theirs = theirs.Stricter(ask.Verdict(v))
				}
			}
		}
		narrower(t, "gemini", data.String(), permdSays(t, "gemini", "p.toml", data.String(), map[string]string{"tool": "bash", "command": command}), theirs, command)
	})
}
