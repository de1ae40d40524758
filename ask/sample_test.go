package ask

import "testing"

// gateBody is a plain permission of a shell command.
func gateBody() Body {
	return Body{
		ID: "a-1", Origin: OriginGate, From: Who{Session: "claude-7f3", Client: "claude", Agent: "reviewer"},
		Title: "Run a command", Cause: "no rule allows it", Risk: RiskHigh,
		Action: &Action{
			Client: "claude", Tool: ToolBash, ClientTool: "Bash", Call: "toolu_01",
			Input: []byte(`{"command":"rm -rf build"}`),
			Cwd:   "/home/dev/proj", Project: "/home/dev/proj", Home: "/home/dev",
			Command: "rm -rf build",
		},
		Items: PermissionItems("Allow this command?"),
		Verbs: Verbs{Stop: true, Edit: true, Reason: true},
	}
}

func seal(t testing.TB, b Body) *Ask {
	t.Helper()
	a, err := Seal(b)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func sessionOffer() Offer {
	return Offer{ID: "o-1", Scope: ScopeSession, Label: "Allow rm -rf build in this session",
		Rule: Rule{Action: Allow, Tool: "bash", Command: "rm -rf build"}}
}

// formBody is a question with one item of every type.
func formBody() Body {
	return Body{
		ID: "a-2", Origin: OriginAsk, From: Who{Session: "claude-7f3", Client: "claude"}, Title: "Some questions",
		Items: []Item{
			{ID: "lib", Prompt: "Which library?", Type: ItemChoice, MaxPicks: 1, Required: true,
				Options: []Option{{ID: "a", Label: "A"}, {ID: "b", Label: "B"}},
				Free:    &Free{Mode: FreeBoth, Multiline: true, MaxLen: 20}},
			{ID: "parts", Prompt: "Which parts?", Type: ItemChoice, MinPicks: 1, MaxPicks: 2,
				Options: []Option{{ID: "x", Label: "X"}, {ID: "y", Label: "X"}, {ID: "z", Label: "Z"}}},
			{ID: "name", Prompt: "Name", Type: ItemText, Free: &Free{MinLen: 2, MaxLen: 8, Pattern: "^[a-z]+$"}},
			{ID: "sure", Prompt: "Sure?", Type: ItemBool},
			{ID: "ratio", Prompt: "Ratio", Type: ItemNumber, Min: "-0.5", Max: "0.3"},
			{ID: "count", Prompt: "Count", Type: ItemInt, Min: "1", Max: "99999999999999999999"},
		},
		Verbs: Verbs{Skip: true, YouDecide: true, Decline: true, Dismiss: true, Reply: true},
	}
}

func yes() *bool { b := true; return &b }

func formAnswer(a *Ask) Answer {
	return Answer{Ask: a.Body.ID, Digest: a.Digest, Outcome: Answered, Items: []ItemAnswer{
		{Item: "lib", Picks: []string{"b"}, Note: "the newer one"},
		{Item: "parts", Picks: []string{"x", "z"}},
		{Item: "name", Text: "abc"},
		{Item: "sure", Bool: yes()},
		{Item: "ratio", Number: "0.3"},
		{Item: "count", Number: "99999999999999999999"},
	}}
}

func ruleBy() By {
	return By{Kind: KindRule, Rule: &RuleRef{Layer: "user", File: "/home/dev/.config/permd/policy.toml", Line: 12}}
}

func sampleGrant() Grant {
	return Grant{ID: "g-1", Scope: ScopeSession, Session: "claude-7f3",
		Rule: Rule{Action: Allow, Tool: "bash", Command: "go test *"},
		By:   By{Kind: KindUser, Session: "claude-7f3", Surface: "terminal"}, Given: "2026-01-02T03:04:05Z", ExpiresMS: 3600000}
}

func sampleDecision(a *Ask) Decision {
	g := sampleGrant()
	ans := AllowAnswer(a)
	ms := int64(600000)
	return Decision{Ask: a.Body.ID, Digest: a.Digest, Verdict: Allow, Outcome: Answered,
		By:     Forwarded("claude-lead", By{Kind: KindUser, Session: "claude-lead", Surface: "terminal"}),
		Reason: "allowed at the desk", Grant: &g, Answer: &ans, WaitMS: &ms}
}
