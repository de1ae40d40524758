package claudecheck

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"permd/internal/realclient"
	"permd/internal/standin"
	"permd/review"
)

// unhooked are the ways to start the client so that hooks of the user's
// settings do not run. Agents are denied them.
var unhooked = map[string]struct {
	env, args []string
	// run says that permd run governs such a start all the same; others it
	// refuses.
	run bool
}{
	"--bare":                    {args: []string{"--bare"}},
	"--safe-mode":               {args: []string{"--safe-mode"}},
	"CLAUDE_CODE_SIMPLE":        {env: []string{"CLAUDE_CODE_SIMPLE=1"}},
	"CLAUDE_CODE_SAFE_MODE":     {env: []string{"CLAUDE_CODE_SAFE_MODE=1"}},
	"--restricted":              {args: []string{"--restricted"}, run: true},
	"CLAUDE_CODE_RESTRICTED":    {env: []string{"CLAUDE_CODE_RESTRICTED=1"}, run: true},
	"--setting-sources":         {args: []string{"--setting-sources", "project"}, run: true},
	"--settings, no hooks":      {args: []string{"--settings", `{"disableAllHooks":true}`}},
	"--settings with variables": {args: []string{"--settings", `{"env":{"CLAUDE_CODE_SAFE_MODE":"1"}}`}},
}

// bad are calls that a rule denies and that nobody is there to be asked for.
// Between them they are offered in every mode of the client.
func bad() map[string][]standin.Step {
	return simple(standin.Bash("touch ran-bad"), standin.Calls(standin.Use("Write", map[string]string{"file_path": "$CWD/ran-w", "content": "x"})))
}

// Root's file, as permd setup --system writes it, holds in every such start.
// What it would overrule is proved beside it: without that file, calls run.
func TestTheSystemFileSurvivesEveryOffSwitch(t *testing.T) {
	for name, k := range unhooked {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := govern(t, place{}, bad())
			r := realclient.Run{Scenario: "x", Env: k.env, Args: append([]string{"--allowedTools=Bash,Write"}, k.args...)}
			g.Print(r)
			if n := len(g.records(review.SessionStarted)); n != 0 || g.ran() == "" {
				t.Errorf("without root's file: %d sessions were governed, ran %q", n, g.ran())
			}
			g.tidy(g.Ran()...)
			r.Wrap = g.etc()
			if r.Wrap == nil {
				t.Log("no mount namespace can be made here: what root's file does was not looked at")
				return
			}
			res := g.Print(r)
			if n := len(g.records(review.SessionStarted)); n != 1 || g.ran() != "" || res.Code != 0 {
				t.Errorf("with root's file: %d sessions were governed, ran %q, told %q, ended with %+v", n, g.ran(), g.told(), res)
			}
			g.quiet(false)
		})
	}
}

// etc is a command that starts another with an /etc of its own, in which permd
// setup --system has been run; nil where that cannot be done.
func (g *governed) etc() []string {
	g.t.Helper()
	etc := filepath.Join(g.Dir, "etc")
	_ = exec.Command("cp", "-a", "/etc", etc).Run() // some of it only root may read, and none of that is needed
	space := []string{"unshare", "--mount", "sh", "-ec", `mount --bind "$1" /etc; shift; exec "$@"`, "sh", etc}
	if os.Getuid() != 0 {
		space = append([]string{"unshare", "--user", "--map-root-user"}, space[1:]...)
	}
	setup := append(append([]string{}, space...), g.permd.Bin+"/permd", "--root", g.permd.Root, "setup", "claude", "--system", "--yes", "--allow-temporary-path")
	if out, err := exec.Command(space[0], append(space[1:], "true")...).CombinedOutput(); err != nil {
		g.t.Logf("%q: %v: %.200s", space, err, out)
		return nil
	}
	if out, err := exec.Command(setup[0], setup[1:]...).CombinedOutput(); err != nil {
		g.t.Fatalf("permd setup --system: %v: %s", err, out)
	}
	return space
}

// permd run governs a start that leaves the client its --settings, and refuses
// one that would not, with words.
func TestRunRefusesWhatItCannotGovern(t *testing.T) {
	for name, k := range unhooked {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := govern(t, place{bare: true}, bad())
			res := g.Print(g.run(realclient.Run{Scenario: "x", Env: k.env, Args: append([]string{"--allowedTools=Bash,Write"}, k.args...)}))
			if g.ran() != "" {
				t.Errorf("ran %q", g.ran())
			}
			sessions := len(g.records(review.SessionStarted))
			if k.run && (sessions != 1 || res.Code != 0) {
				t.Errorf("%d sessions were governed; it ended with %+v", sessions, res)
			}
			option, _, _ := strings.Cut(strings.TrimSuffix(name, ","), " ")
			if !k.run && (res.Code != 2 || !strings.Contains(res.Stderr, strings.TrimSuffix(option, ",")) || len(g.Model.Requests()) != 0) {
				t.Errorf("it was not refused: %+v", res)
			}
			if k.run {
				g.verify()
			}
		})
	}
}
