package forwarding

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"permd/session"
)

// rounds is how often a process is killed.
func rounds(n int) int {
	if testing.Short() {
		return max(5, n/50)
	}
	return n
}

// writerProcess puts letters into the mailbox of a node as fast as it can, and
// says the number of each that was acknowledged. Its input names the first.
func writerProcess() error {
	j, err := theJob()
	if err != nil {
		return err
	}
	dirs, err := session.Find(j.Root)
	if err != nil {
		return err
	}
	d, err := OpenDisk(dirs, j.Node, nil)
	if err != nil {
		return err
	}
	out := make([]byte, 0, 24)
	for i := uint64(j.Count) + 1; ; i++ {
		body := pattern(i)
		if err := d.Put(context.Background(), j.Parent, Name{j.Node, "i1", i, KindAsk, "ask"}, body); err != nil {
			return err
		}
		out = append(strconv.AppendUint(out[:0], i, 10), '\n')
		if _, err := os.Stdout.Write(out); err != nil {
			return nil
		}
	}
}

// pattern is a letter whose bytes say whether it is whole.
func pattern(i uint64) []byte {
	sum := sha256.Sum256([]byte(strconv.FormatUint(i, 10)))
	return bytes.Repeat(sum[:], 1+int(i*7919%2048))
}

// T1: a writer that is killed at any moment loses no letter that was
// acknowledged, and shows none that is torn.
func TestKillTheWriter(t *testing.T) {
	root := rootDir(t)
	dirs, err := session.Find(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []string{"lead", "child"} {
		if err := os.MkdirAll(string(dirs.Node(n)), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	d, err := OpenDisk(dirs, "lead", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	var last uint64
	acked, unacked, kills := 0, 0, rounds(1000)
	for range kills {
		p := run(t, job{Do: "writer", Root: root, Node: "child", Parent: "lead", Count: int(last)})
		time.AfterFunc(time.Duration(rand.Int64N(int64(12*time.Millisecond))), func() { _ = p.cmd.Process.Kill() })
		said := map[uint64]bool{}
		for s := p.line(); s != ""; s = p.line() {
			n, err := strconv.ParseUint(s, 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			said[n] = true
		}
		p.kill()
		seen := map[uint64]bool{}
		d.mu.Lock()
		d.scanAt = time.Time{}
		d.mu.Unlock()
		d.Wake()
		for more := true; more; {
			more, err = d.Take(func(n Name, raw []byte) error {
				if seen[n.Counter] || !bytes.Equal(raw, pattern(n.Counter)) {
					t.Errorf("letter %d came twice, or is torn: %d bytes", n.Counter, len(raw))
				}
				seen[n.Counter] = true
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		for n := range said {
			if !seen[n] {
				t.Fatalf("letter %d was acknowledged and is lost", n)
			}
		}
		for n := range seen {
			last = max(last, n)
			if !said[n] {
				unacked++
			}
		}
		acked += len(said)
		if len(seen) > len(said)+1 {
			// More than one can be put and not yet said only if the pipe lost it.
			t.Fatalf("%d letters, %d acknowledged", len(seen), len(said))
		}
	}
	d.Sweep("child")
	left, err := os.ReadDir(filepath.Join(dirs.Node("lead").Mail(), "tmp"))
	if err != nil || len(left) != 0 {
		t.Fatalf("%d leftovers after the sweep, %v", len(left), err)
	}
	t.Logf("%d kills, %d acknowledged, 0 lost, 0 torn, %d put but not acknowledged", kills, acked, unacked)
	if acked < kills {
		t.Errorf("only %d letters in %d kills: the writer hardly came to write", acked, kills)
	}
}

// readerProcess takes letters and says each before it lets go of it.
func readerProcess() error {
	j, err := theJob()
	if err != nil {
		return err
	}
	dirs, err := session.Find(j.Root)
	if err != nil {
		return err
	}
	d, err := OpenDisk(dirs, j.Node, nil)
	if err != nil {
		return err
	}
	for {
		_, err := d.Take(func(n Name, raw []byte) error {
			if !bytes.Equal(raw, pattern(n.Counter)) {
				return errors.New("torn")
			}
			_, err := fmt.Println(n.Counter)
			return err
		})
		if err != nil {
			return err
		}
		d.Wake()
	}
}

// T1, the other end: a reader that is killed loses nothing that was put; what
// it had in hand may come to its successor again.
func TestKillTheReader(t *testing.T) {
	root := rootDir(t)
	dirs, err := session.Find(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []string{"lead", "child"} {
		if err := os.MkdirAll(string(dirs.Node(n)), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	d, err := OpenDisk(dirs, "child", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if err := os.MkdirAll(filepath.Join(dirs.Node("lead").Mail(), "tmp"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := makeBox(dirs.Node("lead").Mail()); err != nil {
		t.Fatal(err)
	}
	kills := rounds(200)
	stop := make(chan struct{})
	var put uint64
	var writer sync.WaitGroup
	writer.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			n := put + 1
			if err := d.Put(context.Background(), "lead", Name{"child", "i1", n, KindAsk, "ask"}, pattern(n)); err != nil {
				t.Error(err)
				return
			}
			put = n
			time.Sleep(200 * time.Microsecond)
		}
	})
	seen := map[uint64]int{}
	read := func(p *process) {
		for s := p.line(); s != ""; s = p.line() {
			n, err := strconv.ParseUint(s, 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			seen[n]++
		}
	}
	for range kills {
		p := run(t, job{Do: "reader", Root: root, Node: "lead"})
		time.AfterFunc(time.Duration(rand.Int64N(int64(15*time.Millisecond))), func() { _ = p.cmd.Process.Kill() })
		read(p)
		p.kill()
	}
	close(stop)
	writer.Wait()
	p := run(t, job{Do: "reader", Root: root, Node: "lead"})
	deadline := time.Now().Add(20 * time.Second)
	for {
		l, err := os.ReadDir(filepath.Join(dirs.Node("lead").Mail(), "new"))
		if err == nil && len(l) == 0 {
			break
		}
		if err != nil || time.Now().After(deadline) {
			t.Fatalf("%d letters left, %v", len(l), err)
		}
		time.Sleep(10 * time.Millisecond)
	}
	time.AfterFunc(20*time.Millisecond, func() { _ = p.cmd.Process.Kill() })
	read(p)
	twice := 0
	for n := uint64(1); n <= put; n++ {
		switch {
		case seen[n] == 0:
			t.Fatalf("letter %d of %d is lost", n, put)
		case seen[n] > 1:
			twice += seen[n] - 1
		}
	}
	if twice > kills {
		t.Fatalf("%d letters came again in %d kills", twice, kills)
	}
	t.Logf("%d kills, %d letters, 0 lost, %d came again", kills, put, twice)
}

// recorded reads what a parent process put on its record.
func recorded(t *testing.T, file string) map[string]int {
	t.Helper()
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return map[string]int{}
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	got := map[string]int{}
	for sc := bufio.NewScanner(f); sc.Scan(); {
		got[sc.Text()]++
	}
	return got
}

// checkAnswers holds what children were told against the parent's record: no
// allow that is not recorded, no ask decided twice.
func checkAnswers(t *testing.T, list []answer, record map[string]int) (allowed int) {
	t.Helper()
	for line, n := range record {
		if n != 1 {
			t.Errorf("%q was decided %d times", line, n)
		}
	}
	seen := map[string]bool{}
	for _, a := range list {
		if seen[a.id] {
			t.Errorf("%s was answered twice", a.id)
		}
		seen[a.id] = true
		switch a.verdict {
		case "allow":
			allowed++
			if record[a.id+" allow"] != 1 {
				t.Errorf("%s was allowed, and the record does not know it", a.id)
			}
		case "wrong":
			t.Errorf("%+v", a)
		}
	}
	return allowed
}

// A parent that is killed while children ask: whatever they were allowed is on
// its record, nothing twice, and everybody is told in time.
func TestKillTheParent(t *testing.T) {
	kills := rounds(60)
	allowed, lost := 0, 0
	for i := range kills {
		root := rootDir(t)
		record := filepath.Join(root, "record")
		parent := run(t, job{Do: "parent", Root: root, Node: "lead", Record: record}).ready()
		child := run(t, job{Do: "child", Root: root, Node: "c1", Parent: "lead", Count: 1500, Each: 4}).ready()
		child.do()
		time.Sleep(time.Duration(rand.Int64N(int64(30 * time.Millisecond))))
		_ = parent.cmd.Process.Kill()
		begin := time.Now()
		list := child.answers()
		if d := time.Since(begin); d > 5*time.Second {
			t.Fatalf("round %d: the child was told after %s", i, d)
		}
		parent.wait()
		allowed += checkAnswers(t, list, recorded(t, record))
		for _, a := range list {
			if a.verdict == "error" {
				lost++
				if !strings.Contains(a.text, "lost") && !strings.Contains(a.text, "reached") {
					t.Errorf("%+v", a)
				}
			}
		}
		_ = child.end()
	}
	t.Logf("%d kills, %d asks allowed and recorded, %d told that the parent is lost", kills, allowed, lost)
}

// Children that are killed while they ask leave nothing: no ask that waits, no
// file in the mailbox; the others are not disturbed.
func TestKillTheChild(t *testing.T) {
	root := rootDir(t)
	record := filepath.Join(root, "record")
	run(t, job{Do: "parent", Root: root, Node: "lead", Record: record}).ready()
	steady := run(t, job{Do: "child", Root: root, Node: "steady", Parent: "lead", Count: 2000, ID: "s-"}).ready()
	steady.do()
	kills := rounds(60)
	for i := range kills {
		id := ""
		if i%2 == 0 {
			id = "wait-"
		}
		child := run(t, job{Do: "child", Root: root, Node: fmt.Sprintf("c%d", i), Parent: "lead", Count: 5000, Each: 4, ID: id}).ready()
		child.do()
		time.Sleep(time.Duration(rand.Int64N(int64(10 * time.Millisecond))))
		child.kill()
	}
	for _, a := range steady.answers() {
		if a.verdict != "allow" {
			t.Errorf("%+v", a)
		}
	}
	for line, n := range recorded(t, record) {
		if n != 1 {
			t.Errorf("%q was decided %d times", line, n)
		}
	}
	dirs, err := session.Find(root)
	if err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(10 * time.Second)
	for {
		var left []string
		for _, dir := range []string{"new", "tmp"} {
			l, err := os.ReadDir(filepath.Join(dirs.Node("lead").Mail(), dir))
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range l {
				left = append(left, e.Name())
			}
		}
		if len(left) == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("left in the mailbox: %q", left)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// 0 wrong, lost or doubled asks in 5,000 from processes that come and go, 150
// of them at once though a user has 128 inotify instances: the file events of
// every second one are taken away.
func TestManyChildrenComeAndGo(t *testing.T) {
	waves, each, asks := 3, 150, 12
	if testing.Short() {
		waves, each, asks = 1, 24, 10
	}
	root := rootDir(t)
	record := filepath.Join(root, "record")
	run(t, job{Do: "parent", Root: root, Node: "lead", Record: record}).ready()
	var all []answer
	for w := range waves {
		var list []*process
		for i := range each {
			list = append(list, run(t, job{Do: "child", Root: root, Node: fmt.Sprintf("c%d-%d", w, i), Parent: "lead", Count: asks, Each: 2, NoFile: i%2 == 0}))
		}
		for _, p := range list {
			p.ready()
		}
		for _, p := range list {
			p.do()
		}
		for _, p := range list {
			all = append(all, p.answers()...)
			_ = p.end()
		}
	}
	if want := waves * each * asks; len(all) != want {
		t.Fatalf("%d answers to %d asks", len(all), want)
	}
	if n := checkAnswers(t, all, recorded(t, record)); n != len(all) {
		t.Fatalf("%d of %d allowed", n, len(all))
	}
	var slowest time.Duration
	for _, a := range all {
		slowest = max(slowest, a.took)
	}
	t.Logf("%d asks from %d processes, 0 wrong, lost or doubled; the slowest took %s", len(all), waves*each, slowest)
}

// T17: after many asks there are as many descriptors and goroutines as before;
// goleak looks at the goroutines.
func TestNothingLeaks(t *testing.T) {
	n := 3000
	if testing.Short() || raceOn {
		n = 500
	}
	before := descriptors(t)
	d := newDuo(t)
	for i := range n {
		a, err := testAsk("a", fmt.Sprintf("ask-%d", i))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := d.child.Authorize(t.Context(), a); err != nil || !got.Allows(a.Body.ID, a.Digest) {
			t.Fatalf("%+v, %v", got, err)
		}
	}
	d.close()
	if after := descriptors(t); after > before {
		t.Fatalf("%d descriptors before, %d after", before, after)
	}
}

func descriptors(t *testing.T) int {
	t.Helper()
	l, err := os.ReadDir("/dev/fd")
	if err != nil {
		t.Skip(err)
	}
	return len(l)
}
