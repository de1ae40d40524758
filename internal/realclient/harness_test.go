package realclient

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// verdict is a test that records how the code under test ended it.
type verdict struct {
	testing.TB
	fatal, skipped string
	cleanups       []func()
}

func (v *verdict) Helper()                   {}
func (v *verdict) Logf(string, ...any)       {}
func (v *verdict) Context() context.Context  { return v.TB.Context() }
func (v *verdict) Cleanup(f func())          { v.cleanups = append(v.cleanups, f) }
func (v *verdict) Fatal(a ...any)            { v.fatal = fmt.Sprint(a...); runtime.Goexit() }
func (v *verdict) Fatalf(f string, a ...any) { v.fatal = fmt.Sprintf(f, a...); runtime.Goexit() }
func (v *verdict) Skip(a ...any)             { v.skipped = fmt.Sprint(a...); runtime.Goexit() }

// judge runs f as a test of its own would run and then cleans up after it.
func judge(t *testing.T, f func(testing.TB)) *verdict {
	v := &verdict{TB: t}
	var wg sync.WaitGroup
	wg.Go(func() { f(v) })
	wg.Wait()
	for i := len(v.cleanups) - 1; i >= 0; i-- {
		v.cleanups[i]()
	}
	return v
}

func TestMissingSkipsForADeveloperAndFailsInCI(t *testing.T) {
	missing := func(tb testing.TB) { Missing(tb, "no npm here") }
	t.Setenv("CI", "")
	if v := judge(t, missing); v.skipped != "no npm here" || v.fatal != "" {
		t.Errorf("without CI: %+v", v)
	}
	t.Setenv("CI", "true")
	if v := judge(t, missing); v.skipped != "" || !strings.Contains(v.fatal, "no npm here") {
		t.Errorf("with CI: %+v", v)
	}
}

// executable writes a program.
func executable(t *testing.T, path, body string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+body+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

// npmLike is an npm whose packages hold a program that prints version.
func npmLike(t *testing.T, body, version string) (calls string) {
	t.Helper()
	bin := t.TempDir()
	calls = filepath.Join(bin, "calls")
	executable(t, filepath.Join(bin, "npm"), `echo "$@" >>`+Quote(calls)+`
dir=$3; for a; do pkg=${a%@*}; done
`+body+`
mkdir -p "$dir/node_modules/$pkg"
printf '#!/bin/sh\necho "`+version+` (a client)"\n' >"$dir/node_modules/$pkg/claude"
chmod 755 "$dir/node_modules/$pkg/claude"`)
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	return calls
}

func onlyWherePinned(t *testing.T) {
	if runtime.GOOS != "linux" || (runtime.GOARCH != "amd64" && runtime.GOARCH != "arm64") {
		t.Skip("no client is pinned for this system")
	}
}

func TestInstallOnceForAll(t *testing.T) {
	onlyWherePinned(t)
	cache := t.TempDir()
	t.Setenv("PERMD_TEST_CLAUDE", "")
	t.Setenv("PERMD_TEST_CACHE", cache)
	calls := npmLike(t, "sleep 0.2", ClaudeVersion)
	// What an install that was killed would leave.
	arch := map[string]string{"amd64": "x64", "arm64": "arm64"}[runtime.GOARCH]
	stale := filepath.Join(cache, "claude-"+ClaudeVersion+"-"+arch+unfinished+"1")
	if err := os.MkdirAll(stale, 0o700); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if c, err := Find(t.Context()); err != nil || c.Version != ClaudeVersion || !strings.HasPrefix(c.Path, cache) {
				t.Errorf("found %+v, %v", c, err)
			}
		})
	}
	wg.Wait()
	b, err := os.ReadFile(calls)
	if err != nil || strings.Count(string(b), "install ") != 1 {
		t.Errorf("npm ran as %q, %v; want one install", b, err)
	}
	if !strings.Contains(string(b), "@anthropic-ai/claude-code-linux-"+arch+"@"+ClaudeVersion) {
		t.Errorf("npm ran as %q", b)
	}
	if left, _ := filepath.Glob(filepath.Join(cache, "*"+unfinished+"*")); len(left) != 0 {
		t.Errorf("left %v", left)
	}
}

func TestFailedInstallLeavesNothing(t *testing.T) {
	onlyWherePinned(t)
	cases := map[string]struct{ body, version, want string }{
		"npm fails":       {"echo no such package >&2; exit 1", "", "no such package"},
		"another version": {"", "1.0.0", "1.0.0"},
		"no program":      {"exit 0", "", "--version"},
	}
	for name, k := range cases {
		t.Run(name, func(t *testing.T) {
			cache := t.TempDir()
			t.Setenv("PERMD_TEST_CLAUDE", "")
			t.Setenv("PERMD_TEST_CACHE", cache)
			npmLike(t, k.body, k.version)
			c, err := Find(t.Context())
			if !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), k.want) {
				t.Errorf("found %+v, error %v", c, err)
			}
			if left, _ := filepath.Glob(filepath.Join(cache, "claude-*")); len(left) != 0 {
				t.Errorf("left %v", left)
			}
		})
	}
	t.Run("no npm", func(t *testing.T) {
		t.Setenv("PERMD_TEST_CLAUDE", "")
		t.Setenv("PERMD_TEST_CACHE", t.TempDir())
		t.Setenv("PATH", t.TempDir())
		if _, err := Find(t.Context()); !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "install npm") {
			t.Errorf("error %v", err)
		}
	})
	t.Run("locked", func(t *testing.T) {
		cache := t.TempDir()
		t.Setenv("PERMD_TEST_CLAUDE", "")
		t.Setenv("PERMD_TEST_CACHE", cache)
		unlock, err := lock(t.Context(), filepath.Join(cache, "lock"))
		if err != nil {
			t.Fatal(err)
		}
		defer unlock()
		ctx, cancel := context.WithTimeout(t.Context(), 150*time.Millisecond)
		defer cancel()
		if _, err := Find(ctx); !errors.Is(err, ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v", err)
		}
	})
}

func TestOwnProgramInsteadOfThePinnedOne(t *testing.T) {
	own := executable(t, filepath.Join(t.TempDir(), "claude"), "echo '9.9.9 (mine)'")
	t.Setenv("PERMD_TEST_CLAUDE", own)
	if c, err := Find(t.Context()); err != nil || c.Path != own || c.Version != "9.9.9" {
		t.Errorf("found %+v, %v", c, err)
	}
	t.Setenv("PERMD_TEST_CLAUDE", own+"-missing")
	if _, err := Find(t.Context()); !errors.Is(err, ErrUnavailable) {
		t.Errorf("error %v", err)
	}
}

// script is a client that is a shell script.
func script(t *testing.T, body string) *Client {
	return &Client{executable(t, filepath.Join(t.TempDir(), "client"), body), "0"}
}

func TestClientSeesOnlyTheRig(t *testing.T) {
	t.Setenv("ANTHROPIC_API_KEY", "real-key")
	t.Setenv("PERMD_PARENT_SESSION", "claude-outer")
	t.Setenv("CLAUDE_CODE_SESSION_ID", "outer")
	t.Setenv("TMUX", "/somewhere,1,0")
	r := script(t, "pwd; env; echo \"args $*\"").Rig(t, nil)
	res := r.Print(Run{Scenario: "x", Args: []string{"--flag"}, Env: []string{"EXTRA=1", "TERM=other"}})
	for _, bad := range []string{"real-key", "claude-outer", "CLAUDE_CODE_SESSION_ID", "TMUX="} {
		if strings.Contains(res.Stdout, bad) {
			t.Errorf("the client sees %s", bad)
		}
	}
	for _, want := range []string{r.Project + "\n", "HOME=" + r.Home + "\n", "CLAUDE_CONFIG_DIR=" + r.Config + "\n", "EXTRA=1\n", "TERM=other\n", "ANTHROPIC_BASE_URL=" + r.Model.URL() + "\n", "HTTPS_PROXY=http://127.0.0.1:9\n", "args -p SCENARIO:x go --flag\n"} {
		if !strings.Contains(res.Stdout, want) {
			t.Errorf("the client does not see %q", want)
		}
	}
	if len(r.Dir) > 60 {
		t.Errorf("%s is too long for sockets in it", r.Dir)
	}
}

func TestPrintReportsTheEnd(t *testing.T) {
	r := script(t, "echo out; echo err >&2; exit 3").Rig(t, nil)
	if res := r.Print(Run{Wrap: []string{"env", "A=b"}}); res.Code != 3 || res.Stdout != "out\n" || res.Stderr != "err\n" || res.Expired {
		t.Errorf("%+v", res)
	}
	p := r.Start(Run{Wrap: []string{"sh", "-c", "kill -TERM $$"}})
	if res := p.Wait(); res.Code != -1 || res.Expired {
		t.Errorf("%+v", res)
	}
}

// The client, its process group and what left the group have ended with the test.
func TestNothingOutlivesItsTest(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("processes that left the group are found on Linux only")
	}
	const body = `setsid sleep 60 & echo $! >"$HOME/far"; sleep 60 & echo $! >"$HOME/near"; `
	pid := func(r *Rig, name string) (n int) {
		r.WaitFor(name, 10*time.Second, func() bool {
			b, err := os.ReadFile(filepath.Join(r.Home, name))
			n, _ = strconv.Atoi(strings.TrimSpace(string(b)))
			return err == nil && n > 0
		})
		return n
	}
	cases := map[string]struct {
		body   string
		use    func(r *Rig)
		expect string
	}{
		"ended":   {body + "exit 0", func(r *Rig) { r.Print(Run{}) }, ""},
		"expired": {body + "wait", func(r *Rig) { r.Print(Run{Time: 500 * time.Millisecond}) }, "killed after"},
		"terminal": {body + "echo '? for shortcuts'; wait", func(r *Rig) {
			if r.Terminal(Run{}).Pid() <= 1 {
				t.Error("no process id")
			}
		}, ""},
		"terminal that shows nothing": {body + "wait", func(r *Rig) { r.Terminal(Run{Time: time.Second}) }, "the client takes input"},
	}
	for name, k := range cases {
		t.Run(name, func(t *testing.T) {
			c := script(t, k.body)
			var near, far int
			var dir string
			v := judge(t, func(tb testing.TB) {
				r := c.Rig(tb, nil)
				dir = r.Dir
				defer func() { near, far = pid(r, "near"), pid(r, "far") }()
				k.use(r)
			})
			if v.skipped != "" {
				Missing(t, v.skipped)
			}
			if (k.expect == "") != (v.fatal == "") || !strings.Contains(v.fatal, k.expect) {
				t.Errorf("ended with %q, want %q in it", v.fatal, k.expect)
			}
			for _, p := range []int{near, far} {
				if p == 0 || !waitGone(p, 5*time.Second) {
					t.Errorf("process %d still runs", p)
				}
			}
			if _, err := os.Stat(dir); !os.IsNotExist(err) {
				t.Errorf("the rig's folder: %v", err)
			}
		})
	}
}

func TestGone(t *testing.T) {
	if gone(os.Getpid()) {
		t.Error("this process counts as ended")
	}
	p, err := os.StartProcess("/bin/sh", []string{"sh", "-c", "exit 0"}, &os.ProcAttr{})
	if err != nil {
		t.Fatal(err)
	}
	if runtime.GOOS == "linux" && !waitGone(p.Pid, 5*time.Second) {
		t.Error("an ended process that nobody waited for counts as running")
	}
	if _, err := p.Wait(); err != nil {
		t.Fatal(err)
	}
	if !gone(p.Pid) {
		t.Error("an ended process counts as running")
	}
	if waitGone(os.Getpid(), time.Millisecond) {
		t.Error("waited for this process's end and saw it")
	}
}

func TestSettingsAndSpy(t *testing.T) {
	r := script(t, "exit 0").Rig(t, nil)
	settings := func() string {
		b, err := os.ReadFile(filepath.Join(r.Config, "settings.json"))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	if got := settings(); got != `{"skipDangerousModePermissionPrompt":true}` {
		t.Errorf("fresh settings %s", got)
	}
	r.Settings(`{"broken":`)
	if got := settings(); got != `{"broken":` {
		t.Errorf("settings %s", got)
	}
	spy := r.Spy(On("Two", Reply(`it's`)) + "\n" + On("One", "echo $(wc -c <\"$in\") >\"$spy/size\""))
	for _, in := range []string{`{"hook_event_name":"One"}`, `{"hook_event_name":"Two", "tool_input": {"a": 1}}`} {
		cmd := r.Start(Run{Wrap: []string{"sh", "-c", "printf %s " + Quote(in) + " | " + spy.Command}})
		if res := cmd.Wait(); strings.Contains(in, "Two") && res.Stdout != "it's" {
			t.Errorf("hook printed %q", res.Stdout)
		}
	}
	if got := spy.WaitFile("size", time.Second); got != "25\n" {
		t.Errorf("size %q", got)
	}
	all := spy.Events("")
	if len(all) != 2 || all[0].Name != "One" || string(all[1].Input) != `{"a": 1}` || len(spy.Events("Two")) != 1 {
		t.Errorf("events %+v", all)
	}
	if spy.File("none") != "" || len(r.Ran()) != 0 {
		t.Error("files that nobody wrote")
	}
	r.write(filepath.Join(r.Project, "ran-2"), nil, 0o600)
	r.write(filepath.Join(r.Project, "ran-1"), nil, 0o600)
	if got := strings.Join(r.Ran(), ","); got != "ran-1,ran-2" {
		t.Errorf("ran %s", got)
	}
}
