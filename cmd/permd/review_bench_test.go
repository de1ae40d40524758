package main

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"permd/ask"
	"permd/review"
	"permd/session"
)

// Bounds: filter-x-jq >= 5, filter-rss-x-size <= 1.2.

// bigLog writes a record of so many lines, in one file, as busy days would:
// what rules let run, what people were asked, what came of it, and one call in
// thirty denied to a shell.
func bigLog(b *testing.B, lines int) (root, dir string) {
	b.Helper()
	root = b.TempDir()
	if err := os.Chmod(root, 0o700); err != nil {
		b.Fatal(err)
	}
	d, err := session.Find(root)
	if err == nil {
		err = d.Make()
	}
	if err != nil {
		b.Fatal(err)
	}
	l, err := review.Open(review.Options{Dir: d.Review(), Writer: "n1", Version: "bench", MaxFile: 1 << 40})
	if err != nil {
		b.Fatal(err)
	}
	allow, deny := ask.Allow, ask.Deny
	for i := range lines {
		id := fmt.Sprintf("01a22f3d-402f-76eb-9c0c-%012x", i)
		digest := ask.Digest{byte(i), byte(i >> 8), byte(i >> 16)}
		e := review.Event{Name: review.AskAutoApproved, Session: fmt.Sprint("claude-", i%7), Ask: id, Digest: &digest, ActionDigest: &digest,
			Verdict: &allow, By: &ask.By{Kind: ask.KindRule, Rule: &ask.RuleRef{Layer: "user", File: "/home/dev/.config/permd/policy.toml", Line: i % 50}},
			Action: &review.Action{Client: "claude", Tool: ask.ToolBash, ClientTool: "Bash", Call: fmt.Sprint("toolu_", i), Cwd: "/home/dev/proj",
				Command: fmt.Sprintf("go test ./internal/part%d -run 'Test%d' -count=1", i%91, i)}}
		switch i % 30 {
		case 3, 9, 14, 21:
			e.Action.Tool, e.Action.ClientTool, e.Action.Command = ask.ToolRead, "Read", ""
			e.Action.Paths = []ask.Path{{Given: "src/main.go", Real: "/home/dev/proj/src/main.go", Access: ask.AccessRead}}
		case 5, 11:
			e = review.Event{Name: review.Effect, Session: e.Session, Ask: id, ActionDigest: &digest,
				Fields: []review.Field{{Key: review.KeyEffect, Value: "ran"}, {Key: review.KeyExitCode, Value: "0"}}}
		case 17:
			e.Name, e.Verdict, e.Outcome, e.Reason = review.AskDenied, &deny, ask.Answered, "history of shared branches is not rewritten"
			e.Action.Command = fmt.Sprint("git push --force origin part", i)
		case 23:
			e.Name, e.Outcome, e.By = review.AskApproved, ask.Answered, &ask.By{Kind: ask.KindUser, Session: e.Session, Surface: "desk"}
		}
		if i%1000 == 0 {
			err = l.Commit(context.Background(), e)
		} else {
			err = l.Append(e)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	if err := l.Close(); err != nil {
		b.Fatal(err)
	}
	return root, d.Review()
}

// built is the real command.
func built(b *testing.B) string {
	b.Helper()
	name := filepath.Join(b.TempDir(), "permd")
	if out, err := exec.Command("go", "build", "-o", name, "permd/cmd/permd").CombinedOutput(); err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	return name
}

// timed runs a command to its end: how long, its output, its largest memory in
// MiB.
func timed(b *testing.B, name string, args ...string) (took time.Duration, out []byte, mib float64) {
	b.Helper()
	c := exec.Command(name, args...)
	var stdout, stderr bytes.Buffer
	c.Stdout, c.Stderr = &stdout, &stderr
	begin := time.Now()
	err := c.Run()
	took = time.Since(begin)
	if err != nil {
		b.Fatalf("%s: %v: %s", name, err, stderr.String())
	}
	rss := float64(c.ProcessState.SysUsage().(*syscall.Rusage).Maxrss) / 1024
	return took, stdout.Bytes(), rss
}

func middle(d []float64) float64 {
	slices.Sort(d)
	return d[len(d)/2]
}

// BenchmarkReviewFilter finds the calls of a shell that were denied, as a
// person would with the command, and with jq on the same file.
func BenchmarkReviewFilter(b *testing.B) {
	jq, err := exec.LookPath("jq")
	if err != nil {
		b.Skip("jq is not installed; scripts/setup installs it")
	}
	permd := built(b)
	root, dir := bigLog(b, 25_000)
	bigRoot, bigDir := bigLog(b, 200_000)
	log := filepath.Join(dir, "n1", "000001.jsonl")
	query := func(root string) (time.Duration, []byte, float64) {
		return timed(b, permd, "--root", root, "review", "query", "--tool", "bash", "--decision", "deny", "--json")
	}
	var ours, theirs, small, big []float64
	for b.Loop() {
		t, out, mib := query(root)
		ours, small = append(ours, t.Seconds()), append(small, mib)
		t, want, _ := timed(b, jq, "-c", `select(.verdict == "deny" and .action.tool == "bash")`, log)
		theirs = append(theirs, t.Seconds())
		if !bytes.Equal(out, want) || bytes.Count(out, []byte("\n")) < 500 {
			b.Fatalf("permd found %d records, jq %d", bytes.Count(out, []byte("\n")), bytes.Count(want, []byte("\n")))
		}
		_, _, mib = query(bigRoot)
		big = append(big, mib)
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(middle(theirs)/middle(ours), "filter-x-jq")
	b.ReportMetric(middle(big)/middle(small), "filter-rss-x-size")
	b.ReportMetric(middle(big), "filter-rss-MiB") // for information
	b.ReportMetric(float64(bytesIn(b, dir))/1e6/middle(ours), "filter-MB/s")
	b.ReportMetric(float64(bytesIn(b, bigDir))/float64(bytesIn(b, dir)), "x-larger")
}

func bytesIn(b *testing.B, dir string) (n int64) {
	b.Helper()
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		fi, err := d.Info()
		if err == nil {
			n += fi.Size()
		}
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	return n
}
