package ask

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

func TestValidatePermission(t *testing.T) {
	a := seal(t, gateBody())
	offers := []Offer{sessionOffer()}
	digest, err := OffersDigest(offers)
	if err != nil {
		t.Fatal(err)
	}
	other := Digest{1}
	grant := func(n *Answer) { n.Offer, n.OfferDigest = "o-1", &digest }
	for _, tc := range []struct {
		name   string
		option string
		change func(*Answer)
		want   error
	}{
		{"allow", OptionAllow, nil, nil},
		{"deny", OptionDeny, nil, nil},
		{"deny with a reason", OptionDeny, func(n *Answer) { n.Reason = "use make clean" }, nil},
		{"allow and grant", OptionAllow, grant, nil},
		{"allow once, offers long gone", OptionAllow, func(n *Answer) { n.OfferDigest = &other }, nil},
		{"deny, offers long gone", OptionDeny, func(n *Answer) { n.OfferDigest = &other }, nil},
		{"allow an edited input", OptionAllow, func(n *Answer) { n.Edited = []byte(`{"command":"ls"}`) }, nil},
		{"stop", "", func(n *Answer) { n.Outcome, n.Items = Stopped, nil }, nil},
		{"stop with a reason", "", func(n *Answer) { n.Outcome, n.Items, n.Reason = Stopped, nil, "enough" }, nil},

		{"another ask", OptionAllow, func(n *Answer) { n.Ask = "a-9" }, ErrWrongAsk},
		{"no ask", OptionAllow, func(n *Answer) { n.Ask = "" }, ErrWrongAsk},
		{"another digest", OptionAllow, func(n *Answer) { n.Digest[31]++ }, ErrWrongDigest},
		{"no digest", OptionAllow, func(n *Answer) { n.Digest = Digest{} }, ErrWrongDigest},
		{"no outcome", OptionAllow, func(n *Answer) { n.Outcome = "" }, ErrInvalid},
		{"outcome of no surface", "", func(n *Answer) { n.Outcome, n.Items = TimedOut, nil }, ErrInvalid},
		{"unknown outcome", OptionAllow, func(n *Answer) { n.Outcome = "Answered" }, ErrInvalid},
		{"decline is not legal here", "", func(n *Answer) { n.Outcome, n.Items = Declined, nil }, ErrInvalid},
		{"dismiss is not legal here", "", func(n *Answer) { n.Outcome, n.Items = Dismissed, nil }, ErrInvalid},
		{"stop with an allow", OptionAllow, func(n *Answer) { n.Outcome = Stopped }, ErrInvalid},
		{"no item", "", func(n *Answer) { n.Items = nil }, ErrInvalid},
		{"item twice", OptionAllow, func(n *Answer) { n.Items = append(n.Items, n.Items[0]) }, ErrInvalid},
		{"allow and deny items", OptionAllow, func(n *Answer) {
			n.Items = append(n.Items, ItemAnswer{Item: PermissionItem, Picks: []string{OptionDeny}})
		}, ErrInvalid},
		{"foreign item", OptionAllow, func(n *Answer) { n.Items = append(n.Items, ItemAnswer{Item: "x", Text: "y"}) }, ErrInvalid},
		{"no pick", OptionAllow, func(n *Answer) { n.Items[0].Picks = nil }, ErrInvalid},
		{"two picks", OptionAllow, func(n *Answer) { n.Items[0].Picks = []string{OptionAllow, OptionDeny} }, ErrInvalid},
		{"same pick twice", OptionAllow, func(n *Answer) { n.Items[0].Picks = []string{OptionAllow, OptionAllow} }, ErrInvalid},
		{"unknown pick", "Allow", nil, ErrInvalid},
		{"empty pick", "", nil, ErrInvalid},
		{"skip", "", func(n *Answer) { n.Items[0] = ItemAnswer{Item: PermissionItem, State: ItemSkipped} }, ErrInvalid},
		{"you decide", "", func(n *Answer) { n.Items[0] = ItemAnswer{Item: PermissionItem, State: ItemYouDecide} }, ErrInvalid},
		{"unknown state", OptionAllow, func(n *Answer) { n.Items[0].State = "answered" }, ErrInvalid},
		{"note", OptionAllow, func(n *Answer) { n.Items[0].Note = "x" }, ErrInvalid},
		{"text", OptionAllow, func(n *Answer) { n.Items[0].Text = "x" }, ErrInvalid},
		{"bool", OptionAllow, func(n *Answer) { n.Items[0].Bool = yes() }, ErrInvalid},
		{"number", OptionAllow, func(n *Answer) { n.Items[0].Number = "1" }, ErrInvalid},
		{"reply is not legal here", OptionAllow, func(n *Answer) { n.Reply = "well" }, ErrInvalid},
		{"endless reason", OptionDeny, func(n *Answer) { n.Reason = strings.Repeat("x", MaxText+1) }, ErrTooLarge},
		{"grant with a deny", OptionDeny, grant, ErrInvalid},
		{"grant with a stop", "", func(n *Answer) { grant(n); n.Outcome, n.Items = Stopped, nil }, ErrInvalid},
		{"grant without digest", OptionAllow, func(n *Answer) { n.Offer = "o-1" }, ErrInvalid},
		{"grant with another digest", OptionAllow, func(n *Answer) { n.Offer, n.OfferDigest = "o-1", &other }, ErrInvalid},
		{"unknown grant", OptionAllow, func(n *Answer) { grant(n); n.Offer = "o-2" }, ErrInvalid},
		{"grant with an edited input", OptionAllow, func(n *Answer) { grant(n); n.Edited = []byte(`{}`) }, ErrInvalid},
		{"deny an edited input", OptionDeny, func(n *Answer) { n.Edited = []byte(`{}`) }, ErrInvalid},
		{"edited to something that is not JSON", OptionAllow, func(n *Answer) { n.Edited = []byte(`{`) }, ErrMalformed},
		{"edited to two meanings", OptionAllow, func(n *Answer) { n.Edited = []byte(`{"command":"ls","command":"rm"}`) }, ErrInvalid},
	} {
		t.Run(tc.name, func(t *testing.T) {
			n := permissionAnswer(a, tc.option)
			if tc.change != nil {
				tc.change(&n)
			}
			err := a.Validate(&n, offers)
			if tc.want == nil && err != nil || tc.want != nil && !errors.Is(err, tc.want) {
				t.Fatalf("got %v, want %v", err, tc.want)
			}
		})
	}
	if err := a.Validate(nil, nil); !errors.Is(err, ErrInvalid) {
		t.Error(err)
	}
	n := AllowAnswer(a)
	grant(&n)
	if err := a.Validate(&n, nil); !errors.Is(err, ErrInvalid) {
		t.Errorf("a grant that is no longer offered: %v", err)
	}
}

func TestValidateVerbsAreThisAsks(t *testing.T) {
	b := gateBody()
	b.Verbs = Verbs{}
	a := seal(t, b)
	n := AllowAnswer(a)
	n.Edited = []byte(`{}`)
	if a.Validate(&n, nil) == nil {
		t.Error("edited where the client cannot carry it")
	}
	stop := Answer{Ask: a.Body.ID, Digest: a.Digest, Outcome: Stopped}
	if a.Validate(&stop, nil) == nil {
		t.Error("stopped where the client cannot stop")
	}
	deny := DenyAnswer(a, "no")
	if err := a.Validate(&deny, nil); err != nil {
		t.Errorf("a deny is never refused for its words: %v", err)
	}
}

func TestValidateItems(t *testing.T) {
	a := seal(t, formBody())
	set := func(item string, v ItemAnswer) func(*Answer) {
		return func(n *Answer) {
			for i := range n.Items {
				if n.Items[i].Item == item {
					v.Item = item
					n.Items[i] = v
				}
			}
		}
	}
	for _, tc := range []struct {
		name   string
		change func(*Answer)
		ok     bool
	}{
		{"as filled in", func(*Answer) {}, true},
		{"other order of items", func(n *Answer) { n.Items[0], n.Items[5] = n.Items[5], n.Items[0] }, true},
		{"missing item", func(n *Answer) { n.Items = n.Items[1:] }, false},
		{"all left out with a reply", func(n *Answer) { n.Items, n.Reply = nil, "let me explain" }, true},
		{"some left out with a reply", func(n *Answer) { n.Items, n.Reply = n.Items[:2], "let me explain" }, true},
		{"a wrong item with a reply", func(n *Answer) { n.Items, n.Reply = []ItemAnswer{{Item: "lib", Picks: []string{"q"}}}, "x" }, false},
		{"declined", func(n *Answer) { n.Outcome, n.Items = Declined, nil }, true},
		{"dismissed", func(n *Answer) { n.Outcome, n.Items = Dismissed, nil }, true},
		{"stopped is not legal here", func(n *Answer) { n.Outcome, n.Items = Stopped, nil }, false},
		{"a question grants nothing", func(n *Answer) { n.Offer, n.OfferDigest = "o-1", &Digest{} }, false},
		{"a question edits nothing", func(n *Answer) { n.Edited = []byte(`{}`) }, false},

		{"own answer", set("lib", ItemAnswer{Text: "another"}), true},
		{"own answer beside a single pick", set("lib", ItemAnswer{Picks: []string{"a"}, Text: "another"}), false},
		{"own answer too long", set("lib", ItemAnswer{Text: strings.Repeat("é", 21)}), false},
		{"own answer just fits", set("lib", ItemAnswer{Text: strings.Repeat("é", 20)}), true},
		{"own answer of spaces", set("lib", ItemAnswer{Text: " \n"}), false},
		{"note alone on a required choice", set("lib", ItemAnswer{Note: "x"}), false},
		{"required, empty", set("lib", ItemAnswer{}), false},
		{"required, skipped", set("lib", ItemAnswer{State: ItemSkipped}), false},
		{"required, left to the agent", set("lib", ItemAnswer{State: ItemYouDecide}), true},
		{"skipped", set("parts", ItemAnswer{State: ItemSkipped}), true},
		{"skipped with a pick", set("parts", ItemAnswer{State: ItemSkipped, Picks: []string{"x"}}), false},
		{"left to the agent with a note", set("lib", ItemAnswer{State: ItemYouDecide, Note: "x"}), false},
		{"too few picks", set("parts", ItemAnswer{}), false},
		{"too many picks", set("parts", ItemAnswer{Picks: []string{"x", "y", "z"}}), false},
		{"one pick", set("parts", ItemAnswer{Picks: []string{"z"}}), true},
		{"equal labels are told apart", set("parts", ItemAnswer{Picks: []string{"y", "z"}}), true},
		{"label for an id", set("parts", ItemAnswer{Picks: []string{"Z"}}), false},
		{"picks out of order", set("parts", ItemAnswer{Picks: []string{"z", "x"}}), false},
		{"pick twice", set("parts", ItemAnswer{Picks: []string{"x", "x"}}), false},
		{"own answer not offered", set("parts", ItemAnswer{Picks: []string{"x"}, Text: "y"}), false},
		{"note not offered", set("parts", ItemAnswer{Picks: []string{"x"}, Note: "y"}), false},
		{"text too short", set("name", ItemAnswer{Text: "a"}), false},
		{"text too long", set("name", ItemAnswer{Text: "abcdefghi"}), false},
		{"text off its pattern", set("name", ItemAnswer{Text: "ABC"}), false},
		{"text over two lines", set("name", ItemAnswer{Text: "abc\n"}), false},
		{"text where a pick belongs", set("name", ItemAnswer{Picks: []string{"a"}}), false},
		{"no bool", set("sure", ItemAnswer{}), false},
		{"text for a bool", set("sure", ItemAnswer{Text: "true"}), false},
		{"lower limit", set("ratio", ItemAnswer{Number: "-0.5"}), true},
		{"under it", set("ratio", ItemAnswer{Number: "-0.50000000000000000000000000000000000000000001"}), false},
		{"over the upper limit", set("ratio", ItemAnswer{Number: "0.30000000000000000000000000000001"}), false},
		{"zeros do not matter", set("ratio", ItemAnswer{Number: "0.3000"}), true},
		{"exponent", set("ratio", ItemAnswer{Number: "1e-1"}), false},
		{"endless exponent", set("ratio", ItemAnswer{Number: "-1e999999999"}), false},
		{"hex", set("ratio", ItemAnswer{Number: "0x0"}), false},
		{"fraction of two numbers", set("ratio", ItemAnswer{Number: "1/10"}), false},
		{"plus", set("ratio", ItemAnswer{Number: "+0.1"}), false},
		{"no digit before the point", set("ratio", ItemAnswer{Number: ".1"}), false},
		{"no digit after the point", set("ratio", ItemAnswer{Number: "0."}), false},
		{"leading zero", set("ratio", ItemAnswer{Number: "00.1"}), false},
		{"infinity", set("ratio", ItemAnswer{Number: "-Inf"}), false},
		{"underscore", set("count", ItemAnswer{Number: "1_0"}), false},
		{"empty number", set("ratio", ItemAnswer{}), false},
		{"whole", set("count", ItemAnswer{Number: "1"}), true},
		{"past 64 bits, still exact", set("count", ItemAnswer{Number: "99999999999999999998"}), true},
		{"past the limit by one", set("count", ItemAnswer{Number: "100000000000000000000"}), false},
		{"not whole", set("count", ItemAnswer{Number: "1.0"}), false},
		{"more digits than any client sends", set("count", ItemAnswer{Number: strings.Repeat("1", 65)}), false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			n := formAnswer(a)
			tc.change(&n)
			if err := a.Validate(&n, nil); (err == nil) != tc.ok {
				t.Fatalf("%v", err)
			} else if err != nil && !errors.Is(err, ErrInvalid) {
				t.Fatalf("untyped error %v", err)
			}
		})
	}
}

func TestTextFormats(t *testing.T) {
	for _, tc := range []struct {
		format, text string
		ok           bool
	}{
		{"", "anything", true},
		{FormatEmail, "dev@example.org", true}, {FormatEmail, "dev", false}, {FormatEmail, "@x", false}, {FormatEmail, "a@", false}, {FormatEmail, "a b@c", false},
		{FormatURI, "https://example.org/x", true}, {FormatURI, "example.org", false}, {FormatURI, "http://%zz", false},
		{FormatDate, "2026-02-28", true}, {FormatDate, "2026-02-30", false}, {FormatDate, "28.2.2026", false},
		{FormatDateTime, "2026-02-28T10:00:00+01:00", true}, {FormatDateTime, "2026-02-28 10:00", false},
	} {
		f := &Free{Format: tc.format}
		if err := f.validate(tc.text); (err == nil) != tc.ok {
			t.Errorf("%s %q: %v", tc.format, tc.text, err)
		}
	}
	foreign := &Free{Pattern: "(?=x)"}
	if err := foreign.validate("y"); err != nil {
		t.Errorf("a pattern of another dialect is the client's: %v", err)
	}
}

func TestPermission(t *testing.T) {
	a := seal(t, gateBody())
	pick := func(p ...string) *Answer {
		return &Answer{Ask: a.Body.ID, Digest: a.Digest, Outcome: Answered, Items: []ItemAnswer{{Item: PermissionItem, Picks: p}}}
	}
	twice := pick(OptionAllow)
	twice.Items = append(twice.Items, ItemAnswer{Item: PermissionItem, Picks: []string{OptionDeny}})
	skipped := pick(OptionAllow)
	skipped.Items[0].State = ItemSkipped
	stopped := pick(OptionAllow)
	stopped.Outcome = Stopped
	for _, tc := range []struct {
		name      string
		n         *Answer
		allow, ok bool
	}{
		{"allow", pick(OptionAllow), true, true},
		{"deny", pick(OptionDeny), false, true},
		{"nil", nil, false, false},
		{"zero", &Answer{}, false, false},
		{"none", pick(), false, false},
		{"both", pick(OptionAllow, OptionDeny), false, false},
		{"unknown", pick("yes"), false, false},
		{"two entries", twice, false, false},
		{"skipped", skipped, false, false},
		{"stopped", stopped, false, false},
	} {
		if allow, ok := a.Permission(tc.n); allow != tc.allow || ok != tc.ok {
			t.Errorf("%s: %v, %v", tc.name, allow, ok)
		}
	}
	q := seal(t, formBody())
	n := formAnswer(q)
	if allow, ok := q.Permission(&n); allow || ok {
		t.Error("a question allowed something")
	}
}

func TestBodyCheck(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*Body)
	}{
		{"no id", func(b *Body) { b.ID = "" }},
		{"id dots", func(b *Body) { b.ID = ".." }},
		{"id with a separator", func(b *Body) { b.ID = "a/b" }},
		{"id too long", func(b *Body) { b.ID = strings.Repeat("a", 65) }},
		{"session with a newline", func(b *Body) { b.From.Session = "a\n" }},
		{"client with a space", func(b *Body) { b.From.Client = "a b" }},
		{"origin", func(b *Body) { b.Origin = "tool" }},
		{"no origin", func(b *Body) { b.Origin = "" }},
		{"no title", func(b *Body) { b.Title = " \n" }},
		{"risk", func(b *Body) { b.Risk = "none" }},
		{"gate without action", func(b *Body) { b.Action = nil }},
		{"tool", func(b *Body) { b.Action.Tool = "Bash" }},
		{"no client", func(b *Body) { b.Action.Client = "" }},
		{"no client tool", func(b *Body) { b.Action.ClientTool = "" }},
		{"no input", func(b *Body) { b.Action.Input = nil }},
		{"input with two meanings", func(b *Body) { b.Action.Input = json.RawMessage(`{"a":1,"a":2}`) }},
		{"relative cwd", func(b *Body) { b.Action.Cwd = "proj" }},
		{"relative project", func(b *Body) { b.Action.Project = "proj" }},
		{"relative home", func(b *Body) { b.Action.Home = "~" }},
		{"cwd with a zero byte", func(b *Body) { b.Action.Cwd = "/a\x00b" }},
		{"empty command", func(b *Body) { b.Action.Command = " \n" }},
		{"mcp without server", func(b *Body) { b.Action.Tool = ToolMCP }},
		{"mcp source", func(b *Body) { b.Action.MCP = &MCP{Server: "s", Name: "n", Source: "local"} }},
		{"mcp without name", func(b *Body) { b.Action.MCP = &MCP{Server: "s"} }},
		{"access", func(b *Body) { b.Action.Paths = []Path{{Given: "a", Real: "/a", Access: "rw"}} }},
		{"path without its place", func(b *Body) { b.Action.Paths = []Path{{Given: "a", Real: "a", Access: AccessRead}} }},
		{"text that is not UTF-8", func(b *Body) { b.Action.Paths = []Path{{Given: "a\xff", Real: "/a\xff", Access: AccessRead}} }},
		{"native request is not JSON", func(b *Body) { b.Raw = []byte("x") }},
		{"url without address", func(b *Body) { b.URL = &URL{} }},
		{"no items", func(b *Body) { b.Items = nil }},
		{"too many items", func(b *Body) {
			for range MaxItems {
				b.Items = append(b.Items, Item{ID: "x", Type: ItemBool})
			}
		}},
		{"item id twice", func(b *Body) { b.Items = append(b.Items, b.Items[0]) }},
		{"item id hidden", func(b *Body) { b.Items[0].ID = "a\u200b" }},
		{"item type", func(b *Body) { b.Items[0].Type = "radio" }},
		{"no options", func(b *Body) { b.Items[0].Options = nil }},
		{"option id twice", func(b *Body) { b.Items[0].Options[1].ID = OptionAllow }},
		{"option without id", func(b *Body) { b.Items[0].Options[1].ID = "" }},
		{"effect", func(b *Body) { b.Items[0].Options[0].Effect = "Allow" }},
		{"an option without effect beside", func(b *Body) { b.Items[0].Options = append(b.Items[0].Options, Option{ID: "maybe", Label: "Maybe"}) }},
		{"no way to deny", func(b *Body) { b.Items[0].Options = b.Items[0].Options[:1] }},
		{"no effect at all", func(b *Body) { b.Items[0].Options[0].Effect, b.Items[0].Options[1].Effect = "", "" }},
		{"two permissions", func(b *Body) {
			b.Items = append(b.Items, PermissionItems("again")[0])
			b.Items[1].ID = "again"
		}},
		{"a permission of two picks", func(b *Body) { b.Items[0].MaxPicks = 2 }},
		{"a permission without a pick", func(b *Body) { b.Items[0].MinPicks = 0 }},
		{"a permission in own words", func(b *Body) { b.Items[0].Free = &Free{Mode: FreeInstead} }},
		{"free mode", func(b *Body) { b.Items[0].Free = &Free{Mode: "any"} }},
		{"no free mode", func(b *Body) { b.Items[0].Free = &Free{} }},
		{"free format", func(b *Body) { b.Items[0].Free = &Free{Mode: FreeBeside, Format: "phone"} }},
		{"free lengths", func(b *Body) { b.Items[0].Free = &Free{Mode: FreeBeside, MinLen: 2, MaxLen: 1} }},
		{"preview format", func(b *Body) { b.Items[0].Options[0].Preview = &Preview{Format: "pdf"} }},
		{"default is not JSON", func(b *Body) { b.Items[0].Default = []byte("allow") }},
		{"a question with an effect", func(b *Body) { b.Origin = OriginAsk }},
		{"more picks than options", func(b *Body) {
			b.Items = append(b.Items, Item{ID: "x", Type: ItemChoice, MinPicks: 2, Options: []Option{{ID: "a", Label: "A"}}})
		}},
		{"options in a text", func(b *Body) { b.Items = append(b.Items, Item{ID: "x", Type: ItemText, Options: []Option{{ID: "a"}}}) }},
		{"limits in a text", func(b *Body) { b.Items = append(b.Items, Item{ID: "x", Type: ItemText, Min: "1"}) }},
		{"note in a text", func(b *Body) { b.Items = append(b.Items, Item{ID: "x", Type: ItemText, Free: &Free{Mode: FreeBeside}}) }},
		{"text in a bool", func(b *Body) { b.Items = append(b.Items, Item{ID: "x", Type: ItemBool, Free: &Free{}}) }},
		{"text in a number", func(b *Body) { b.Items = append(b.Items, Item{ID: "x", Type: ItemInt, Free: &Free{}}) }},
		{"limit is no number", func(b *Body) { b.Items = append(b.Items, Item{ID: "x", Type: ItemNumber, Min: "one"}) }},
		{"limits are empty", func(b *Body) { b.Items = append(b.Items, Item{ID: "x", Type: ItemNumber, Min: "2", Max: "1"}) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := gateBody()
			tc.change(&b)
			if a, err := Seal(b); err == nil {
				t.Fatalf("sealed as %s", a.Raw)
			} else if b.V = Version; decodeError(err) != err {
				t.Fatalf("untyped error %v", err)
			}
		})
	}
	b := gateBody()
	b.V = 7
	if a := seal(t, b); a.Body.V != Version {
		t.Error("Seal takes the version of this build")
	}
}
