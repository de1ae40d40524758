package ask

import (
	"bytes"
	"crypto/sha256"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

// How testdata/vectors.json was made. The test holds that it still comes out
// the same; a later [Version] makes vectors of its own with
//
//	go test ./ask -run MakeVectors -make-vectors
var makeVectors = flag.Bool("make-vectors", false, "write testdata/vectors.json and log its digest")

type sample struct {
	typ, name string
	v         any
}

func samples(t *testing.T) []sample {
	gate, form := seal(t, gateBody()), seal(t, formBody())
	wide := gateBody()
	wide.Action.Paths = []Path{{Given: "../x", Real: "/home/dev/x", Access: AccessWrite}}
	wide.Action.MCP = &MCP{Server: "files", Name: "write", Source: "project"}
	wide.Action.Tool, wide.Action.Command, wide.Action.Input = ToolMCP, "", []byte(`{"a":{"b":[1.50,-0,1e3,"\u003c\u2028"]}}`)
	wide.Raw = []byte(`{"tool_name":"mcp__files__write"}`)
	hostile := gateBody()
	hostile.Title, hostile.Preface = "a<b>&\u2028\u202e\u200b\ufffd", "line\n\ttab\x00\x1f\x7f\"\\"
	plan := gateBody()
	plan.Origin, plan.Action, plan.Preface, plan.Risk = OriginPlan, nil, "1. read", ""
	memory := Body{ID: "m-1", Origin: OriginMemory, From: Who{Session: "codex-1"}, Title: "Which memory?",
		Items: []Item{{ID: "m", Prompt: "Keep", Type: ItemChoice, Options: options("one", "one")}}}
	least := Body{ID: "x", Origin: OriginAsk, From: Who{Session: "s"}, Title: "?", Items: []Item{{ID: "i", Type: ItemBool}}}

	hops := gate.WithHop(Hop{Session: "claude-7f3", Node: "n1"}).WithHop(Hop{Session: "claude-lead", Node: "n2", Claimed: true})
	timed := *form.WithHop(Hop{Session: "claude-7f3", Node: "n1"})
	timed.Header.RemainingMS = RemainingMS(600e9)

	offers, _ := OffersDigest([]Offer{sessionOffer()})
	grant := AllowAnswer(gate)
	grant.Offer, grant.OfferDigest = "o-1", &offers
	edited := AllowAnswer(gate)
	edited.Edited = []byte(`{"command":"ls"}`)

	deny := Decision{Ask: "a-1", Digest: gate.Digest, Outcome: Answered, By: By{Kind: KindUser, Surface: "terminal"}, Reason: "not now"}
	byRule := Decision{Ask: "a-1", Digest: gate.Digest, Verdict: Allow, Outcome: Answered, By: ruleBy()}
	nobody := Decision{Ask: "a-1", Outcome: Unavailable, By: By{Kind: KindUnavailable}, Reason: "nobody can answer; open a desk"}
	answer := formAnswer(form)
	told := Decision{Ask: "a-2", Digest: form.Digest, Verdict: Allow, Outcome: Answered, By: By{Kind: KindDevice, Surface: "SHA256:x"}, Answer: &answer}

	project := sampleGrant()
	project.Scope, project.Session, project.Project, project.ExpiresMS = ScopeProject, "", "/home/dev/proj", 0
	pinned := sampleGrant()
	d := gate.Body.Action.ActionDigest()
	pinned.Scope, pinned.Rule = ScopeTree, Rule{Action: Allow, Digest: &d}
	pinned.By = Forwarded("claude-lead", By{Kind: KindDevice, Session: "claude-lead", Surface: "SHA256:x"})

	return []sample{
		{"body", "gate", gate.Body}, {"body", "questions", form.Body}, {"body", "mcp action, paths, raw", seal(t, wide).Body},
		{"body", "hostile text", seal(t, hostile).Body}, {"body", "plan", seal(t, plan).Body}, {"body", "memory", seal(t, memory).Body}, {"body", "least", seal(t, least).Body},
		{"ask", "no hop", gate}, {"ask", "two hops", hops}, {"ask", "remaining time", &timed}, {"ask", "questions", form},
		{"answer", "allow", AllowAnswer(gate)}, {"answer", "deny", DenyAnswer(gate, "use make clean")}, {"answer", "allow and grant", grant},
		{"answer", "edited", edited}, {"answer", "questions", answer}, {"answer", "stopped", Answer{Ask: "a-1", Digest: gate.Digest, Outcome: Stopped}},
		{"decision", "allow by a person two hops away", sampleDecision(gate)}, {"decision", "deny by a person", deny}, {"decision", "allow by a rule", byRule},
		{"decision", "nobody", nobody}, {"decision", "questions", told},
		{"by", "rule", ruleBy()}, {"by", "grant", By{Kind: KindGrant, Grant: "g-1"}}, {"by", "dialog, inferred", By{Kind: KindClientDialog, Surface: "claude", Inferred: true}},
		{"by", "two frames", Forwarded("claude-lead", ruleBy())}, {"by", "three frames", Forwarded("a", Forwarded("b", By{Kind: KindTimeout}))},
		{"grant", "session", sampleGrant()}, {"grant", "project", project}, {"grant", "one action, whole tree", pinned},
		{"rule", "least", Rule{Action: Deny}}, {"rule", "command", Rule{Action: Allow, Tool: "bash", Command: "go test *", Risk: RiskLow}},
		{"rule", "exceptions", Rule{Action: Prompt, Path: "/home/dev/**", Reason: "<secrets> & more", Except: []Rule{{Path: "/home/dev/x"}, {Path: "/y", Except: []Rule{{Path: "/z"}}}}}},
	}
}

// twist changes a good message into one that must be refused. It returns nil
// where it does not apply.
type twist struct {
	name string
	want error
	make func([]byte) []byte
}

func swap(old, new string) func([]byte) []byte {
	return func(b []byte) []byte {
		if !bytes.Contains(b, []byte(old)) {
			return nil
		}
		return bytes.Replace(b, []byte(old), []byte(new), 1)
	}
}

// twists fit any type.
var twists = []twist{
	{"trailing newline", ErrNotCanonical, func(b []byte) []byte { return append(b, '\n') }},
	{"unknown field", ErrNotCanonical, func(b []byte) []byte { return append([]byte(`{"x":0,`), b[1:]...) }},
	{"cut", ErrMalformed, func(b []byte) []byte { return b[:len(b)-1] }},
	{"first key in capitals", ErrNotCanonical, func(b []byte) []byte {
		end := 1 + bytes.IndexByte(b[2:], '"') + 1
		return append([]byte(`{"`+strings.ToUpper(string(b[2:end]))), b[end:]...)
	}},
	{"first key twice", ErrNotCanonical, func(b []byte) []byte {
		end := 2 + bytes.IndexByte(b[2:], '"')
		key := string(b[1 : end+1])
		return append([]byte(`{`+key+`:null,`), b[1:]...)
	}},
	{"inner space", ErrNotCanonical, swap(`":`, `": `)},
	{"second value", ErrMalformed, func(b []byte) []byte { return append(b, "{}"...) }},
	{"escaped letter in a key", ErrNotCanonical, func(b []byte) []byte {
		return append([]byte(fmt.Sprintf(`{"\u%04x`, b[2])), b[3:]...)
	}},
	{"byte order mark", ErrMalformed, func(b []byte) []byte { return append([]byte("\ufeff"), b...) }},
	{"bad UTF-8 in a key", ErrNotCanonical, func(b []byte) []byte { return append([]byte("{\"\xff\":0,"), b[1:]...) }},
	{"deep unknown field", ErrTooDeep, func(b []byte) []byte {
		return append([]byte(`{"x":`+strings.Repeat("[", MaxDepth)+strings.Repeat("]", MaxDepth)+","), b[1:]...)
	}},
	{"array around", ErrMalformed, func(b []byte) []byte { return append(append([]byte("["), b...), ']') }},
}

// meanings are well-formed messages that say something that must not be.
var meanings = map[string][]twist{
	"body": {
		{"version 2", ErrInvalid, swap(`"v":1`, `"v":2`)},
		{"version as text", ErrMalformed, swap(`"v":1`, `"v":"1"`)},
		{"id with a separator", ErrInvalid, swap(`"id":"`, `"id":"../`)},
		{"origin unknown", ErrInvalid, swap(`"origin":"gate"`, `"origin":"tool"`)},
		{"empty title", ErrInvalid, swap(`"title":"Run a command"`, `"title":""`)},
		{"effect on a question", ErrInvalid, swap(`"label":"A"`, `"label":"A","effect":"allow"`)},
		{"no deny", ErrInvalid, swap(`"effect":"deny"`, `"effect":"allow"`)},
		{"effect in capitals", ErrInvalid, swap(`"effect":"allow"`, `"effect":"Allow"`)},
		{"two picks", ErrInvalid, swap(`"max_picks":1,"required":true}],"verbs"`, `"max_picks":2,"required":true}],"verbs"`)},
		{"input names a key twice", ErrInvalid, swap(`"input":{"command":"rm -rf build"}`, `"input":{"command":"ls","command":"rm -rf build"}`)},
		{"input with a space", ErrNotCanonical, swap(`"input":{`, `"input":{ `)},
		{"relative cwd", ErrInvalid, swap(`"cwd":"/`, `"cwd":"`)},
		{"empty command", ErrInvalid, swap(`"home":"/home/dev","command":"rm -rf build"`, `"home":"/home/dev","command":" "`)},
		{"raw line separator", ErrNotCanonical, swap(`a<b>&\u2028`, "a<b>&\u2028")},
		{"html escape", ErrNotCanonical, swap(`a<b>`, `a\u003cb\u003e`)},
		{"null items", ErrInvalid, swap(`"items":[{"id":"i","prompt":"","type":"bool"}]`, `"items":null`)},
		{"empty risk", ErrNotCanonical, swap(`"risk":"high"`, `"risk":""`)},
	},
	"ask": {
		{"digest inside", ErrNotCanonical, swap(`"body":`, `"digest":"00","body":`)},
		{"body as text", ErrMalformed, swap(`"body":{`, `"body":"{`)},
		{"body of version 2", ErrInvalid, swap(`"v":1`, `"v":2`)},
		{"hop over a bad session", ErrInvalid, swap(`"session":"claude-7f3","node"`, `"session":"..","node"`)},
		{"hop without node", ErrInvalid, swap(`"node":"n1"`, `"node":""`)},
		{"negative time", ErrInvalid, swap(`"remaining_ms":600000`, `"remaining_ms":-1`)},
		{"time as text", ErrMalformed, swap(`"remaining_ms":600000`, `"remaining_ms":"600000"`)},
		{"too many hops", ErrInvalid, swap(`"path":[`, `"path":[`+strings.Repeat(`{"session":"s","node":"n"},`, MaxHops))},
		{"no body", ErrNotCanonical, func(b []byte) []byte { return append(b[:bytes.Index(b, []byte(`,"body"`))], '}') }},
		{"null body", ErrNotCanonical, func(b []byte) []byte {
			return append(b[:bytes.Index(b, []byte(`,"body"`))], `,"body":null}`...)
		}},
	},
	"answer": {
		{"outcome timed_out", ErrInvalid, swap(`"outcome":"answered"`, `"outcome":"timed_out"`)},
		{"outcome declined with items", ErrInvalid, swap(`"outcome":"answered"`, `"outcome":"declined"`)},
		{"no outcome", ErrInvalid, swap(`"outcome":"stopped"`, `"outcome":""`)},
		{"digest cut", ErrMalformed, swap(`"digest":"`, `"digest":"0`)},
		{"offer without digest", ErrInvalid, swap(`"picks":["deny"]}]`, `"picks":["deny"]}],"offer":"o-1"`)},
		{"edited with a key twice", ErrInvalid, swap(`"edited":{"command":"ls"}`, `"edited":{"command":"ls","command":"rm"}`)},
		{"edited with a space", ErrNotCanonical, swap(`"edited":{`, `"edited":{ `)},
		{"ask id hidden", ErrInvalid, swap(`"ask":"a-`, `"ask":".a-`)},
		{"empty picks", ErrNotCanonical, swap(`"picks":["allow"]`, `"picks":[]`)},
		{"null bool", ErrNotCanonical, swap(`"bool":true`, `"bool":null`)},
	},
	"decision": {
		{"verdict ask", ErrInvalid, swap(`"verdict":"allow"`, `"verdict":"ask"`)},
		{"verdict in capitals", ErrMalformed, swap(`"verdict":"allow"`, `"verdict":"ALLOW"`)},
		{"verdict as a number", ErrMalformed, swap(`"verdict":"allow"`, `"verdict":2`)},
		{"verdict null", ErrNotCanonical, swap(`"verdict":"deny"`, `"verdict":null`)},
		{"allow that timed out", ErrInvalid, swap(`"verdict":"allow","outcome":"answered"`, `"verdict":"allow","outcome":"timed_out"`)},
		{"allow by protection", ErrInvalid, swap(`"kind":"rule"`, `"kind":"protection"`)},
		{"allow by nobody", ErrInvalid, swap(`"kind":"rule"`, `"kind":""`)},
		{"unavailable turned to allow", ErrInvalid, swap(`"verdict":"deny","outcome":"unavailable"`, `"verdict":"allow","outcome":"unavailable"`)},
		{"unavailable by a person", ErrInvalid, swap(`"kind":"unavailable"`, `"kind":"user"`)},
		{"malformed innermost frame", ErrInvalid, swap(`"inner":{"kind":"user"`, `"inner":{"kind":"USER"`)},
		{"grant with a deny", ErrInvalid, swap(`"verdict":"allow","outcome":"answered","by":{"kind":"forwarded"`, `"verdict":"deny","outcome":"answered","by":{"kind":"forwarded"`)},
		{"answer for another ask", ErrInvalid, swap(`"answer":{"ask":"a-`, `"answer":{"ask":"b-`)},
		{"two verdicts", ErrNotCanonical, swap(`"verdict":"deny"`, `"verdict":"allow","verdict":"deny"`)},
	},
	"by": {
		{"kind unknown", ErrInvalid, swap(`"kind":"rule"`, `"kind":"root"`)},
		{"grant without id", ErrInvalid, swap(`,"grant":"g-1"`, ``)},
		{"user with a frame below", ErrInvalid, swap(`"kind":"forwarded"`, `"kind":"user"`)},
		{"negative line", ErrInvalid, swap(`"line":12`, `"line":-12`)},
		{"surface with an escape", ErrInvalid, swap(`"surface":"claude"`, `"surface":"\u001b[2J"`)},
		{"too many frames", ErrInvalid, func(b []byte) []byte {
			return []byte(strings.Repeat(`{"kind":"forwarded","session":"s","inner":`, MaxFrames) + string(b) + strings.Repeat("}", MaxFrames))
		}},
		{"a bomb of frames", ErrTooDeep, func(b []byte) []byte {
			return []byte(strings.Repeat(`{"kind":"forwarded","session":"s","inner":`, MaxDepth) + string(b) + strings.Repeat("}", MaxDepth))
		}},
		{"inner null", ErrNotCanonical, swap(`"inferred":true`, `"inferred":true,"inner":null`)},
	},
	"grant": {
		{"scope once", ErrInvalid, swap(`"scope":"session"`, `"scope":"once"`)},
		{"scope unknown", ErrInvalid, swap(`"scope":"tree"`, `"scope":"Tree"`)},
		{"denies", ErrInvalid, swap(`"action":"allow"`, `"action":"deny"`)},
		{"given by nobody", ErrInvalid, swap(`"kind":"user"`, `"kind":""`)},
		{"local time", ErrInvalid, swap(`05Z"`, `05+02:00"`)},
		{"huge life", ErrMalformed, swap(`"expires_ms":3600000`, `"expires_ms":1e999`)},
		{"empty digest", ErrInvalid, func(b []byte) []byte {
			i := bytes.Index(b, []byte(`"digest":"`))
			if i < 0 {
				return nil
			}
			return append(append(b[:i+10:i+10], strings.Repeat("0", 64)...), b[i+74:]...)
		}},
	},
	"rule": {
		{"verdict unknown", ErrMalformed, swap(`"action":"deny"`, `"action":"block"`)},
		{"verdict in capitals", ErrMalformed, swap(`"action":"allow"`, `"action":"Allow"`)},
		{"risk unknown", ErrInvalid, swap(`"risk":"low"`, `"risk":"none"`)},
		{"digest too short", ErrMalformed, swap(`"action":"deny"`, `"action":"deny","digest":"00"`)},
		{"digest empty", ErrInvalid, swap(`"action":"deny"`, `"action":"deny","digest":"`+strings.Repeat("0", 64)+`"`)},
		{"exceptions too deep", ErrInvalid, swap(`"except":[`, `"except":[`+strings.Repeat(`{"action":"deny","except":[`, MaxExceptDepth)+`{"action":"deny"}`+strings.Repeat("]}", MaxExceptDepth)+",")},
		{"empty exceptions", ErrNotCanonical, swap(`"action":"deny"`, `"action":"deny","except":[]`)},
		{"html escape", ErrNotCanonical, swap(`<secrets>`, `\u003csecrets\u003e`)},
	},
}

func TestMakeVectors(t *testing.T) {
	var out []vector
	used := map[string]bool{}
	add := func(typ, name string, b []byte, want error) {
		_, err := decoders[typ](b)
		if (want == nil) != (err == nil) || want != nil && errorName(err) != errorName(want) {
			t.Fatalf("%s/%s: got %v, want %v\n%s", typ, name, err, want, b)
		}
		out = append(out, vectorOf(typ, name, b, want))
	}
	for i, s := range samples(t) {
		b := mustEncode(t, s.v)
		add(s.typ, s.name, b, nil)
		if a, _ := decoders[s.typ](b); a != nil {
			if a, ok := a.(*Ask); ok {
				out[len(out)-1].Digest = a.Digest.String()
			}
		}
		for k := range 4 {
			w := twists[(4*i+k)%len(twists)]
			add(s.typ, s.name+", "+w.name, w.make(bytes.Clone(b)), w.want)
		}
		for _, w := range meanings[s.typ] {
			if used[s.typ+w.name] {
				continue
			}
			if bad := w.make(bytes.Clone(b)); bad != nil && !bytes.Equal(bad, b) {
				used[s.typ+w.name] = true
				add(s.typ, s.name+", "+w.name, bad, w.want)
			}
		}
	}
	for typ, list := range meanings {
		for _, w := range list {
			if !used[typ+w.name] {
				t.Errorf("%s, %s fits no sample", typ, w.name)
			}
		}
	}
	var file bytes.Buffer
	file.WriteString("{\"version\":1,\"vectors\":[\n")
	for i, v := range out {
		if i > 0 {
			file.WriteString(",\n")
		}
		file.Write(mustEncode(t, v))
	}
	file.WriteString("\n]}\n")
	if !*makeVectors {
		if pinned, err := os.ReadFile(vectorsFile); err != nil || !bytes.Equal(pinned, file.Bytes()) {
			t.Errorf("the samples no longer give %s (%v)", vectorsFile, err)
		}
		return
	}
	if err := os.WriteFile(vectorsFile, file.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Logf("vectorsDigest = %x", sha256.Sum256(file.Bytes()))
}
