package authority

import (
	"fmt"
	"strings"

	"permd/ask"
)

// Sentence says in words, for the agent and for people, how an ask ended. It
// is chosen by who really decided, over any number of hops; "the user" stands
// in it only when a person decided. It carries the decision's reason, made
// visible and cut, and never the action.
func Sentence(d ask.Decision) string {
	if d.By.Kind == "" {
		return "denied: permd gave no decision"
	}
	by := d.By.Decider()
	reason := strings.TrimSuffix(line(d.Reason), ".")
	if reason == "" {
		reason = silence[by.Kind]
	}
	s := who(&d, by) + at(&d, by)
	if reason != "" {
		s += ": " + reason
	}
	return s
}

// silence is the reason of those who gave none because nobody was there.
var silence = map[ask.Kind]string{
	ask.KindTimeout:     "nobody answered in time",
	ask.KindUnavailable: "nobody can answer",
	ask.KindWithdrawn:   "the ask was taken back",
}

// who is the sentence without place and reason.
func who(d *ask.Decision, by *ask.By) string {
	word := "denied"
	if d.Verdict == ask.Allow && d.Outcome == ask.Answered {
		word = "allowed"
	}
	switch d.Outcome {
	case ask.Declined:
		word = "declined"
	case ask.Dismissed:
		word = "closed without an answer"
	case ask.Stopped:
		word = "stopped"
	}
	switch by.Kind {
	case ask.KindUser:
		return word + " by the user"
	case ask.KindDevice:
		return word + " by the human on the paired device"
	case ask.KindClientDialog:
		s := word + " in the client's own dialog"
		if by.Inferred {
			s += " (concluded from what happened next)"
		}
		return s
	case ask.KindRule:
		return word + " by " + place(by.Rule)
	case ask.KindDefault:
		if word == "denied" {
			return "denied, because no rule allows it"
		}
		return word + " by default"
	case ask.KindBaseline:
		return word + " by a built-in rule"
	case ask.KindProtection:
		return word + " to protect permd and the clients' settings"
	case ask.KindGrant:
		return word + " by grant " + by.Grant
	case ask.KindLink:
		return word + " by an authorizer of the chain"
	case ask.KindMode:
		return word + " by the session's mode"
	case ask.KindRepeat:
		return "denied again without a question, as it was denied before in this session"
	case ask.KindTimeout, ask.KindUnavailable, ask.KindWithdrawn:
		return "not allowed"
	case ask.KindGateError:
		return "denied, because permd could not decide"
	case ask.KindRelease:
		return "refused before it ran"
	}
	return "denied by a decider this permd does not know"
}

// place is where a rule stands.
func place(r *ask.RuleRef) string {
	switch {
	case r == nil:
		return "a rule"
	case r.File == "":
		return fmt.Sprintf("a rule of the %s layer", line(r.Layer))
	case r.Line == 0:
		return fmt.Sprintf("a rule in %s", line(r.File))
	}
	return fmt.Sprintf("the rule at %s line %d", line(r.File), r.Line)
}

// at names the session that decided, when it was another one.
func at(d *ask.Decision, by *ask.By) string {
	if d.By.Kind != ask.KindForwarded {
		return ""
	}
	s := by.Session
	for f := &d.By; s == "" && f != nil; f = f.Inner {
		if f.Inner == by {
			s = f.Session
		}
	}
	if s == "" {
		return ""
	}
	return " at session " + line(s)
}
