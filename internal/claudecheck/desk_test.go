package claudecheck

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"permd/internal/host"
	"permd/internal/realclient"
	"permd/internal/standin"
	"permd/review"
)

// person is a person's terminal on the desk: permd desk in line mode, with the
// desk process that it starts.
type person struct {
	g   *governed
	in  io.Writer
	out string // the file its output goes to
}

// person sits down at the desk.
func (g *governed) person() *person {
	g.t.Helper()
	out, err := os.CreateTemp(g.Dir, "desk-")
	if err != nil {
		g.t.Fatal(err)
	}
	defer out.Close()
	c := exec.Command(g.permd.Bin+"/permd", "--root", g.permd.Root, "desk", "--plain")
	c.Stdout, c.Stderr = out, out
	in, err := c.StdinPipe()
	if err != nil {
		g.t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(func() {
		in.Close() // it detaches, and the desk process is ended after it
		if err := c.Wait(); err != nil {
			g.t.Errorf("permd desk ended with %v: %s", err, (&person{g, in, out.Name()}).text())
		}
		if code, text := g.permd.Permd("stop"); code != 0 {
			g.t.Errorf("permd stop: %d: %s", code, text)
		}
	})
	p := &person{g, in, out.Name()}
	p.sees("attached to the desk")
	return p
}

func (p *person) text() string {
	b, err := os.ReadFile(p.out)
	if err != nil {
		p.g.t.Error(err)
	}
	return string(b)
}

func (p *person) sees(words string) {
	p.g.t.Helper()
	p.g.WaitFor(fmt.Sprintf("%q at the desk", words), limit, func() bool { return strings.Contains(p.text(), words) })
}

var asked = regexp.MustCompile(`answer with: (\d+) allow`)

// answers waits until the desk has shown its nth ask, and types verb for it
// until the desk takes it: what is typed too soon after it appears does not
// count.
func (p *person) answers(nth int, verb, taken string) {
	p.g.t.Helper()
	p.g.WaitFor(fmt.Sprintf("ask %d at the desk", nth), limit, func() bool { return len(asked.FindAllString(p.text(), -1)) >= nth })
	number := asked.FindAllStringSubmatch(p.text(), -1)[nth-1][1]
	before := strings.Count(p.text(), taken)
	var typed time.Time
	p.g.WaitFor(fmt.Sprintf("%s %s to be taken", number, verb), limit, func() bool {
		if strings.Count(p.text(), taken) > before {
			return true
		}
		if time.Since(typed) > 600*time.Millisecond {
			typed = time.Now()
			fmt.Fprintf(p.in, "%s %s\n", number, verb)
		}
		return false
	})
}

// deskPID is the desk process.
func (g *governed) deskPID() int {
	g.t.Helper()
	all := g.processes("desk-process")
	if len(all) != 1 {
		g.t.Fatalf("desk processes: %v", all)
	}
	return all[0]
}

// The desk process is killed while calls wait for it: the terminal starts
// another, which finds what waits, and the person answers there. Nothing runs
// meanwhile, nothing is lost.
func TestTheDeskProcessIsKilled(t *testing.T) {
	t.Parallel()
	const busy = "touch ran-2 && while [ ! -e go-2 ]; do sleep 0.05; done"
	g := govern(t, place{hold: true}, simple(standin.Bash("touch ran-1"), standin.Bash(busy), standin.Bash("touch ran-3")))
	who := g.person()
	p := g.Start(realclient.Run{Scenario: "x", Time: 2 * realclient.DefaultTime})
	g.waitRecord(review.ServingStarted, 1) // the desk found the node by itself
	g.release()

	who.sees("| touch ran-1")
	g.killDesk()
	who.sees("trying again")
	if g.ran() != "" {
		t.Errorf("ran %q with the desk killed", g.ran())
	}
	who.answers(2, "allow", "allow, once: accepted") // the same ask, shown again
	g.WaitFor("the first call to run", limit, func() bool { return g.ran() == "ran-1" })

	who.answers(3, "allow", "allow, once: accepted")
	g.WaitFor("the second call to run", limit, func() bool { return g.ran() == "ran-1 ran-2" })
	g.killDesk()
	g.waitRecord(review.ServingStarted, 3) // and so did the two that followed it
	g.writeProject("go-2", "")

	who.answers(4, "deny because enough", "deny, with a reason: accepted")
	p.Wait()
	if g.ran() != "ran-1 ran-2" || !strings.Contains(g.told(), "denied by the user: enough") {
		t.Errorf("ran %q; told %q", g.ran(), g.told())
	}
	g.wentWell()
}

// killDesk kills the desk process and waits until it is gone.
func (g *governed) killDesk() {
	g.t.Helper()
	g.kill(g.deskPID())
	lock := filepath.Join(g.permd.Dirs.Desk(), "lock")
	g.WaitFor("the desk's end", limit, func() bool {
		held, err := host.Held(lock)
		return err != nil || !held || len(g.processes("desk-process")) == 1
	})
}
