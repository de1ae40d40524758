package ask

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

// native is what one known client asks, as this model holds it, with an
// answer a person may give to it and the parts of the model it proves.
type native struct {
	name string
	body Body
	// answer fills in what is given back; ask and digest are set for it.
	answer Answer
	offers []Offer
	// uses names the fields of the model the client needs, as paths from Body
	// or Answer; each must be set, so that a field cannot go missing unseen.
	uses []string
}

func question(id string, items ...Item) Body {
	return Body{ID: id, Origin: OriginAsk, From: Who{Session: "s-1", Client: "c"}, Title: "The agent asks", Items: items}
}

func options(labels ...string) []Option {
	var o []Option
	for i, l := range labels {
		o = append(o, Option{ID: string(rune('a' + i)), Label: l})
	}
	return o
}

func answered(items ...ItemAnswer) Answer { return Answer{Outcome: Answered, Items: items} }

func with[T any](v T, change func(*T)) T { change(&v); return v }

func natives() []native {
	gate := gateBody()
	return []native{
		{name: "Claude AskUserQuestion",
			body: with(question("q-1",
				Item{ID: "0", Header: "Library", Prompt: "Which *library*?", Type: ItemChoice, MaxPicks: 1,
					Options: []Option{
						{ID: "a", Label: "chi", Description: "small", Recommended: true, Preview: &Preview{Format: "markdown", Text: "`chi`"}},
						{ID: "b", Label: "echo", Description: "large", Preview: &Preview{Format: "html", Text: "<b>echo</b>"}}},
					Free: &Free{Mode: FreeBoth, Multiline: true}},
				Item{ID: "1", Header: "Parts", Prompt: "Which library?", Type: ItemChoice, Options: options("x", "y", "z"),
					Free: &Free{Mode: FreeBoth, Multiline: true}},
			), func(b *Body) {
				b.Verbs = Verbs{Skip: true, Decline: true, Dismiss: true, Stop: true, Reply: true, Reason: true}
				b.Raw = json.RawMessage(`{"tool_name":"AskUserQuestion"}`)
			}),
			answer: with(answered(
				ItemAnswer{Item: "0", Picks: []string{"b"}, Note: "but\npin it"},
				ItemAnswer{Item: "1", Picks: []string{"a", "c"}, Text: "and w"},
			), func(n *Answer) { n.Reply = "let me explain" }),
			uses: []string{"Body.Items.Header", "Body.Items.Options.Preview.Text", "Body.Items.Options.Recommended", "Body.Items.Options.Description",
				"Body.Items.Free.Multiline", "Answer.Items.Note", "Answer.Items.Text", "Answer.Reply", "Body.Raw", "Body.Verbs.Stop", "Body.Verbs.Reply"}},
		{name: "Codex request_user_input",
			body: with(question("q-2",
				Item{ID: "token", Header: "Token", Prompt: "Paste the token", Type: ItemChoice, Options: options("none", "ask me later"),
					MaxPicks: 1, Free: &Free{Mode: FreeBoth, Secret: true}},
			), func(b *Body) { b.Verbs = Verbs{Skip: true, Stop: true} }),
			answer: answered(ItemAnswer{Item: "token", Text: "s3cret"}),
			uses:   []string{"Body.Items.Free.Secret", "Body.Verbs.Skip"}},
		{name: "opencode question",
			body: with(question("q-3",
				Item{ID: "0", Header: strings.Repeat("h", 30), Prompt: "Pick", Type: ItemChoice, Options: options("one", "two", "one"), Free: &Free{Mode: FreeInstead, Multiline: true}},
			), func(b *Body) { b.Verbs = Verbs{Skip: true, Dismiss: true} }),
			answer: answered(ItemAnswer{Item: "0", Picks: []string{"a", "c"}, Text: "three"}),
			uses:   []string{"Answer.Items.Picks", "Body.Verbs.Dismiss"}},
		{name: "Gemini ask_user",
			body: question("q-4",
				Item{ID: "0", Header: "Name", Prompt: "Your name?", Type: ItemText, Free: &Free{Placeholder: "name, first", Multiline: true}},
				Item{ID: "1", Prompt: "Go on?", Type: ItemBool},
				Item{ID: "2", Prompt: "Colours?", Type: ItemChoice, Options: options("red, dark", "blue")}),
			answer: answered(ItemAnswer{Item: "0", Text: "a, b"}, ItemAnswer{Item: "1", Bool: new(bool)}, ItemAnswer{Item: "2", Picks: []string{"a"}}),
			uses:   []string{"Body.Items.Free.Placeholder", "Answer.Items.Bool"}},
		{name: "MCP elicitation, form",
			body: with(question("q-5",
				Item{ID: "mail", Header: "E-mail", Prompt: "Where to?", Type: ItemText, Required: true, Free: &Free{MinLen: 3, MaxLen: 80, Format: FormatEmail}},
				Item{ID: "share", Prompt: "Share", Type: ItemNumber, Min: "0.1", Max: "0.30000000000000004", Default: json.RawMessage(`0.1`)},
				Item{ID: "count", Prompt: "Count", Type: ItemInt, Min: "-9007199254740993", Max: "9007199254740993"},
				Item{ID: "sure", Prompt: "Sure", Type: ItemBool, Default: json.RawMessage(`true`)},
				Item{ID: "tags", Prompt: "Tags", Type: ItemChoice, MinPicks: 1, MaxPicks: 2, Default: json.RawMessage(`["a"]`),
					Options: []Option{{ID: "a", Value: "const-a", Label: "A"}, {ID: "b", Value: "const-b", Label: "B"}, {ID: "c", Value: "const-c", Label: "C"}}},
			), func(b *Body) {
				b.Action = &Action{Client: "claude", Tool: ToolMCP, ClientTool: "elicitation", Input: json.RawMessage(`{}`), Cwd: "/p", MCP: &MCP{Server: "mail", Source: "user"}}
				b.Preface = "The server needs an address."
				b.Verbs = Verbs{Skip: true, Decline: true, Dismiss: true}
				b.Raw = json.RawMessage(`{"method":"elicitation/create","params":{"_meta":{"state":"opaque"}}}`)
			}),
			answer: answered(ItemAnswer{Item: "mail", Text: "dev@example.org"}, ItemAnswer{Item: "share", Number: "0.30000000000000004"},
				ItemAnswer{Item: "count", Number: "9007199254740993"}, ItemAnswer{Item: "sure", State: ItemSkipped}, ItemAnswer{Item: "tags", Picks: []string{"b", "c"}}),
			uses: []string{"Body.Items.Options.Value", "Body.Items.MinPicks", "Body.Items.MaxPicks", "Body.Items.Min", "Body.Items.Max", "Body.Items.Required",
				"Body.Items.Default", "Body.Items.Free.Format", "Body.Items.Free.MinLen", "Body.Items.Free.MaxLen", "Answer.Items.Number", "Answer.Items.State",
				"Body.Preface", "Body.Action.MCP.Server", "Body.Verbs.Decline"}},
		{name: "MCP and ACP elicitation, URL",
			body: with(question("q-6", Item{ID: "open", Prompt: "Open this address?", Type: ItemBool}), func(b *Body) {
				b.URL = &URL{Address: "https://example.org/login?state=1", ID: "elicit-1"}
				b.Verbs = Verbs{Decline: true, Dismiss: true}
			}),
			answer: answered(ItemAnswer{Item: "open", Bool: yes()}),
			uses:   []string{"Body.URL.Address", "Body.URL.ID"}},
		{name: "ACP elicitation, pattern",
			body:   question("q-7", Item{ID: "branch", Prompt: "Branch", Type: ItemText, Free: &Free{Pattern: "^[a-z/-]+$", Prefill: "main"}}),
			answer: answered(ItemAnswer{Item: "branch", Text: "dev/x"}),
			uses:   []string{"Body.Items.Free.Pattern", "Body.Items.Free.Prefill"}},
		{name: "pi confirm, select, input, editor",
			body: question("q-8",
				Item{ID: "confirm", Header: "two\nlines", Prompt: "Sure?", Type: ItemBool},
				Item{ID: "select", Prompt: "Which?", Type: ItemChoice, MaxPicks: 1, Options: options("a", "b")},
				Item{ID: "editor", Prompt: "Text", Type: ItemText, Free: &Free{Multiline: true, Prefill: "old\ntext"}}),
			answer: answered(ItemAnswer{Item: "confirm", Bool: yes()}, ItemAnswer{Item: "select", Picks: []string{"b"}}, ItemAnswer{Item: "editor", Text: "new\ntext"}),
			uses:   []string{"Body.Items.Header"}},
		{name: "you decide",
			body:   with(question("q-9", Item{ID: "x", Prompt: "?", Type: ItemBool}), func(b *Body) { b.Verbs.YouDecide = true }),
			answer: answered(ItemAnswer{Item: "x", State: ItemYouDecide}),
			uses:   []string{"Body.Verbs.YouDecide"}},
		{name: "a memory to be picked",
			body: with(question("q-10", Item{ID: "m", Prompt: "Keep which?", Type: ItemChoice, Options: options("one", "two")}),
				func(b *Body) { b.Origin = OriginMemory }),
			answer: answered(ItemAnswer{Item: "m"}),
			uses:   []string{"Body.Origin"}},

		{name: "allow once", body: gate, answer: answered(ItemAnswer{Item: PermissionItem, Picks: []string{OptionAllow}}),
			uses: []string{"Body.Title", "Body.Cause", "Body.Risk", "Body.From.Agent", "Body.Action.Command", "Body.Action.Cwd", "Body.Action.Call"}},
		{name: "allow for the session, rule shown", body: gate, offers: []Offer{sessionOffer()},
			answer: with(answered(ItemAnswer{Item: PermissionItem, Picks: []string{OptionAllow}}), func(n *Answer) {
				d, _ := OffersDigest([]Offer{sessionOffer()})
				n.Offer, n.OfferDigest = "o-1", &d
			}),
			uses: []string{"Answer.Offer", "Answer.OfferDigest"}},
		{name: "allow for the session, the rule narrowed, for an hour", body: gate, offers: []Offer{sessionOffer()},
			answer: with(answered(ItemAnswer{Item: PermissionItem, Picks: []string{OptionAllow}}), func(n *Answer) {
				d, _ := OffersDigest([]Offer{sessionOffer()})
				r := sessionOffer().Rule
				n.Offer, n.OfferDigest, n.Grant = "o-1", &d, &GrantEdit{Rule: &r, ExpiresMS: 3_600_000}
			}),
			uses: []string{"Answer.Grant.Rule", "Answer.Grant.ExpiresMS"}},
		{name: "allow with an edited input", body: gate,
			answer: with(answered(ItemAnswer{Item: PermissionItem, Picks: []string{OptionAllow}}), func(n *Answer) { n.Edited = json.RawMessage(`{"command":"ls"}`) }),
			uses:   []string{"Answer.Edited", "Body.Verbs.Edit"}},
		{name: "deny and go on, with a reason", body: gate,
			answer: with(answered(ItemAnswer{Item: PermissionItem, Picks: []string{OptionDeny}}), func(n *Answer) { n.Reason = "use make clean" }),
			uses:   []string{"Answer.Reason", "Body.Verbs.Reason"}},
		{name: "deny and stop", body: gate, answer: Answer{Outcome: Stopped, Reason: "enough"}, uses: []string{"Body.Verbs.Stop"}},
		{name: "ACP permission with the client's own options",
			body: with(gateBody(), func(b *Body) {
				b.Items = []Item{{ID: PermissionItem, Prompt: "Allow?", Type: ItemChoice, MinPicks: 1, MaxPicks: 1, Options: []Option{
					{ID: "opt-1", Value: "allow_once", Label: "Yes", Effect: EffectAllow},
					{ID: "opt-2", Value: "reject_once", Label: "No", Effect: EffectDeny},
					{ID: "opt-3", Value: "reject_always", Label: "Never", Effect: EffectDeny}}}}
				b.Raw = json.RawMessage(`{"subject":{"type":"unknown","x":1}}`)
			}),
			answer: answered(ItemAnswer{Item: PermissionItem, Picks: []string{"opt-3"}}),
			uses:   []string{"Body.Items.Options.Effect", "Body.Raw"}},
		{name: "plan approval with feedback",
			body: with(gateBody(), func(b *Body) {
				b.Origin, b.Action, b.Preface = OriginPlan, nil, "1. read\n2. write"
				b.Items = append(PermissionItems("Approve this plan?"), Item{ID: "feedback", Prompt: "Anything to change?", Type: ItemText, Free: &Free{Multiline: true}})
			}),
			answer: answered(ItemAnswer{Item: PermissionItem, Picks: []string{OptionAllow}}, ItemAnswer{Item: "feedback", Text: "skip 2"}),
			uses:   []string{"Body.Preface"}},
		{name: "every kind of action",
			body: with(gateBody(), func(b *Body) {
				a := b.Action
				a.Paths = []Path{{Given: "../x", Real: "/home/dev/x", Access: AccessWrite}}
				a.URL, a.Query, a.Agent, a.MCP = "https://example.org", "query", "reviewer", &MCP{Server: "s", Name: "t", Source: "project"}
			}),
			answer: answered(ItemAnswer{Item: PermissionItem, Picks: []string{OptionAllow}}),
			uses: []string{"Body.Action.Paths.Real", "Body.Action.URL", "Body.Action.Query", "Body.Action.Agent", "Body.Action.MCP.Source",
				"Body.Action.Home", "Body.Action.Project", "Body.Action.ClientTool", "Body.Action.Input", "Body.V", "Body.ID", "Body.From.Session", "Body.From.Client"}},
	}
}

// Nothing that a known client can ask or be told is lost: it seals, its bytes
// come back as they were, and the answer is valid and survives its own wire.
func TestLosslessForEveryClient(t *testing.T) {
	proved := map[string]bool{}
	for _, n := range natives() {
		t.Run(n.name, func(t *testing.T) {
			a := seal(t, n.body)
			want := n.body
			want.V = Version
			if !reflect.DeepEqual(a.Body, want) {
				t.Fatalf("sealed as\n%+v\nwant\n%+v", a.Body, want)
			}
			back, err := DecodeAsk(mustEncode(t, a))
			if err != nil || !bytes.Equal(back.Raw, a.Raw) || !reflect.DeepEqual(back.Body, want) {
				t.Fatalf("over the wire: %v", err)
			}
			ans := n.answer
			ans.Ask, ans.Digest = a.Body.ID, a.Digest
			if err := back.Validate(&ans, n.offers); err != nil {
				t.Fatal(err)
			}
			told, err := DecodeAnswer(mustEncode(t, ans))
			if err != nil || !reflect.DeepEqual(told, ans) {
				t.Fatalf("answer over the wire: %+v, %v", told, err)
			}
			for _, path := range n.uses {
				root, rest, _ := strings.Cut(path, ".")
				v := reflect.ValueOf(want)
				if root == "Answer" {
					v = reflect.ValueOf(ans)
				}
				if !isSet(v, strings.Split(rest, ".")) {
					t.Errorf("%s is named but not set", path)
				}
				proved[path] = true
			}
		})
	}
	// Every field there is must have been carried for some client, so that a
	// new one comes with its proof.
	for root, typ := range map[string]reflect.Type{"Body": reflect.TypeFor[Body](), "Answer": reflect.TypeFor[Answer]()} {
		for _, path := range fields(root, typ) {
			if !proved[path] && !alwaysSet[path] {
				t.Errorf("no client proves %s", path)
			}
		}
	}
}

// alwaysSet are fields that no ask or answer is valid without.
var alwaysSet = map[string]bool{
	"Answer.Ask": true, "Answer.Digest": true, "Answer.Outcome": true, "Answer.Items.Item": true,
	"Body.Items.ID": true, "Body.Items.Prompt": true, "Body.Items.Type": true, "Body.Items.Options.ID": true, "Body.Items.Options.Label": true,
	"Body.Items.Options.Preview.Format": true, "Body.Items.Free.Mode": true, "Body.Action.Client": true, "Body.Action.Tool": true,
	"Body.Action.MCP.Name": true, "Body.Action.Paths.Given": true, "Body.Action.Paths.Access": true,
}

func isSet(v reflect.Value, path []string) bool {
	for v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return false
		}
		v = v.Elem()
	}
	if len(path) == 0 {
		return !v.IsZero() || v.Kind() == reflect.Bool
	}
	if v.Kind() == reflect.Slice {
		for i := range v.Len() {
			if isSet(v.Index(i), path) {
				return true
			}
		}
		return false
	}
	f := v.FieldByName(path[0])
	return f.IsValid() && (f.Kind() != reflect.Bool || f.Bool()) && isSet(f, path[1:])
}

// fields lists the leaf fields of t as paths. A rule, which holds rules, is one.
func fields(prefix string, t reflect.Type) []string {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Struct {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || t == reflect.TypeFor[Rule]() {
		return []string{prefix}
	}
	var out []string
	for i := range t.NumField() {
		f := t.Field(i)
		out = append(out, fields(prefix+"."+f.Name, f.Type)...)
	}
	return out
}
