package claudecheck

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"permd/ask"
	"permd/internal/e2e"
	"permd/internal/host"
	"permd/internal/realclient"
	"permd/internal/standin"
	"permd/session"
)

// limit bounds a wait for something that other processes do.
const limit = 20 * time.Second

// The rules of every place: what one call is allowed and another denied by.
// All other calls of these tests ask.
const rules = `
[[rule]]
action = "allow"
tool = "bash"
command = "touch ran-rule"

[[rule]]
action = "deny"
tool = "bash"
command = "touch ran-bad"
reason = "this file is not for agents"
`

// place is what a governed client finds.
type place struct {
	config   string         // config.toml
	settings map[string]any // the user's settings.json before setup
	// hold keeps the client in its session start until a desk is attached, so
	// that no call comes before.
	hold bool
	// bare leaves the settings without permd's hooks: permd run brings them.
	bare bool
}

// governed is a place for the real client, under permd.
type governed struct {
	*realclient.Rig
	permd *e2e.Rig
	t     testing.TB
	hold  *realclient.Spy
}

// govern makes a place in which the model follows scenarios and permd has been
// set up by its own command.
func govern(t testing.TB, p place, scenarios map[string][]standin.Step) *governed {
	t.Helper()
	c := realclient.Claude(t)
	g := &governed{permd: e2e.New(t), t: t} // it is taken down last, when the client has ended
	g.Rig = c.Rig(t, scenarios)
	g.permd.Policy(rules)
	if p.config != "" {
		g.permd.Config(p.config)
	}
	g.seen("hasSeenAutoDefaultNudge")
	settings := map[string]any{}
	for k, v := range p.settings {
		settings[k] = v
	}
	if p.hold {
		g.hold = g.Spy(`for i in $(seq 400); do [ -e "$spy/go" ] && exit 0; sleep 0.05; done`)
		settings["hooks"] = realclient.Hooks(map[string]string{"SessionStart": g.hold.Command})
	}
	g.Settings(settings)
	if !p.bare {
		g.setup()
	}
	return g
}

// seen marks something that the client shows once as shown. In some modes it
// offers once to make auto the default mode, which setup has just set to ask.
func (g *governed) seen(flag string) {
	g.t.Helper()
	file := filepath.Join(g.Config, ".claude.json")
	b, err := os.ReadFile(file)
	if err != nil {
		g.t.Fatal(err)
	}
	var state map[string]any
	if err := json.Unmarshal(b, &state); err != nil {
		g.t.Fatal(err)
	}
	state[flag] = true
	if b, err = json.Marshal(state); err == nil {
		err = os.WriteFile(file, b, 0o600)
	}
	if err != nil {
		g.t.Fatal(err)
	}
}

// simple is one scenario, named x.
func simple(steps ...standin.Step) map[string][]standin.Step {
	return map[string][]standin.Step{"x": steps}
}

func (g *governed) settingsFile() string { return filepath.Join(g.Config, "settings.json") }

func (g *governed) setup(flags ...string) string {
	g.t.Helper()
	args := append([]string{"setup", "claude", "--yes", "--allow-temporary-path", "--file", g.settingsFile()}, flags...)
	code, out := g.permd.Permd(args...)
	if code != 0 {
		g.t.Fatalf("permd %s: %d: %s", strings.Join(args, " "), code, out)
	}
	return out
}

// command runs permd as the person at this place, in the project.
func (g *governed) command(args ...string) (code int, out string) {
	g.t.Helper()
	c := exec.Command(g.permd.Bin+"/permd", append([]string{"--root", g.permd.Root}, args...)...)
	c.Dir = g.Project
	c.Env = []string{"PATH=" + filepath.Dir(g.Client.Path) + ":" + os.Getenv("PATH"), "HOME=" + g.Home, "CLAUDE_CONFIG_DIR=" + g.Config, "TMPDIR=" + g.Tmp}
	b, err := c.CombinedOutput()
	var x *exec.ExitError
	if err != nil && !errors.As(err, &x) {
		g.t.Fatal(err)
	}
	return c.ProcessState.ExitCode(), string(b)
}

// node is the node of the agent with this process id.
func (g *governed) node(pid int) string {
	g.t.Helper()
	start, err := host.StartTime(pid)
	if err != nil {
		g.t.Fatal(err)
	}
	return session.NodeID(pid, start)
}

// desk attaches a person's surface to the node of an agent as soon as it is
// there, then lets the client go on. See [e2e.Rig.Attach].
func (g *governed) desk(pid int, answer answerer) *e2e.Surface {
	g.t.Helper()
	node := g.node(pid)
	g.WaitFor("the node to be there", limit, func() bool {
		_, err := os.Stat(g.permd.Dirs.Node(node).Sock())
		return err == nil
	})
	s := g.permd.Attach(node, answer)
	g.release()
	return s
}

func (g *governed) release() {
	g.t.Helper()
	if g.hold == nil {
		return
	}
	if err := os.WriteFile(filepath.Join(filepath.Dir(g.hold.Command), "go"), nil, 0o600); err != nil {
		g.t.Fatal(err)
	}
}

// next waits until exactly one ask is on the surface.
func (g *governed) next(s *e2e.Surface) *ask.Ask {
	g.t.Helper()
	g.WaitFor("an ask at the desk", limit, func() bool { return len(s.Waiting()) == 1 })
	return s.Waiting()[0].Ask
}

// answer gives an answer that must count.
func (g *governed) answer(s *e2e.Surface, a ask.Answer) {
	g.t.Helper()
	if v, err := s.Answer(a); err != nil || v.Verdict != "accepted" {
		g.t.Errorf("the desk's answer: %+v, %v", v, err)
	}
}

// ran is the names of what ran, joined.
func (g *governed) ran() string {
	g.t.Helper()
	return strings.Join(g.Ran(), " ")
}

func (g *governed) told() string { return strings.Join(g.Model.Told(), "\n") }

// installed is the settings file as the client reads it.
func (g *governed) installed() (s struct {
	Hooks map[string][]struct {
		Matcher string
		Hooks   []struct {
			Type, Command string
			Timeout       int
		}
	}
	Permissions struct {
		Allow       []string
		DefaultMode string
	}
}) {
	g.t.Helper()
	if err := json.Unmarshal(g.settingsBytes(), &s); err != nil {
		g.t.Fatal(err)
	}
	return s
}

func (g *governed) settingsBytes() []byte {
	g.t.Helper()
	b, err := os.ReadFile(g.settingsFile())
	if err != nil {
		g.t.Fatal(err)
	}
	return b
}

// writeProject writes a file of the project.
func (g *governed) writeProject(name, text string) {
	g.t.Helper()
	path := filepath.Join(g.Project, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
		g.t.Fatal(err)
	}
}

// processes are the ids of this place's living processes whose arguments,
// joined by blanks, contain all of words.
func (g *governed) processes(words ...string) []int {
	g.t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		g.t.Fatal(err)
	}
	var out []int
	for _, f := range files {
		b, err := os.ReadFile(f)
		line := string(bytes.ReplaceAll(b, []byte{0}, []byte(" ")))
		if err != nil || !strings.Contains(line, g.permd.Root) {
			continue
		}
		all := true
		for _, w := range words {
			all = all && strings.Contains(line, w)
		}
		var pid int
		if _, err := fmt.Sscanf(f, "/proc/%d/cmdline", &pid); err == nil && all {
			out = append(out, pid)
		}
	}
	return out
}

// after waits until the ask on the surface is another one than a.
func (g *governed) after(s *e2e.Surface, a *ask.Ask) *ask.Ask {
	g.t.Helper()
	g.WaitFor("the next ask at the desk", limit, func() bool {
		w := s.Waiting()
		return len(w) == 1 && w[0].Ask.Body.ID != a.Body.ID
	})
	return s.Waiting()[0].Ask
}
