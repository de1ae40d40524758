package session

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"permd/internal/host"
)

func sample() Facts {
	return Facts{Node: "n1-2", Instance: "i", Client: "claude", PID: 12, Start: 99, NodePID: 13, Boot: "b-1", Build: "dev", API: 1,
		Sessions: []Hosted{{"claude-a", "", ""}, {"claude-a.0011223344", "claude-a", "hook"}}}
}

func dirs(t *testing.T) Dirs {
	t.Helper()
	d, err := Find(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Make(); err != nil {
		t.Fatal(err)
	}
	return d
}

func TestFactsRoundTrip(t *testing.T) {
	f, err := DecodeFacts(sample().Encode())
	if err != nil || !reflect.DeepEqual(f, sample()) {
		t.Fatalf("%+v, %v", f, err)
	}
}

func TestFactsBad(t *testing.T) {
	good := string(sample().Encode())
	for name, s := range map[string]string{
		"empty":           "",
		"future version":  strings.Replace(good, "permd-facts 1", "permd-facts 2", 1),
		"no version":      strings.TrimPrefix(good, "permd-facts 1\n"),
		"truncated":       good[:len(good)-10],
		"no last newline": strings.TrimSuffix(good, "\n"),
		"trailing":        good + "x",
		"blank line":      good + "\n",
		"unknown key":     good + "colour red\n",
		"twice":           strings.Replace(good, "pid 12\n", "pid 12\npid 12\n", 1),
		"order":           strings.Replace(good, "pid 12\nstart 99\n", "start 99\npid 12\n", 1),
		"no pid":          strings.Replace(good, "pid 12\n", "pid 0\n", 1),
		"negative pid":    strings.Replace(good, "pid 12\n", "pid -1\n", 1),
		"pid with zero":   strings.Replace(good, "pid 12\n", "pid 012\n", 1),
		"node id":         strings.Replace(good, "node n1-2", "node ../x", 1),
		"session id":      strings.Replace(good, "session claude-a ", "session ../a ", 1),
		"session parts":   strings.Replace(good, "claude-a - -", "claude-a -", 1),
		"crlf":            strings.ReplaceAll(good, "\n", "\r\n"),
		"large":           good + strings.Repeat("session claude-b - -\n", 10000),
	} {
		if _, err := DecodeFacts([]byte(s)); !errors.Is(err, ErrFacts) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzDecodeFacts(f *testing.F) {
	f.Add(sample().Encode())
	f.Add([]byte("permd-facts 1\nnode a\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if x, err := DecodeFacts(b); err == nil && string(x.Encode()) != string(b) {
			t.Fatal("facts parsed but do not write themselves again")
		}
	})
}

func TestFactsNameTheirDirectory(t *testing.T) {
	d := dirs(t)
	for _, id := range []string{"n1-2", "n7-7"} {
		if err := os.Mkdir(string(d.Node(id)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := WriteFacts(d.Node(id), sample()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := ReadFacts(d.Node("n1-2")); err != nil {
		t.Error(err)
	}
	if _, err := ReadFacts(d.Node("n7-7")); !errors.Is(err, ErrFacts) {
		t.Errorf("facts of another node: %v", err)
	}
}

func TestBinding(t *testing.T) {
	d := dirs(t)
	if err := Bind(d, "claude-a", "n1-2"); err != nil {
		t.Fatal(err)
	}
	if n, err := Home(d, "claude-a"); err != nil || n != "n1-2" {
		t.Errorf("%q, %v", n, err)
	}
	if err := Bind(d, "claude-a", "n3-4"); err != nil {
		t.Fatal(err)
	}
	Unbind(d, "claude-a", "n1-2") // names another node by now: stays
	if n, _ := Home(d, "claude-a"); n != "n3-4" {
		t.Errorf("a node removed another's binding: %q", n)
	}
	Unbind(d, "claude-a", "n3-4")
	if _, err := Home(d, "claude-a"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
	for _, id := range []string{"", "..", "a/b", ".x"} {
		if Bind(d, id, "n1-2") == nil || Bind(d, "claude-a", id) == nil {
			t.Errorf("id %q was bound", id)
		}
		if _, err := Home(d, id); err == nil {
			t.Errorf("id %q was looked up", id)
		}
	}
	for name, b := range map[string]string{"empty": "", "no newline": "n1-2", "path": "../x\n", "two": "n1-2\nn\n"} {
		if err := os.WriteFile(filepath.Join(d.Sessions(), "claude-b"), []byte(b), 0o600); err != nil {
			t.Fatal(err)
		}
		if n, err := Home(d, "claude-b"); err == nil {
			t.Errorf("%s: %q", name, n)
		}
	}
}

func TestDirs(t *testing.T) {
	for _, k := range []string{"HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR", "PERMD_ROOT", "PERMD_SOCKET"} {
		t.Setenv(k, "/hostile")
	}
	d, err := Find("")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{d.Config, d.State, d.Run, d.Home, d.Managed} {
		if strings.Contains(p, "hostile") || !filepath.IsAbs(p) {
			t.Errorf("the environment moved a directory: %s", p)
		}
	}
	if r, err := RunDir(""); err != nil || r != d.Run {
		t.Errorf("the hook looks in %q, the node in %q, %v", r, d.Run, err)
	}
	if _, err := Find("relative"); err == nil {
		t.Error("a relative --root is accepted")
	}
	if _, err := RunDir("relative"); err == nil {
		t.Error("a relative --root is accepted by the hook")
	}
}

func TestReap(t *testing.T) {
	d := dirs(t)
	for _, id := range []string{"n1-1", "n2-2", "n3-3"} {
		if err := os.Mkdir(string(d.Node(id)), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	alive, err := host.AcquireLock(d.Node("n1-1").Lock())
	if err != nil {
		t.Fatal(err)
	}
	defer alive.Close()
	dead, err := host.AcquireLock(d.Node("n2-2").Lock())
	if err != nil {
		t.Fatal(err)
	}
	dead.Close()
	for s, n := range map[string]string{"claude-a": "n1-1", "claude-b": "n2-2"} {
		if err := Bind(d, s, n); err != nil {
			t.Fatal(err)
		}
	}
	if err := Bind(d, "claude-c", "n4-4"); err != nil { // its node ended between the two removals
		t.Fatal(err)
	}
	ended := exec.Command("true")
	if err := ended.Run(); err != nil {
		t.Fatal(err)
	}
	for _, pid := range []int{ended.Process.Pid, os.Getpid()} { // killed while it bound; binding
		if err := os.WriteFile(filepath.Join(d.Sessions(), fmt.Sprintf("%s%d-a-1", host.TempPrefix, pid)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	start, err := host.AcquireLock(filepath.Join(d.Run, "start.lock"))
	if err != nil {
		t.Fatal(err)
	}
	if gone, err := Reap(d); err != nil || len(gone) != 0 {
		t.Errorf("reaped %v while a node starts, %v", gone, err)
	}
	start.Close()
	gone, err := Reap(d)
	if err != nil || len(gone) != 2 {
		t.Errorf("reaped %v, %v", gone, err)
	}
	if _, err := os.Stat(string(d.Node("n1-1"))); err != nil {
		t.Error("a living node was reaped")
	}
	if _, err := Home(d, "claude-a"); err != nil {
		t.Error("a living node's binding was reaped")
	}
	left, err := os.ReadDir(d.Sessions())
	if err != nil || len(left) != 2 || left[0].Name() != fmt.Sprintf("%s%d-a-1", host.TempPrefix, os.Getpid()) || left[1].Name() != "claude-a" {
		t.Errorf("left of the bindings: %v, %v", left, err)
	}
}

// A session that is bound anew while a dead node's binding is removed stays
// bound.
func TestUnbindWhileBinding(t *testing.T) {
	d := dirs(t)
	if err := os.Mkdir(string(d.Node("n1-1")), 0o700); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 300 {
			Unbind(d, "claude-a", "n2-2")
			unbindAll(d)
		}
	}()
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
		}
		if err := errors.Join(Bind(d, "claude-a", "n2-2"), Bind(d, "claude-a", "n1-1")); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := Home(d, "claude-a"); err != nil || n != "n1-1" {
		t.Errorf("%q, %v", n, err)
	}
}
