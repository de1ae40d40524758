package otlpcheck

import (
	"bufio"
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/receiver/receivertest"
)

// record is a record as the JSON lines have it.
type record struct {
	Writer  string   `json:"writer"`
	File    string   `json:"file"`
	Offset  int64    `json:"offset"`
	Seq     uint64   `json:"seq"`
	Prev    string   `json:"prev"`
	Time    string   `json:"time"`
	Event   string   `json:"event"`
	Session string   `json:"session"`
	Path    []hop    `json:"path"`
	Ask     string   `json:"ask"`
	Verdict string   `json:"verdict"`
	Outcome string   `json:"outcome"`
	By      *decider `json:"by"`
	Reason  string   `json:"reason"`
	Action  *struct {
		Client  string `json:"client"`
		Tool    string `json:"tool"`
		Command string `json:"command"`
		Paths   []struct {
			Given string `json:"given"`
		} `json:"paths"`
	} `json:"action"`
	Fields map[string]string `json:"fields"`
}

type hop struct {
	Session string `json:"session"`
}

type decider struct {
	Kind    string   `json:"kind"`
	Session string   `json:"session"`
	Surface string   `json:"surface"`
	Grant   string   `json:"grant"`
	Inner   *decider `json:"inner"`
}

// TestTheCollectorTakesTheExport plays the demo, and gives the record of it to
// the collector's receiver over HTTP, as a person would with curl: every
// record arrives, with what it says.
func TestTheCollectorTakesTheExport(t *testing.T) {
	permd := build(t)
	root := t.TempDir()
	if err := os.Chmod(root, 0o700); err != nil {
		t.Fatal(err)
	}
	run(t, permd, "demo", "--auto", "--kill-lead", "--keep", root)
	for _, flags := range [][]string{{"--unmasked"}, nil} {
		otlp := run(t, permd, append([]string{"--root", root, "review", "export", "--format", "otlp"}, flags...)...)
		lines := run(t, permd, append([]string{"--root", root, "review", "export", "--format", "jsonl"}, flags...)...)
		var want []record
		for line := range strings.Lines(lines) {
			var r record
			if err := json.Unmarshal([]byte(line), &r); err != nil {
				t.Fatalf("%v: %s", err, line)
			}
			want = append(want, r)
		}
		got := received(t, otlp)
		if len(got) != len(want) || len(want) < 50 {
			t.Fatalf("the collector has %d records, the log %d", len(got), len(want))
		}
		for i := range want {
			compare(t, &want[i], got[i])
		}
	}
}

// A request that is none is refused: the receiver does look.
func TestTheCollectorRefusesWhatIsNone(t *testing.T) {
	url, _ := receiver(t)
	for _, body := range []string{`{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"timeUnixNano":"x"}]}]}]}`, "no JSON"} {
		if code, said := post(t, url, body); code == http.StatusOK {
			t.Errorf("%s: %d %s", body, code, said)
		}
	}
}

func build(t *testing.T) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "permd")
	c := exec.Command("go", "build", "-o", name, "./cmd/permd")
	c.Dir = "../.."
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return name
}

func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	var stderr bytes.Buffer
	c := exec.Command(name, args...)
	c.Stderr = &stderr
	out, err := c.Output()
	if err != nil {
		t.Fatalf("permd %q: %v: %s", args, err, stderr.String())
	}
	return string(out)
}

// receiver starts the collector's receiver with the configuration that a
// person would write, and gives where it listens.
func receiver(t *testing.T) (string, *consumertest.LogsSink) {
	t.Helper()
	factory := otlpreceiver.NewFactory()
	sink := new(consumertest.LogsSink)
	for try := 0; ; try++ {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		at := l.Addr().String()
		l.Close()
		cfg := factory.CreateDefaultConfig()
		err = confmap.NewFromStringMap(map[string]any{"protocols": map[string]any{"http": map[string]any{"endpoint": at}}}).Unmarshal(cfg)
		if err != nil {
			t.Fatal(err)
		}
		r, err := factory.CreateLogs(t.Context(), receivertest.NewNopSettings(factory.Type()), cfg, sink)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Start(t.Context(), componenttest.NewNopHost()); err != nil {
			if try < 5 { // somebody else took the port
				continue
			}
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := r.Shutdown(context.WithoutCancel(t.Context())); err != nil {
				t.Error(err)
			}
		})
		return "http://" + at + "/v1/logs", sink
	}
}

func post(t *testing.T, url, body string) (int, string) {
	t.Helper()
	client := &http.Client{Timeout: 10 * time.Second}
	defer client.CloseIdleConnections()
	resp, err := client.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	said, err := io.ReadAll(io.LimitReader(resp.Body, 1<<16))
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(said)
}

// received posts each line and gives the records that came out.
func received(t *testing.T, lines string) (out []plog.LogRecord) {
	t.Helper()
	url, sink := receiver(t)
	in := bufio.NewScanner(strings.NewReader(lines))
	in.Buffer(nil, 16<<20)
	for in.Scan() {
		if code, said := post(t, url, in.Text()); code != http.StatusOK || strings.Contains(said, "rejected") {
			t.Fatalf("the receiver says %d %s", code, said)
		}
	}
	if err := in.Err(); err != nil {
		t.Fatal(err)
	}
	for _, logs := range sink.AllLogs() {
		for _, rl := range logs.ResourceLogs().All() {
			if v, ok := rl.Resource().Attributes().Get("service.name"); !ok || v.Str() != "permd" {
				t.Errorf("resource %v", rl.Resource().Attributes().AsRaw())
			}
			for _, sl := range rl.ScopeLogs().All() {
				if sl.Scope().Name() != "permd/review" {
					t.Errorf("scope %s", sl.Scope().Name())
				}
				for _, r := range sl.LogRecords().All() {
					out = append(out, r)
				}
			}
		}
	}
	return out
}

func compare(t *testing.T, want *record, got plog.LogRecord) {
	t.Helper()
	bad := func(what string, is, should any) {
		if is != should {
			t.Errorf("%s %d: %s is %v, want %v", want.Writer, want.Seq, what, is, should)
		}
	}
	a := got.Attributes()
	text := func(key string) string {
		v, ok := a.Get(key)
		if !ok {
			return ""
		}
		if v.Type() != pcommon.ValueTypeStr {
			t.Errorf("%s is %s", key, v.Type())
		}
		return v.Str()
	}
	number := func(key string) int64 {
		v, ok := a.Get(key)
		if !ok || v.Type() != pcommon.ValueTypeInt {
			t.Errorf("%s is missing or no number", key)
		}
		return v.Int()
	}
	at, err := time.Parse(time.RFC3339Nano, want.Time)
	if err != nil {
		t.Fatal(err)
	}
	bad("time", got.Timestamp().AsTime().Equal(at), true)
	bad("observed", got.ObservedTimestamp(), got.Timestamp())
	bad("event", got.EventName(), "permd."+want.Event)
	bad("body", strings.HasPrefix(got.Body().Str(), want.Event), true)
	bad("severity", got.SeverityNumber() >= plog.SeverityNumberInfo && got.SeverityText() != "", true)
	bad("trace", hex.EncodeToString(traceOf(got)), strings.ReplaceAll(want.Ask, "-", ""))
	bad("writer", text("permd.writer"), want.Writer)
	bad("file", text("permd.file"), want.File)
	bad("offset", number("permd.offset"), want.Offset)
	bad("seq", number("permd.seq"), int64(want.Seq))
	bad("prev", text("permd.prev"), want.Prev)
	bad("session", text("session.id"), want.Session)
	bad("ask", text("permd.ask"), want.Ask)
	bad("verdict", text("permd.verdict"), want.Verdict)
	bad("outcome", text("permd.outcome"), want.Outcome)
	bad("reason", text("permd.reason"), want.Reason)
	var path []any
	for _, h := range want.Path {
		path = append(path, h.Session)
	}
	list := func(key string) []any {
		v, ok := a.Get(key)
		if !ok {
			return nil
		}
		return v.Slice().AsRaw()
	}
	bad("path", fmt.Sprint(list("permd.path")), fmt.Sprint(path))
	if b := want.By; b != nil {
		for b.Inner != nil {
			b = b.Inner
		}
		bad("decider", text("permd.by.kind")+" "+text("permd.by.session")+" "+text("permd.by.surface")+text("permd.by.grant"),
			b.Kind+" "+b.Session+" "+b.Surface+b.Grant)
	}
	if x := want.Action; x != nil {
		bad("action", text("permd.action.client")+" "+text("permd.action.tool")+" "+text("permd.action.command"), x.Client+" "+x.Tool+" "+x.Command)
		bad("paths", len(list("permd.action.paths")), len(x.Paths))
	}
	for k, v := range want.Fields {
		bad(k, text("permd.field."+k), v)
	}
}

func traceOf(r plog.LogRecord) []byte {
	id := r.TraceID()
	if id.IsEmpty() {
		return nil
	}
	return id[:]
}
