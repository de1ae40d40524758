package review

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// testBinary is the way to this test binary that any user has.
func testBinary() string {
	if runtime.GOOS == "linux" {
		return "/proc/self/exe"
	}
	return os.Args[0]
}

func init() {
	// writer commits from several goroutines without end and prints the id of
	// each record once it is acknowledged.
	helpers["writer"] = func(args []string) int {
		opt := Options{Dir: args[0], Writer: args[1], Version: "test", MaxFile: 64 << 10}
		l, err := Open(opt)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		var mu sync.Mutex
		var wg sync.WaitGroup
		for g := range 4 {
			wg.Go(func() {
				for i := 0; ; i++ {
					id := fmt.Sprintf("%s-%d-%d", args[2], g, i)
					l.Append(Event{Name: AskWaiting, Ask: "w" + id})
					if err := l.Commit(context.Background(), allowed(id)); err != nil {
						fmt.Fprintln(os.Stderr, err)
						os.Exit(1)
					}
					mu.Lock()
					fmt.Println(id)
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		return 0
	}
}

// A writer that is killed at any moment has lost nothing it acknowledged,
// leaves nothing that looks like tampering, and the next one goes on.
func TestT1KilledWriterLosesNothing(t *testing.T) {
	dir := stateDir(t)
	kills := 25
	if testing.Short() {
		kills = 5
	}
	acked := map[string]bool{}
	for k := range kills {
		var errs bytes.Buffer
		cmd := exec.Command(testBinary(), dir, "n1", fmt.Sprint("k", k))
		cmd.Env = append(os.Environ(), "REVIEW_TEST_HELPER=writer")
		cmd.Stderr = &errs
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		read := bufio.NewScanner(out)
		// The first lines say that it is at work; then after a different time.
		for n := 0; n <= k*3 && read.Scan(); n++ {
			acked[read.Text()] = true
		}
		cmd.Process.Kill()
		for read.Scan() {
			acked[read.Text()] = true
		}
		cmd.Wait()
		if errs.Len() > 0 {
			t.Fatalf("writer: %s", errs.String())
		}
		r, err := Verify(dir)
		if err != nil || r.Status == Tampered || !strings.Contains(r.String(), "without a closing head") {
			t.Fatalf("after kill %d: %v, %s", k, err, r.String())
		}
	}
	if n, err := Sweep(context.Background(), options(dir, "")); n != 1 || err != nil {
		t.Fatalf("swept %d, %v", n, err)
	}
	r, err := Verify(dir)
	if err != nil || r.Status > Incomplete || r.Status == Incomplete && !strings.Contains(r.String(), "torn_tail") {
		t.Errorf("%v, %s", err, r.String())
	}
	got := ids(t, dir, "n1")
	for id := range acked {
		if !got[id] {
			t.Errorf("%s was acknowledged and is not there", id)
		}
	}
	if len(acked) < kills+3*kills*(kills-1)/2 {
		t.Errorf("only %d records", len(acked))
	}
	t.Logf("%d kills, %d acknowledged records, %d in %d files", kills, len(acked), r.Logs[0].Records, r.Logs[0].Files)
}

// case: f-torn-line. The torn piece is set aside, the next record is whole, and
// the verification says where the gap is.
func TestTornEndIsSetAside(t *testing.T) {
	whole := func(dir string) (string, []byte) {
		l := mustOpen(t, options(dir, "n1"))
		mustCommit(t, l, allowed("A1"))
		mustClose(t, l)
		file := filepath.Join(dir, "n1", fileName(1))
		return file, readFile(t, file)
	}
	for what, tear := range map[string]func(b []byte) []byte{
		"half a record":       func(b []byte) []byte { return append(b, `{"v":1,"seq":5,"pre`...) },
		"a record's newline":  func(b []byte) []byte { return append(b, `{"v":1}`...) },
		"zeros":               func(b []byte) []byte { return append(b, make([]byte, 5000)...) },
		"zeros and a newline": func(b []byte) []byte { return append(append(b, make([]byte, 40)...), '\n') },
		"half of one, one":    func(b []byte) []byte { return append(append(b, "{\"v\":1,\n"...), lines(b)[1]...) },
		"a long line":         func(b []byte) []byte { return append(b, bytes.Repeat([]byte("x"), 3*MaxLine)...) },
		"an old record":       func(b []byte) []byte { return append(b, lines(b)[2]...) },
	} {
		dir := stateDir(t)
		file, b := whole(dir)
		// Without the closing head, as after a crash.
		all := lines(b)
		open := bytes.Join(all[:len(all)-2], nil)
		torn := tear(bytes.Clone(open))
		if err := os.WriteFile(file, torn, 0o600); err != nil {
			t.Fatal(err)
		}
		l := mustOpen(t, options(dir, "n1"))
		mustCommit(t, l, allowed("A2"))
		mustClose(t, l)
		got := logLines(t, dir, "n1")
		if !strings.Contains(eventNames(got), "permission_request.approved log.resumed gap log.ledger permission_request.approved log.head") {
			t.Errorf("%s: %s", what, eventNames(got))
			continue
		}
		gapLine := got[len(got)-4]
		kept := readFile(t, filepath.Join(dir, "n1", gapLine.Field(KeySetAside)))
		if !bytes.Equal(kept, torn[len(open):]) || gapLine.Field(KeyOffset) != fmt.Sprint(len(open)) || gapLine.Field(KeyCause) != "torn_tail" {
			t.Errorf("%s: %d bytes kept of %d, %v", what, len(kept), len(torn)-len(open), gapLine.Fields)
		}
		// The ledger knew of a closing head that is not there any more: here it
		// was taken off by hand.
		r := mustVerify(t, dir, Tampered)
		found := false
		for _, p := range r.Problems {
			found = found || p.Status == Incomplete && p.Seq == gapLine.Seq && p.File == fileName(1) && strings.Contains(p.What, "torn_tail")
		}
		if !found {
			t.Errorf("%s: the gap is not reported: %s", what, r.String())
		}
		// And what was set aside is not to be changed either.
		if err := os.WriteFile(filepath.Join(dir, "n1", gapLine.Field(KeySetAside)), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
		if r := mustVerify(t, dir, Tampered); !strings.Contains(r.String(), "set aside, is missing or changed") {
			t.Errorf("%s: %s", what, r.String())
		}
		checkModes(t, dir)
	}
}

// A file whose beginning is no header is left as it is; the log goes on in the
// next one, and the verification tells.
func TestUnreadableFileIsLeft(t *testing.T) {
	for _, content := range []string{"", "garbage", "garbage\n", "{}\n"} {
		dir := stateDir(t)
		l := mustOpen(t, options(dir, "n1"))
		mustClose(t, l)
		file := filepath.Join(dir, "n1", fileName(1))
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		l = mustOpen(t, options(dir, "n1"))
		mustCommit(t, l, allowed("A"))
		mustClose(t, l)
		if got := readFile(t, file); string(got) != content {
			t.Errorf("%q became %q", content, got)
		}
		if !ids(t, dir, "n1")["A"] {
			t.Errorf("%q: the record is not there", content)
		}
		mustVerify(t, dir, Tampered)
	}
}

func TestSweepLeavesTheLivingAlone(t *testing.T) {
	dir := stateDir(t)
	ctx := context.Background()
	if n, err := Sweep(ctx, options(dir, "")); n != 0 || err != nil {
		t.Errorf("nothing there: %d, %v", n, err)
	}
	live := mustOpen(t, options(dir, "live"))
	mustCommit(t, live, allowed("A"))
	mustClose(t, mustOpen(t, options(dir, "closed")))
	before := len(logLines(t, dir, "closed"))
	if n, err := Sweep(ctx, options(dir, "")); n != 0 || err != nil {
		t.Errorf("swept %d, %v", n, err)
	}
	if after := len(logLines(t, dir, "closed")); after != before {
		t.Errorf("%d records became %d", before, after)
	}
	mustCommit(t, live, allowed("B"))
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := Sweep(cancelled, options(dir, "")); err == nil {
		t.Error("a cancelled sweep went on")
	}
	mustClose(t, live)
	mustVerify(t, dir, Intact)
}

// Many processes begin at once: the ledger's chain holds, one key is made.
func TestManyProcessesShareTheLedger(t *testing.T) {
	dir := stateDir(t)
	var wg sync.WaitGroup
	start := time.Now()
	for i := range 6 {
		wg.Go(func() {
			cmd := exec.Command(testBinary(), dir, fmt.Sprint("n", i), fmt.Sprint("k", i))
			cmd.Env = append(os.Environ(), "REVIEW_TEST_HELPER=writer")
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Error(err)
				return
			}
			if err := cmd.Start(); err != nil {
				t.Error(err)
				return
			}
			read := bufio.NewScanner(out)
			for n := 0; n < 20; n++ {
				if !read.Scan() {
					t.Errorf("writer %d ended after %d records", i, n)
					break
				}
			}
			cmd.Process.Kill()
			for read.Scan() {
			}
			cmd.Wait()
		})
	}
	// Beside them the verification sees living logs, and nothing wrong.
	for range 5 {
		if r, err := Verify(dir); err == nil && r.Status == Tampered {
			t.Errorf("beside living writers: %s", r.String())
		}
	}
	wg.Wait()
	if n, err := Sweep(context.Background(), options(dir, "")); n != 6 || err != nil {
		t.Errorf("swept %d, %v", n, err)
	}
	r, err := Verify(dir)
	if err != nil || r.Status > Incomplete || len(r.Logs) != 6 {
		t.Errorf("%v, %s", err, r.String())
	}
	t.Logf("in %v", time.Since(start))
}
