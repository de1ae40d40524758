package realclient

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"
	"testing"

	"permd/internal/standin"
)

const dummyKey = "sk-ant-dummy-for-the-stand-in-model"

// rigVariable marks every process that a rig started, however far it detached.
const rigVariable = "PERMD_TEST_RIG"

// Rig is a fresh place for one client: home, configuration, project, scratch
// folder and model. It is taken down when its test ends.
type Rig struct {
	Client  *Client
	Dir     string // holds all of the below; its path is short, so sockets fit in it
	Home    string
	Config  string // CLAUDE_CONFIG_DIR
	Project string // a git repository with one file
	Tmp     string
	Model   *standin.Server

	t testing.TB
}

// Rig makes a place for c in which the model follows scenarios. The client
// finds onboarding done, the project trusted and the dummy key approved.
func (c *Client) Rig(t testing.TB, scenarios map[string][]standin.Step) *Rig {
	t.Helper()
	dir, err := os.MkdirTemp("", "permd-rig-")
	if err != nil {
		t.Fatal(err)
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		t.Fatal(err)
	}
	r := &Rig{Client: c, Dir: dir, t: t}
	r.Home, r.Project, r.Tmp = filepath.Join(dir, "home"), filepath.Join(dir, "proj"), filepath.Join(dir, "tmp")
	r.Config = filepath.Join(r.Home, ".claude")
	t.Cleanup(r.remove)
	for _, d := range []string{r.Config, r.Project, r.Tmp} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	r.write(filepath.Join(r.Project, "README.md"), []byte("A project for a test.\n"), 0o600)
	git := exec.Command("git", "init", "-q", r.Project)
	git.Env = r.env(nil)
	if out, err := git.CombinedOutput(); err != nil {
		Missing(t, "git init: "+err.Error()+": "+tail(out, 200))
	}
	r.Model, err = standin.Start(t.Context(), standin.Config{Scenarios: scenarios, Cwd: r.Project})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Model.Close)
	r.state()
	r.Settings(map[string]any{})
	return r
}

// state writes what the client would have asked about on its first start.
func (r *Rig) state() {
	r.t.Helper()
	b, err := json.Marshal(map[string]any{
		"hasCompletedOnboarding": true,
		"theme":                  "dark",
		"customApiKeyResponses":  map[string]any{"approved": []string{dummyKey[len(dummyKey)-20:]}, "rejected": []string{}},
		"projects": map[string]any{
			r.Project: map[string]any{"hasTrustDialogAccepted": true, "hasCompletedProjectOnboarding": true},
		},
	})
	if err != nil {
		r.t.Fatal(err)
	}
	r.write(filepath.Join(r.Config, ".claude.json"), b, 0o600)
}

// Settings writes the user's settings.json: v as JSON, or as it stands if v is
// a string. The warning before the mode that asks nothing is switched off
// unless v is a string.
func (r *Rig) Settings(v any) {
	r.t.Helper()
	var b []byte
	switch v := v.(type) {
	case string:
		b = []byte(v)
	case map[string]any:
		full := map[string]any{"skipDangerousModePermissionPrompt": true}
		for k, x := range v {
			full[k] = x
		}
		var err error
		if b, err = json.Marshal(full); err != nil {
			r.t.Fatal(err)
		}
	default:
		r.t.Fatalf("settings of type %T", v)
	}
	r.write(filepath.Join(r.Config, "settings.json"), b, 0o600)
}

// Hooks is the value of settings.json's "hooks" for one command an event, for
// every tool.
func Hooks(commands map[string]string) map[string]any {
	hooks := map[string]any{}
	for event, command := range commands {
		hooks[event] = []any{map[string]any{
			"matcher": "*",
			"hooks":   []any{map[string]any{"type": "command", "command": command}},
		}}
	}
	return hooks
}

// Ran are the names of the files ran-* in the project, sorted: the marks that
// tool calls of scenarios leave behind.
func (r *Rig) Ran() []string {
	r.t.Helper()
	entries, err := os.ReadDir(r.Project)
	if err != nil {
		r.t.Fatal(err)
	}
	var ran []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "ran-") {
			ran = append(ran, e.Name())
		}
	}
	sort.Strings(ran)
	return ran
}

// env is the whole environment of the client: a short list of the caller's
// variables, the rig's own, then extra.
func (r *Rig) env(extra []string) []string {
	var env []string
	for _, k := range []string{"PATH", "LANG", "LC_ALL", "TERM"} {
		if v, ok := os.LookupEnv(k); ok {
			env = append(env, k+"="+v)
		}
	}
	env = append(env,
		rigVariable+"="+r.Dir,
		"HOME="+r.Home, "PWD="+r.Project, "TMPDIR="+r.Tmp, "TMUX_TMPDIR="+r.Tmp,
		"CLAUDE_CODE_TMPDIR="+r.Tmp, "CLAUDE_CONFIG_DIR="+r.Config,
		"GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_SYSTEM="+os.DevNull,
		// Port 9 on loopback is closed: whatever would leave this machine fails at once.
		"HTTP_PROXY=http://127.0.0.1:9", "HTTPS_PROXY=http://127.0.0.1:9",
		"NO_PROXY=127.0.0.1,localhost", "no_proxy=127.0.0.1,localhost",
		"ANTHROPIC_API_KEY="+dummyKey,
		"DO_NOT_TRACK=1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "DISABLE_TELEMETRY=1", "DISABLE_ERROR_REPORTING=1",
		"DISABLE_AUTOUPDATER=1", "DISABLE_UPDATES=1", "DISABLE_BUG_COMMAND=1",
		"IS_SANDBOX=1", // without it the client refuses some modes to root
	)
	if r.Model != nil {
		env = append(env, "ANTHROPIC_BASE_URL="+r.Model.URL())
	}
	return append(env, extra...)
}

func (r *Rig) write(path string, b []byte, mode os.FileMode) {
	r.t.Helper()
	if err := os.WriteFile(path, b, mode); err != nil {
		r.t.Fatal(err)
	}
}
