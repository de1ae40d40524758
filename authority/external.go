package authority

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"permd/ask"
)

// External is a decider in a process of its own: it gets one line of JSON on
// its standard input, and what it prints is its word:
//
//	{"decision": "allow" | "deny" | "defer", "reason": "…"}
//
// Its environment is PATH, HOME and LANG, none of ours; its directory is the
// root; it runs in a process group that is killed when the time is over.
type External struct {
	Exec    []string
	Timeout time.Duration
	Home    string
	// Check is asked right before each start; an error keeps it from running.
	Check func() error
	// Because is why it is asked, for it.
	Because string
}

var _ Decider = (*External)(nil)

// Bounds of what a decider may print.
const (
	maxSaid   = 64 << 10
	maxStderr = 4 << 10
)

// Question is what a decider is asked. The action is as the agent wants it,
// nothing in it is taken out.
type Question struct {
	V       int         `json:"v"`
	Ask     string      `json:"ask"`
	From    ask.Who     `json:"from"`
	Path    []ask.Hop   `json:"path"`
	Title   string      `json:"title"`
	Because string      `json:"because"`
	Risk    ask.Risk    `json:"risk,omitempty"`
	Action  *ask.Action `json:"action"`
}

// questionV is the version of [Question].
const questionV = 1

// Consult runs the program. Only an exit code of 0 and a whole answer count.
func (x *External) Consult(ctx context.Context, a *ask.Ask) (Say, string, error) {
	if len(x.Exec) == 0 || x.Timeout <= 0 {
		return SayDefer, "", errors.New("there is no program or no time for it")
	}
	if x.Check != nil {
		if err := x.Check(); err != nil {
			return SayDefer, "", err
		}
	}
	q := Question{V: questionV, Ask: a.Body.ID, From: a.Body.From, Path: a.Header.Path, Title: a.Body.Title, Because: x.Because, Risk: a.Body.Risk, Action: a.Body.Action}
	if q.Path == nil {
		q.Path = []ask.Hop{}
	}
	in, err := ask.Encode(q)
	if err != nil {
		return SayDefer, "", err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, x.Timeout, fmt.Errorf("it did not answer within %s", x.Timeout))
	defer cancel()
	out, errOut := &capped{most: maxSaid}, &capped{most: maxStderr}
	c := exec.CommandContext(ctx, x.Exec[0], x.Exec[1:]...)
	c.Dir = "/"
	c.Env = []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + x.Home, "LANG=C.UTF-8"}
	c.Stdin, c.Stdout, c.Stderr = bytes.NewReader(append(in, '\n')), out, errOut
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	c.WaitDelay = 200 * time.Millisecond
	err = c.Run()
	if errors.Is(err, exec.ErrWaitDelay) && ctx.Err() == nil {
		// It ended and left something of its group behind, which holds the
		// pipe and so the group's number.
		_ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL)
	}
	switch {
	case context.Cause(ctx) != nil:
		return SayDefer, "", context.Cause(ctx)
	case err != nil:
		said := ""
		if s := line(string(errOut.kept)); s != "" {
			said = ": " + s
		}
		return SayDefer, "", fmt.Errorf("%w%s", err, said)
	case out.over:
		return SayDefer, "", fmt.Errorf("it printed more than %d bytes", maxSaid)
	}
	return parseSaid(out.kept)
}

// parseSaid reads what a decider printed: one object with "decision" and
// perhaps "reason", each once, spelled so, and nothing else.
func parseSaid(raw []byte) (Say, string, error) {
	bad := func(format string, v ...any) (Say, string, error) {
		return SayDefer, "", fmt.Errorf("what it printed is no answer: "+format, v...)
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return bad("%s is no object", ask.Quote(string(raw)))
	}
	fields := map[string]string{}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return bad("%v", err)
		}
		k, _ := key.(string)
		value, err := d.Token()
		if err != nil {
			return bad("%v", err)
		}
		v, ok := value.(string)
		_, twice := fields[k]
		if !ok || twice || k != "decision" && k != "reason" {
			return bad("%s is not expected there", ask.Quote(k))
		}
		fields[k] = v
	}
	if _, err := d.Token(); err != nil {
		return bad("%v", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return bad("something follows it")
	}
	for s, word := range sayText {
		if fields["decision"] == word {
			return Say(s), strings.TrimSpace(fields["reason"]), nil
		}
	}
	return bad("the decision is %s", ask.Quote(fields["decision"]))
}

// capped keeps the first bytes of what is written to it, and takes the rest.
type capped struct {
	kept []byte
	most int
	over bool
}

// Write never fails: a writer that talks on is not stopped by us.
func (c *capped) Write(p []byte) (int, error) {
	room := c.most - len(c.kept)
	c.over = c.over || len(p) > room
	c.kept = append(c.kept, p[:min(len(p), room)]...)
	return len(p), nil
}
