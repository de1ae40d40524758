package standin

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func start(t *testing.T, cfg Config) *Server {
	t.Helper()
	s, err := Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// do sends one request on a connection of its own.
func do(t *testing.T, ctx context.Context, method, url, body string) (*http.Response, string, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	tr := &http.Transport{DisableKeepAlives: true}
	defer tr.CloseIdleConnections()
	resp, err := tr.RoundTrip(req)
	if err != nil {
		return nil, "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp, string(b), err
}

func post(t *testing.T, s *Server, body string) string {
	t.Helper()
	resp, got, err := do(t, t.Context(), http.MethodPost, s.URL()+"/v1/messages?beta=true", body)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("status %d: %s", resp.StatusCode, got)
	}
	return got
}

const tools = `"model":"m","tools":[{"name":"Bash"},{"name":"Write"}]`

func user(text string) string {
	b, _ := json.Marshal(text)
	return `{"role":"user","content":[{"type":"text","text":` + string(b) + `}]}`
}

func used(ids ...string) string {
	var bs []string
	for _, id := range ids {
		bs = append(bs, `{"type":"tool_use","id":"`+id+`","name":"Bash","input":{}}`)
	}
	return `{"role":"assistant","content":[` + strings.Join(bs, ",") + `]}`
}

func result(id, content string) string {
	return `{"role":"user","content":[{"type":"tool_result","tool_use_id":"` + id + `","is_error":true,"content":` + content + `}]}`
}

func TestScriptChoosesTheAnswer(t *testing.T) {
	s := start(t, Config{Cwd: `/p "q"`, Scenarios: map[string][]Step{
		"one": {Bash("touch $CWD/a && echo <b>"), Say("in $CWD")},
		"par": {Calls(Use("Bash", map[string]string{"command": "x"}), Use("Write", json.RawMessage(`{"z":1, "a":2}`)))},
	}})
	quoted := `{"command":"touch /p \"q\"/a && echo <b>","description":"make a marker"}`
	cases := []struct {
		name, messages string
		tools, text    string // names of the calls, or the text
		input          string // of the last call
	}{
		{"first step", user("SCENARIO:one go"), "Bash", "", quoted},
		{"bare string content", `{"role":"user","content":"SCENARIO:one go"}`, "Bash", "", quoted},
		{"second step", user("SCENARIO:one go") + "," + used("t1") + "," + result("t1", `"ok"`), "", `in /p "q"`, ""},
		{"script over", user("SCENARIO:one go") + "," + used("t1") + "," + result("t1", `"ok"`) + "," + used("t2") + "," + result("t2", `"ok"`), "", Done, ""},
		{"parallel calls", user("SCENARIO:par go"), "Bash,Write", "", `{"z":1,"a":2}`},
		{"parallel calls are one turn", user("SCENARIO:par go") + "," + used("t1", "t2") + "," + result("t1", `"ok"`), "", Done, ""},
		{"last marker counts", user("SCENARIO:par SCENARIO:one go"), "Bash", "", quoted},
		{"a new marker starts again", user("SCENARIO:one go") + "," + used("t1") + "," + result("t1", `"ok"`) + "," + user("SCENARIO:one again"), "Bash", "", quoted},
		{"text of an assistant does not count", user("SCENARIO:one go") + `,{"role":"assistant","content":"SCENARIO:par"}`, "Bash", "", quoted},
		{"a tool result does not choose", user("SCENARIO:one go") + "," + used("t1") + "," + result("t1", `"SCENARIO:par"`), "", `in /p "q"`, ""},
		{"unknown scenario", user("SCENARIO:two go"), "", "no scenario", ""},
		{"no marker", user("hello"), "", "no scenario", ""},
		{"no messages", "", "", "no scenario", ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			var m message
			if err := json.Unmarshal([]byte(post(t, s, `{`+tools+`,"messages":[`+c.messages+`]}`)), &m); err != nil {
				t.Fatal(err)
			}
			var names []string
			var text, input string
			for _, b := range m.Content {
				if b.Type == "tool_use" {
					names, input = append(names, b.Name), string(b.Input)
					if b.ID == "" {
						t.Error("a call without an id")
					}
				} else {
					text = *b.Text
				}
			}
			stop := "end_turn"
			if c.tools != "" {
				stop = "tool_use"
			}
			if got := strings.Join(names, ","); got != c.tools || text != c.text || input != c.input || *m.StopReason != stop {
				t.Errorf("calls %q text %q input %s stop %s; want %q %q %s %s", got, text, input, *m.StopReason, c.tools, c.text, c.input, stop)
			}
		})
	}
}

// A client decodes the stream by adding up its deltas; so does this test.
func TestStreamAddsUpToTheAnswer(t *testing.T) {
	raw := `{ "b" : 1e2 , "a":"\u00e9<&>","a":  2}`
	s := start(t, Config{Scenarios: map[string][]Step{"x": {Calls(Use("T", json.RawMessage(raw)), Use("U", json.RawMessage(`{}`)))}, "y": {Say("hi <there>")}}})
	read := func(scenario string) (events []string, parts []string) {
		body := post(t, s, `{"stream":true,`+tools+`,"messages":[`+user("SCENARIO:"+scenario)+`]}`)
		sc := bufio.NewScanner(strings.NewReader(body))
		var name string
		for sc.Scan() {
			if n, ok := strings.CutPrefix(sc.Text(), "event: "); ok {
				name = n
			}
			d, ok := strings.CutPrefix(sc.Text(), "data: ")
			if !ok {
				continue
			}
			var e struct {
				Type  string
				Index int
				Delta struct {
					Text        string
					PartialJSON string `json:"partial_json"`
				}
				Message struct{ Content []any }
			}
			if err := json.Unmarshal([]byte(d), &e); err != nil {
				t.Fatalf("%s: %v", d, err)
			}
			if e.Type != name {
				t.Errorf("event %s carries type %s", name, e.Type)
			}
			events = append(events, name)
			if name == "content_block_delta" {
				parts = append(parts, fmt.Sprint(e.Index, " ", e.Delta.Text, e.Delta.PartialJSON))
			}
		}
		return events, parts
	}
	events, parts := read("x")
	if want := []string{"message_start", "content_block_start", "content_block_delta", "content_block_stop", "content_block_start", "content_block_delta", "content_block_stop", "message_delta", "message_stop"}; !slices.Equal(events, want) {
		t.Errorf("events %v, want %v", events, want)
	}
	if want := []string{"0 " + raw, "1 {}"}; !slices.Equal(parts, want) {
		t.Errorf("deltas %q, want %q", parts, want)
	}
	if _, parts := read("y"); !slices.Equal(parts, []string{"0 hi <there>"}) {
		t.Errorf("deltas %q", parts)
	}
}

func TestToldListsEachResultOnce(t *testing.T) {
	s := start(t, Config{Scenarios: map[string][]Step{"x": {Bash("a"), Bash("b"), Say("end")}}})
	one := user("SCENARIO:x") + "," + used("t1") + "," + result("t1", `[{"type":"text","text":"first"},{"type":"text","text":"line two"}]`)
	two := one + "," + used("t2") + "," + result("t2", `"second"`)
	for _, m := range []string{one, one, two, two} {
		post(t, s, `{`+tools+`,"messages":[`+m+`]}`)
	}
	if got, want := s.Told(), []string{"first\nline two", "second"}; !slices.Equal(got, want) {
		t.Errorf("told %q, want %q", got, want)
	}
	q := s.Requests()
	if len(q) != 4 || q[3].Scenario != "x" || q[3].Step != 2 || q[3].Answer.Text != "end" || q[3].Model != "m" || !slices.Equal(q[3].Tools, []string{"Bash", "Write"}) {
		t.Errorf("requests %+v", q)
	}
	if len(q[0].IDs) != 1 || q[0].IDs[0] == q[1].IDs[0] || !q[0].Results[0].IsError {
		t.Errorf("ids or results of %+v", q[:2])
	}
}

func TestSideQuestionsGetATitle(t *testing.T) {
	s := start(t, Config{Scenarios: map[string][]Step{"x": {Bash("a")}}})
	if got := post(t, s, `{"model":"m","messages":[`+user("SCENARIO:x")+`]}`); !strings.Contains(got, `"title"`) {
		t.Errorf("got %s", got)
	}
}

func TestOtherPaths(t *testing.T) {
	s := start(t, Config{})
	cases := []struct {
		method, path, body string
		code               int
		want               string
	}{
		{"POST", "/v1/messages/count_tokens?beta=true", `{}`, 200, `"input_tokens"`},
		{"GET", "/v1/models?limit=1000", "", 200, `"data":[{`},
		{"GET", "/v1/models/some-model", "", 200, `"id":"some-model"`},
		{"HEAD", "/", "", 200, ""},
		{"HEAD", "/v1/anything", "", 200, ""},
		{"GET", "/", "", 404, "not_found_error"},
		{"POST", "/v1/complete", "{}", 404, "not_found_error"},
		{"GET", "/v1/messages", "", 404, "not_found_error"},
		{"POST", "/v1/messages", "", 400, "invalid_request_error"},
		{"POST", "/v1/messages", "[1]", 400, "invalid_request_error"},
		{"POST", "/v1/messages", `{"messages":[{"role":"user","content":7}]}`, 400, "invalid_request_error"},
		{"POST", "/v1/messages", `{"messages":` + strings.Repeat("[", 20000), 400, "invalid_request_error"},
	}
	for _, c := range cases {
		resp, got, err := do(t, t.Context(), c.method, s.URL()+c.path, c.body)
		if err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode != c.code || !strings.Contains(got, c.want) {
			t.Errorf("%s %s: %d %.80s, want %d with %q", c.method, c.path, resp.StatusCode, got, c.code, c.want)
		}
	}
	if n := len(s.Requests()); n != 0 {
		t.Errorf("%d requests noted, want none", n)
	}
}

func TestStartRefusesScriptsThatCannotBePlayed(t *testing.T) {
	cases := map[string]struct {
		name string
		step Step
		want string
	}{
		"bad name":         {"a b", Say("x"), "scenario name"},
		"empty name":       {"", Say("x"), "scenario name"},
		"nothing":          {"a", Step{}, "either"},
		"both":             {"a", Step{Text: "x", Calls: Bash("x").Calls}, "either"},
		"no tool":          {"a", Calls(Use("", map[string]int{})), "names no tool"},
		"array input":      {"a", Calls(Use("T", []int{1})), "not a JSON object"},
		"null input":       {"a", Calls(Use("T", json.RawMessage("null"))), "not a JSON object"},
		"broken input":     {"a", Calls(Use("T", json.RawMessage(`{"a":`))), "not a JSON object"},
		"unencodable":      {"a", Calls(Use("T", make(chan int))), "not a JSON object"},
		"too long a delay": {"a", Step{Text: "x", Delay: MaxDelay + 1}, "outside"},
		"negative delay":   {"a", Step{Text: "x", Delay: -1}, "outside"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s, err := Start(t.Context(), Config{Scenarios: map[string][]Step{c.name: {c.step}}})
			if err == nil {
				s.Close()
				t.Fatal("started")
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %q does not say %q", err, c.want)
			}
		})
	}
}

func TestCloseEndsWaitingAnswers(t *testing.T) {
	for _, how := range []string{"close", "context", "caller"} {
		t.Run(how, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			slow := Say("late")
			slow.Delay = MaxDelay
			s, err := Start(ctx, Config{Scenarios: map[string][]Step{"x": {slow}}})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			began := time.Now()
			asking, hangUp := context.WithCancel(t.Context())
			defer hangUp()
			sent, ended := make(chan struct{}), make(chan string)
			asking = httptrace.WithClientTrace(asking, &httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) { close(sent) }})
			go func() {
				_, got, _ := do(t, asking, http.MethodPost, s.URL()+"/v1/messages", `{`+tools+`,"messages":[`+user("SCENARIO:x")+`]}`)
				ended <- got
			}()
			<-sent
			switch how {
			case "close":
				s.Close()
			case "context":
				cancel()
			case "caller":
				hangUp()
			}
			if got := <-ended; strings.Contains(got, "late") {
				t.Errorf("answered %q", got)
			}
			s.Close()
			if d := time.Since(began); d > MaxDelay/2 {
				t.Errorf("took %v", d)
			}
			if _, _, err := do(t, t.Context(), http.MethodHead, s.URL(), ""); err == nil {
				t.Error("still serves after its end")
			}
			if s.Told() != nil {
				t.Error("told something")
			}
		})
	}
}

// Many conversations at once each walk their own script.
func TestParallelConversations(t *testing.T) {
	steps := []Step{Bash("1"), Bash("2"), Bash("3"), Say("end")}
	s := start(t, Config{Scenarios: map[string][]Step{"a": steps, "b": steps[2:]}})
	var wg sync.WaitGroup
	for i := range 8 {
		name, n := "a", 3
		if i%2 == 1 {
			name, n = "b", 1
		}
		wg.Go(func() {
			talk := user("SCENARIO:" + name)
			for turn := range n {
				got := post(t, s, `{`+tools+`,"messages":[`+talk+`]}`)
				if want := fmt.Sprintf(`"command":"%d"`, 3-n+turn+1); !strings.Contains(got, want) {
					t.Errorf("%s turn %d: %s, want %s", name, turn, got, want)
				}
				id := fmt.Sprintf("%d-%d", i, turn)
				talk += "," + used(id) + "," + result(id, `"r`+id+`"`)
			}
			if got := post(t, s, `{`+tools+`,"messages":[`+talk+`]}`); !strings.Contains(got, `"end"`) {
				t.Errorf("%s: %s", name, got)
			}
		})
	}
	wg.Wait()
	if n := len(s.Told()); n != 4*3+4 {
		t.Errorf("told %d results, want 16", n)
	}
}

// Whatever a client sends, the stand-in places it without a panic, and the
// place it finds is one that the conversation can have.
func FuzzPlace(f *testing.F) {
	f.Add([]byte(`{` + tools + `,"messages":[` + user("SCENARIO:x") + "," + used("1") + "," + result("1", `[{"type":"text","text":"a"}]`) + `]}`))
	f.Add([]byte(`{"messages":[{"role":"assistant","content":[{"type":"tool_use"}]}]}`))
	f.Add([]byte(`{"messages":[{"role":"user","content":null}]}`))
	cfg := Config{Scenarios: map[string][]Step{"x": {Bash("a")}}}
	f.Fuzz(func(t *testing.T, b []byte) {
		var c conversation
		if json.NewDecoder(bytes.NewReader(b)).Decode(&c) != nil {
			return
		}
		w := c.place()
		if w.step > len(c.Messages) {
			t.Errorf("step %d of %d messages", w.step, len(c.Messages))
		}
		if err := c.answer(cfg, w).check(); err != nil {
			t.Error(err)
		}
	})
}
