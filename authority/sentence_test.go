package authority

import (
	"strings"
	"testing"

	"permd/ask"
)

func TestSentence(t *testing.T) {
	no := func(by ask.By, reason string) ask.Decision {
		return ask.Decision{Outcome: ask.Answered, By: by, Reason: reason}
	}
	ended := func(o ask.Outcome, by ask.By, reason string) ask.Decision {
		return ask.Decision{Outcome: o, By: by, Reason: reason}
	}
	device := ask.By{Kind: ask.KindDevice, Session: "lead", Surface: "SHA256:f00d"}
	dialog := ask.By{Kind: ask.KindClientDialog, Surface: "claude"}
	guess := dialog
	guess.Inferred = true
	for _, c := range []struct {
		want string
		d    ask.Decision
	}{
		{"denied: permd gave no decision", ask.Decision{}},
		{"denied by the user", no(user(), "")},
		{"denied by the user: use make instead", no(user(), "use make instead.")},
		{"denied by the user at session lead: no", no(ask.Forwarded("mid", ask.Forwarded("top", user())), "no")},
		{"denied by the human on the paired device", no(device, "")},
		{"denied by the human on the paired device at session lead", no(ask.Forwarded("lead", device), "")},
		{"declined by the user", ended(ask.Declined, user(), "")},
		{"closed without an answer by the user", ended(ask.Dismissed, user(), "")},
		{"stopped by the user: enough", ended(ask.Stopped, user(), "enough")},
		{"denied in the client's own dialog", no(dialog, "")},
		{"denied in the client's own dialog (concluded from what happened next)", no(guess, "")},
		{"denied by the rule at /etc/p.toml line 12: no network", no(ruleBy(), "no network")},
		{"denied by the rule at /etc/p.toml line 12 at session lead: no network",
			no(ask.Forwarded("lead", ruleBy()), "no network")},
		{"denied by a rule in p.toml", no(ask.By{Kind: ask.KindRule, Rule: &ask.RuleRef{Layer: "user", File: "p.toml"}}, "")},
		{"denied by a rule of the managed layer", no(ask.By{Kind: ask.KindRule, Rule: &ask.RuleRef{Layer: "managed"}}, "")},
		{"denied by a rule", no(ask.By{Kind: ask.KindRule}, "")},
		{"denied, because no rule allows it", no(ask.By{Kind: ask.KindDefault}, "")},
		{"denied by a built-in rule", no(ask.By{Kind: ask.KindBaseline}, "")},
		{"denied to protect permd and the clients' settings", no(ask.By{Kind: ask.KindProtection}, "")},
		{"denied by an authorizer of the chain", no(ask.By{Kind: ask.KindLink}, "")},
		{"denied by the session's mode", no(ask.By{Kind: ask.KindMode}, "")},
		{"denied again without a question, as it was denied before in this session", no(ask.By{Kind: ask.KindRepeat}, "")},
		{"not allowed: nobody answered within 10m0s; session lead waited for a paired device",
			ended(ask.TimedOut, ask.By{Kind: ask.KindTimeout}, "nobody answered within 10m0s; session lead waited for a paired device")},
		{"not allowed: nobody answered in time", ended(ask.TimedOut, ask.By{Kind: ask.KindTimeout}, "")},
		{"not allowed at session lead: nobody can answer", ended(ask.Unavailable, ask.Forwarded("lead", ask.By{Kind: ask.KindUnavailable}), "")},
		{"not allowed: the ask was taken back", ended(ask.Withdrawn, ask.By{Kind: ask.KindWithdrawn}, "")},
		{"denied, because permd could not decide: the review log cannot be written: disk full",
			ended(ask.Failed, ask.By{Kind: ask.KindGateError}, "the review log cannot be written: disk full")},
		{"refused before it ran: a rule came", no(ask.By{Kind: ask.KindRelease}, "a rule came")},
		{"denied by a decider this permd does not know", no(ask.By{Kind: "oracle"}, "")},
		{"allowed by the user", allow(newAsk(t, false), user())},
		{"allowed by grant g1", allow(newAsk(t, false), ask.By{Kind: ask.KindGrant, Grant: "g1"})},
		{"allowed by default", allow(newAsk(t, false), ask.By{Kind: ask.KindDefault})},
	} {
		if got := Sentence(c.d); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

// TestSentenceBlamesNobodyWrongly: "the user" and "the human" stand only in
// the sentence of a person's decision, and a word of consent only in that of
// an allow.
func TestSentenceBlamesNobodyWrongly(t *testing.T) {
	kinds := []ask.Kind{ask.KindRule, ask.KindDefault, ask.KindBaseline, ask.KindProtection, ask.KindGrant, ask.KindUser,
		ask.KindDevice, ask.KindClientDialog, ask.KindLink, ask.KindMode, ask.KindRepeat, ask.KindTimeout,
		ask.KindUnavailable, ask.KindWithdrawn, ask.KindGateError, ask.KindRelease, "", "new kind"}
	outcomes := []ask.Outcome{ask.Answered, ask.Declined, ask.Dismissed, ask.Stopped, ask.TimedOut, ask.Withdrawn,
		ask.Unavailable, ask.Failed, ""}
	for _, k := range kinds {
		for _, o := range outcomes {
			for _, v := range []ask.Verdict{ask.Deny, ask.Prompt, ask.Allow} {
				for _, hops := range []int{0, 1, 3} {
					by := ask.By{Kind: k, Session: "s"}
					for range hops {
						by = ask.Forwarded("s", by)
					}
					d := ask.Decision{Verdict: v, Outcome: o, By: by}
					s := Sentence(d)
					if person := strings.Contains(s, "the user") || strings.Contains(s, "the human"); person != d.By.Person() {
						t.Errorf("%s, %s, %d hops: %q", k, o, hops, s)
					}
					if strings.Contains(s, "allowed") && !strings.Contains(s, "not allowed") && (v != ask.Allow || o != ask.Answered) {
						t.Errorf("%s, %s, %s: %q", k, o, v, s)
					}
				}
			}
		}
	}
}

// TestSentenceIsOneVisibleLine: a reason from elsewhere cannot draw.
func TestSentenceIsOneVisibleLine(t *testing.T) {
	d := ask.Decision{Outcome: ask.Answered, By: user(), Reason: "a\nb\x1b[2J\u202ec" + strings.Repeat("x", 5000)}
	if s := Sentence(d); strings.ContainsAny(s, "\n\x1b\u202e") || len(s) > 600 {
		t.Errorf("%d bytes: %.80q", len(s), s)
	}
}
