package policy

import (
	"strings"

	"permd/ask"
)

// cover says what made a command certain as a whole, with all that it starts.
type cover uint8

const (
	notCovered cover = iota
	byRule           // a rule for exactly this command
	byGrant          // a grant for exactly this command
)

// unitState is what is known of one command while it is judged.
type unitState struct {
	argv    []string
	starts  int   // the first unit that it starts, 0 for none
	cover   cover // what covers it as a whole
	classed bool  // allowed as one that only reads
	named   bool  // a rule that names the program allows it
	lifted  bool  // a grant for it with any further words lifts an ask about it
}

// found is what the rules say of one subject.
type found struct {
	deny, ask bool
	managed   bool // an administrator's rule asks: each time
	exact     bool // an allow rule for exactly this
	free      bool // any other allow rule for it
	named     bool // an allow rule that names the program
	class     bool // an allow rule for the class that only reads
}

func (f *found) add(j *judge, r *rule, s *subject) {
	switch r.Action {
	case ask.Deny:
		f.deny = true
	case ask.Prompt:
		f.ask = true
		f.managed = f.managed || r.layer == LayerManaged
	case ask.Allow:
		if j.in.Node == Claimed {
			return // a claim is not authority
		}
		switch {
		case r.exactCommand() || r.exactPath():
			f.exact = true
		case r.Class != "" && !r.has("path"):
			f.class = true
		default:
			f.free = true
		}
		f.named = f.named || r.argv != nil && !r.argv.any
	}
	j.reason(j.ruleReason(r, s))
}

// fail is add for an allow rule that could not be judged: what it is about is
// not known, so a person is asked, each time.
func (f *found) fail(j *judge, r *rule, s *subject) {
	f.ask, f.managed = true, true
	x := j.ruleReason(r, s)
	x.Verdict, x.Text = ask.Prompt, "the rule could not be judged, which is a fault of permd; report it"
	j.reason(x)
}

// verdict is what all rules and grants say of one subject.
func (j *judge) verdict(s *subject) ask.Verdict {
	var f found
	j.rulesFor(s, func(r *rule) {
		if !j.ofThisProject(r) {
			return
		}
		switch hit, failed := j.speaks(r, s); {
		case failed && r.Action == ask.Allow:
			f.fail(j, r, s)
		case hit:
			f.add(j, r, s)
		}
	})
	if s.kind == kindCommand {
		if mayStart(j.unit(s)) {
			j.suspectStarted(s, &f)
		}
		j.units[s.unit].named = f.named
		// Where a rule asks about the command, a person decides about its
		// files too.
		j.units[s.unit].classed = !f.ask && !f.free && !f.exact && (f.class || j.builtInReader(s))
		if !f.deny {
			j.granted(s, f.ask || f.exact || f.free || f.class) // a grant for the command covers its files too
		}
	}
	covered := j.coverOf(s.unit)
	switch {
	case f.deny:
		return ask.Deny
	case f.ask && f.managed:
		j.holds, j.firm = true, true
		return ask.Prompt
	}
	if covered == notCovered {
		switch {
		case s.why != "":
			return j.unsure(s, &f, notUnderstood+s.why)
		case s.blur:
			return j.unsure(s, &f, "which file it is, is not known")
		}
	}
	if why := j.later(s); why != "" && !f.exact && covered != byRule {
		j.firm = true
		return j.ask(Reason{Kind: ask.KindBaseline, Unit: j.unitText(s), Path: s.place.Given, Text: why}, true)
	}
	if why := j.deepRuled(s); why != "" && covered == notCovered {
		return j.ask(Reason{Kind: ask.KindBaseline, Unit: j.unitText(s), Path: s.place.Given, Text: why}, false)
	}
	switch {
	case f.ask && (covered == byGrant || j.lifted(s) || s.kind != kindCommand && j.granted(s, true)):
		return ask.Allow
	case f.ask:
		return ask.Prompt
	case f.exact:
		j.cover(s, byRule)
		return ask.Allow
	case covered != notCovered:
		return ask.Allow
	case f.free || f.class:
		return j.allowed(s, &f)
	case j.lifted(s):
		return ask.Allow
	case s.kind == kindPath && !j.needed(s), s.kind == kindWeb && s.unit >= 0:
		return ask.Allow // the command is judged
	case s.kind == kindCommand && s.argv != nil && (j.unit(s).Passes || j.unit(s).Free):
		if j.in.Policy.baseline && j.in.Node == Origin {
			j.speak(s, ask.Allow, ask.KindBaseline, "it only steers the shell")
		}
		return ask.Allow // what it starts is judged
	case s.kind == kindCommand && (j.unit(s).Remote || j.agentByName(s)):
		return ask.Allow // what starts it is judged, or the agent as a task
	case s.kind == kindTask && s.unit >= 0 && j.units[s.unit].named && j.in.Node != Claimed:
		return ask.Allow
	case s.kind != kindCommand && j.granted(s, false):
		return ask.Allow
	}
	return j.unruled(s)
}

// lifted reports whether a grant with a pattern covers the command. It covers
// the command alone: its files are judged.
func (j *judge) lifted(s *subject) bool { return s.kind == kindCommand && j.units[s.unit].lifted }

// lightly is what rules forbid of one of very many subjects; the action asks
// in any case.
func (j *judge) lightly(s *subject) ask.Verdict {
	v := ask.Allow
	j.rulesFor(s, func(r *rule) {
		if r.Action == ask.Allow || !j.ofThisProject(r) {
			return
		}
		if hit, _ := j.speaks(r, s); hit {
			v = v.Stricter(r.Action)
			j.reason(j.ruleReason(r, s))
		}
	})
	return v
}

// unsure is the verdict on what is not certain: it asks, and where nothing is
// allowed that no rule allows, it is not.
func (j *judge) unsure(s *subject, f *found, text string) ask.Verdict {
	if d := j.in.Policy.def; d != nil && *d == ask.Deny && !f.ask && !f.free && !f.exact && !f.class && !(s.kind == kindPath && !j.needed(s)) {
		return j.speak(s, ask.Deny, ask.KindDefault, text)
	}
	return j.ask(Reason{Kind: ask.KindDefault, Unit: j.unitText(s), Path: s.place.Given, Text: text}, true)
}

// ofThisProject reports whether r is no rule of another project than the one
// that the action is from: who serves has rules of its own project too.
func (j *judge) ofThisProject(r *rule) bool {
	return r.layer != LayerProject || j.in.Node == Origin || j.in.Policy.project == "" || j.in.Policy.project == j.in.Action.Project
}

// allowed is the verdict on what rules with a pattern allow. Such a rule
// covers the command, not what the command is told to run.
func (j *judge) allowed(s *subject, f *found) ask.Verdict {
	if s.kind != kindCommand {
		return ask.Allow
	}
	u := j.unit(s)
	if !f.free {
		return ask.Allow
	}
	why, hold := escapes(u), false
	if why == "" && u.Inner != "" {
		why, hold = "what it hands to a shell is not understood: "+u.Inner, true
	}
	if why == "" {
		return ask.Allow
	}
	return j.ask(Reason{Kind: ask.KindBaseline, Unit: u.Text, Text: why}, hold)
}

// agentByName reports whether the command is an agent's client found by its
// name: under a path it could be any program.
func (j *judge) agentByName(s *subject) bool {
	u := j.unit(s)
	return startsAgent(u) != "" && !strings.Contains(u.Words[0].Text, "/") && s.argv != nil
}

// needed reports whether a path must be allowed for itself.
func (j *judge) needed(s *subject) bool {
	return s.needed || s.unit >= 0 && j.units[s.unit].classed
}

func (j *judge) cover(s *subject, c cover) {
	if s.kind == kindCommand {
		j.units[s.unit].cover = c
	}
}

// coverOf is the cover of a unit or of one that starts it.
func (j *judge) coverOf(unit int) cover {
	for n := 0; unit >= 0 && n <= maxCertain; unit, n = j.script.Units[unit].Outer, n+1 {
		if c := j.units[unit].cover; c != notCovered {
			return c
		}
	}
	return notCovered
}
