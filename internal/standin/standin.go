// Package standin is a stand-in for a language model's answers: a small server
// on 127.0.0.1 that speaks the Anthropic Messages wire format and answers from
// a script, so that a real agent client can be driven through real tool calls
// without a model, a key or a network. Tests use it, and so does permd doctor
// when it proves a gate with the client that is installed.
//
// It promises: the same conversation gets the same answer, whatever else is
// asked at the same time (it keeps no conversation state: scenario and step are
// read from the request); streamed tool input leaves byte for byte as the script
// has it; only the loopback address is bound; nothing is left running after
// [Server.Close].
//
// It does not promise to be the real service: it checks no key, counts no
// tokens, enforces no limits, and says nothing about how a model would act.
package standin

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"time"
)

// MaxDelay bounds [Step.Delay]; a longer one is an error of the script.
const MaxDelay = 30 * time.Second

// Done is the text that answers a conversation whose script has run out.
const Done = "ALL-DONE"

// Config is what a stand-in answers with.
type Config struct {
	// Scenarios are the scripts by name ([A-Za-z0-9_.-]+). A conversation
	// chooses one by the last "SCENARIO:<name>" in its user text.
	Scenarios map[string][]Step
	// Cwd replaces "$CWD" in tool input and text, escaped as JSON needs it.
	Cwd string
}

// Step is one turn of the stand-in: tool calls, or text that ends the turn.
// Exactly one of Calls and Text is set.
type Step struct {
	Calls []Call
	Text  string
	// Delay is waited before the answer, at most MaxDelay.
	Delay time.Duration
}

// Call is one tool call. Input is a JSON object and is sent as it stands,
// but for "$CWD".
type Call struct {
	Tool  string
	Input json.RawMessage
}

// Use is a call of tool with input, any value that encodes to a JSON object; a
// [json.RawMessage] keeps its bytes. A value that cannot be encoded becomes an
// invalid call, which [Start] refuses.
func Use(tool string, input any) Call {
	if raw, ok := input.(json.RawMessage); ok {
		return Call{Tool: tool, Input: raw}
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(input); err != nil {
		return Call{Tool: tool}
	}
	return Call{Tool: tool, Input: bytes.TrimSpace(b.Bytes())}
}

// Bash is a step with one call of Claude Code's shell tool.
func Bash(command string) Step {
	type input struct {
		Command     string `json:"command"`
		Description string `json:"description"`
	}
	return Calls(Use("Bash", input{command, "make a marker"}))
}

// Calls is a step with the given calls in one turn; more than one are parallel.
func Calls(c ...Call) Step { return Step{Calls: c} }

// Say is a step that ends the turn with text.
func Say(text string) Step { return Step{Text: text} }

var scenarioName = regexp.MustCompile(`^[A-Za-z0-9_.-]+$`)

func (c Config) check() error {
	for name, steps := range c.Scenarios {
		if !scenarioName.MatchString(name) {
			return fmt.Errorf("standin: scenario name %q: only letters, digits, '_', '.' and '-'", name)
		}
		for i, s := range steps {
			if err := s.check(); err != nil {
				return fmt.Errorf("standin: scenario %q, step %d: %w", name, i, err)
			}
		}
	}
	return nil
}

func (s Step) check() error {
	if (len(s.Calls) == 0) == (s.Text == "") {
		return fmt.Errorf("set either calls or text")
	}
	if s.Delay < 0 || s.Delay > MaxDelay {
		return fmt.Errorf("delay %v is outside 0 to %v", s.Delay, MaxDelay)
	}
	for _, c := range s.Calls {
		if c.Tool == "" {
			return fmt.Errorf("a call names no tool")
		}
		var o map[string]json.RawMessage
		if err := json.Unmarshal(c.Input, &o); err != nil || o == nil {
			return fmt.Errorf("input of %s is not a JSON object", c.Tool)
		}
	}
	return nil
}

// in gives the step with "$CWD" replaced.
func (s Step) in(cwd string) Step {
	quoted, err := json.Marshal(cwd)
	if err != nil { // cannot happen: a string always encodes
		quoted = []byte(`""`)
	}
	inner := quoted[1 : len(quoted)-1]
	out := Step{Text: string(bytes.ReplaceAll([]byte(s.Text), []byte("$CWD"), []byte(cwd))), Delay: s.Delay}
	for _, c := range s.Calls {
		out.Calls = append(out.Calls, Call{c.Tool, bytes.ReplaceAll(c.Input, []byte("$CWD"), inner)})
	}
	return out
}
