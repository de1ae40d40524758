package review

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"permd/ask"
)

// helpers are what this test binary does when it is started as a child.
var helpers = map[string]func(args []string) int{}

func TestMain(m *testing.M) {
	if name := os.Getenv("REVIEW_TEST_HELPER"); name != "" {
		os.Exit(helpers[name](os.Args[1:]))
	}
	goleak.VerifyTestMain(m)
}

// stateDir is a review directory that does not exist yet.
func stateDir(t testing.TB) string {
	t.Helper()
	base := t.TempDir()
	if err := os.Chmod(base, 0o700); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(base, "state", "review")
}

func options(dir, writer string) Options {
	return Options{Dir: dir, Writer: writer, Version: "test"}
}

func mustOpen(t testing.TB, opt Options) *Log {
	t.Helper()
	l, err := Open(opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func mustClose(t testing.TB, l *Log) {
	t.Helper()
	if err := l.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
}

func mustCommit(t testing.TB, l *Log, ev Event) {
	t.Helper()
	if err := l.Commit(context.Background(), ev); err != nil {
		t.Fatalf("commit: %v", err)
	}
}

func mustAppend(t testing.TB, l *Log, ev Event) {
	t.Helper()
	if err := l.Append(ev); err != nil {
		t.Fatalf("append: %v", err)
	}
}

func verdict(v ask.Verdict) *ask.Verdict { return &v }

func digestOf(s string) *ask.Digest {
	d := ask.BodyDigest([]byte(s))
	return &d
}

// allowed is an event as a node commits it; id is found again by ids.
func allowed(id string) Event {
	return Event{
		Name: AskApproved, Session: "claude-1", Ask: id,
		Path:   []ask.Hop{{Session: "claude-1.ab", Node: "n2"}, {Session: "claude-1", Node: "n1"}},
		Digest: digestOf(id), ActionDigest: digestOf("a" + id),
		Verdict: verdict(ask.Allow), Outcome: ask.Answered,
		By:     &ask.By{Kind: ask.KindUser, Session: "claude-1", Surface: "desk"},
		Reason: "allowed at the desk",
		Action: &Action{Client: "claude", Tool: ask.ToolBash, ClientTool: "Bash", Command: "make test", Cwd: "/home/dev/proj"},
		Fields: []Field{{KeyWaitedMS, "1200"}},
	}
}

func denied(id string) Event {
	ev := allowed(id)
	ev.Name, ev.Verdict, ev.Reason = AskDenied, verdict(ask.Deny), "not now"
	return ev
}

// mustVerify fails unless the directory has this status.
func mustVerify(t testing.TB, dir string, want Status) Report {
	t.Helper()
	r, err := Verify(dir)
	if err != nil {
		t.Fatalf("verify: %v", err)
	}
	if r.Status != want {
		t.Fatalf("status %v, want %v:\n%s\n%s", r.Status, want, r.String(), dump(dir))
	}
	return r
}

// lineAt reads the whole lines of a log, over all its files.
func logLines(t testing.TB, dir, writer string) []Line {
	t.Helper()
	var all []Line
	err := Scan(dir, Filter{Writer: writer}, func(r Record) error {
		if r.Err != nil {
			t.Errorf("%s/%s at %d: %v", r.Writer, r.File, r.Offset, r.Err)
		}
		all = append(all, r.Line)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// ids gives the asks that a log has records of; what cannot be read does not
// count.
func ids(t testing.TB, dir, writer string) map[string]bool {
	t.Helper()
	got := map[string]bool{}
	err := Scan(dir, Filter{Writer: writer}, func(r Record) error {
		if r.Err == nil && r.Ask != "" {
			got[r.Ask] = true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func eventNames(lines []Line) string {
	var names []string
	for _, l := range lines {
		names = append(names, string(l.Event))
	}
	return strings.Join(names, " ")
}

// dump shows what is in a directory.
func dump(dir string) string {
	var b strings.Builder
	filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil
		}
		raw, _ := os.ReadFile(p)
		rel, _ := filepath.Rel(dir, p)
		fmt.Fprintf(&b, "%s (%d bytes)\n", rel, len(raw))
		if strings.HasSuffix(p, ".jsonl") {
			for line := range strings.Lines(string(raw)) {
				fmt.Fprintf(&b, "    %.200s\n", strings.TrimRight(line, "\n"))
			}
		}
		return nil
	})
	return b.String()
}

// memoryDir is a review directory in memory, where there is one: what is
// tested here is not the disk. Its parent exists.
func memoryDir(t testing.TB) string {
	t.Helper()
	at := ""
	if fi, err := os.Stat("/dev/shm"); err == nil && fi.IsDir() {
		at = "/dev/shm"
	}
	base, err := os.MkdirTemp(at, "review-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(base) })
	state := filepath.Join(base, "state")
	if err := os.Mkdir(state, 0o700); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(state, "review")
}
