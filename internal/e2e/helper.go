package e2e

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"strings"
)

// helperEnv makes the test binary one of helpers.
const helperEnv = "PERMD_E2E_HELPER"

// helpers are further programs that the test binary can be: attackers, light
// agents, whatever a test needs as a process of its own. Each returns its exit
// code.
var helpers = map[string]func() int{}

// asHelper runs the helper that the environment names.
func asHelper() (code int, ok bool) {
	f := helpers[os.Getenv(helperEnv)]
	if f == nil {
		return 0, false
	}
	return f(), true
}

// Run runs a program as a child of the agent, as a tool of the agent would,
// and waits for it. env is added to the agent's.
func (a *Agent) Run(stdin string, env []string, argv ...string) (code int, stdout, stderr string, err error) {
	r, err := a.call(agentRequest{Op: "run", Args: argv, Env: env, Stdin: stdin})
	return r.Code, r.Stdout, r.Stderr, err
}

// Helper runs one of helpers as a child of the agent.
func (a *Agent) Helper(name, stdin string) (stdout string, err error) {
	self, err := program()
	if err != nil {
		return "", err
	}
	code, stdout, stderr, err := a.Run(stdin, []string{helperEnv + "=" + name}, self)
	if err == nil && code != 0 {
		err = errors.New(stderr)
	}
	return stdout, err
}

func (s agentSpec) program(q agentRequest) agentReply {
	code, out, errs, err := runProgram(s.Cwd, append(os.Environ(), q.Env...), q.Stdin, q.Args[0], q.Args[1:]...)
	if err != nil {
		return agentReply{Err: err.Error()}
	}
	return agentReply{Code: code, Stdout: out, Stderr: errs}
}

// runProgram runs a program in a directory, "" for this one, to its end.
func runProgram(dir string, env []string, stdin, name string, args ...string) (code int, stdout, stderr string, err error) {
	c := exec.Command(name, args...)
	c.Dir, c.Env = dir, env
	c.Stdin = strings.NewReader(stdin)
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	var x *exec.ExitError
	if err := c.Run(); err != nil && !errors.As(err, &x) {
		return 0, "", "", err
	}
	return c.ProcessState.ExitCode(), out.String(), errs.String(), nil
}
