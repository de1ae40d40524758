package tui

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"permd/ask"
)

const plainHelp = `commands, with the number of an ask:
  1 allow                  let it run, this time
  1 allow session          and remember it for its session; the rule is shown, then: 1 confirm
  1 allow tree             and remember it for the whole tree of sessions
  1 allow project          and remember it for every session of the project
  1 allow user             and remember it for every session of yours
  1 rule WORDS             while a rule is shown: another command in it, no wider than it was
  1 next                   while a rule is shown: the next one that may be kept instead
  1 deny                   do not let it run
  1 deny because WORDS     and tell the agent why
  1 hide, 1 show           put it away unanswered; print it again
  list                     what waits
  quit                     detach this terminal; nothing is answered by that`

// command runs one line. It reports false to detach.
func (p *plain) command(l string) bool {
	l = strings.TrimSpace(l)
	word, rest, _ := strings.Cut(l, " ")
	switch word {
	case "":
		return true
	case "quit", "exit":
		p.say("detached; nothing was answered by that")
		return false
	case "help", "?":
		p.say("%s", plainHelp)
		return true
	case "list":
		p.index()
		return true
	}
	n, err := strconv.Atoi(word)
	if err != nil && word == "show" {
		n, err = strconv.Atoi(strings.TrimSpace(rest))
		rest = "show"
	}
	if err != nil {
		p.say("not understood, nothing was answered: %s (begin with the number of an ask; help shows the commands)", ask.Quote(l))
		return true
	}
	it := p.list.number(n)
	if it == nil {
		p.say("[%d] does not wait here; nothing was answered", n)
		return true
	}
	p.about(it, strings.TrimSpace(rest))
	return true
}

// index lists what waits, put away or not.
func (p *plain) index() {
	if len(p.list.items) == 0 {
		p.say("nothing waits")
	}
	for _, it := range p.list.items {
		away := ""
		if it.hidden {
			away = " (put away)"
		}
		p.say("[%d] %s: %s, for %s%s", it.num, line(it.shown.Ask.Body.From.Session), gist(it.shown, 100), ageText(time.Since(it.since)), away)
	}
}

// about runs a command on one ask.
func (p *plain) about(it *item, words string) {
	keep := p.keep
	p.keep = nil // only the very next command confirms
	verb, rest, _ := strings.Cut(words, " ")
	rest = strings.TrimSpace(rest)
	switch verb {
	case "show":
		it.hidden = false
		p.show(it)
		return
	case "hide":
		it.hidden = true
		p.say("[%d] put away, not answered; it still waits", it.num)
		return
	}
	if !it.sent.IsZero() && time.Since(it.sent) < verdictPatience {
		p.say("[%d] an answer is on its way", it.num)
		return
	}
	if it.onto.IsZero() || time.Since(it.onto) < p.arm {
		p.say("[%d] was not on the screen yet when this was typed; read it and type it again", it.num)
		return
	}
	switch {
	case verb == "allow" && rest == "":
		a, err := allow(it.shown, nil)
		p.give(it, "allow, once", a, err)
	case verb == "allow" && slices.Contains(scopes, ask.Scope(rest)):
		p.propose(it, ask.Scope(rest), 0)
	case verb == "next" && rest == "", verb == "rule" && rest != "":
		p.other(it, keep, verb, rest)
	case verb == "confirm" && rest == "":
		p.confirm(it, keep)
	case verb == "deny" && rest == "":
		a, err := deny(it.shown, "")
		p.give(it, "deny", a, err)
	case verb == "deny" && strings.HasPrefix(rest, "because "):
		a, err := deny(it.shown, strings.TrimSpace(strings.TrimPrefix(rest, "because ")))
		p.give(it, "deny, with a reason", a, err)
	default:
		p.say("not understood, nothing was answered: %s (help shows the commands)", ask.Quote(words))
	}
}

// scopes are the ones a grant may be kept for here.
var scopes = []ask.Scope{ask.ScopeSession, ask.ScopeTree, ask.ScopeProject, ask.ScopeUser}

// propose shows the exact rule that would be kept: of the offers of a scope,
// the one with this number.
func (p *plain) propose(it *item, scope ask.Scope, i int) {
	all := offers(it.shown, scope)
	if len(all) == 0 {
		p.say("[%d] cannot be remembered for the %s; nothing was answered", it.num, scope)
		return
	}
	p.offer(it, &pendingGrant{num: it.num, digest: it.shown.Ask.Digest, offer: all[i%len(all)].ID, at: i % len(all)}, all[i%len(all)])
}

// offer shows a rule and waits for the word that keeps it.
func (p *plain) offer(it *item, keep *pendingGrant, o *ask.Offer) {
	shown := *o
	if keep.edit != nil {
		shown.Rule = *keep.edit.Rule
		shown.Label = "what you wrote, if it is no wider than what was offered"
	}
	var b strings.Builder
	for _, x := range grantText(it.shown, &shown) {
		writePlain(&b, x)
	}
	p.say("[%d] %s    to allow this and keep the rule: %d confirm", it.num, b.String(), it.num)
	keep.shown = time.Now()
	p.keep = keep
}

// other shows another rule in the place of the one that waits to be confirmed:
// the next that was offered, or that one with another command.
func (p *plain) other(it *item, keep *pendingGrant, verb, words string) {
	o := it.kept(keep)
	switch {
	case o == nil:
		p.say("[%d] shows no rule; begin with: %d allow session", it.num, it.num)
	case verb == "next":
		p.propose(it, o.Scope, keep.at+1)
	case o.Rule.Command == "":
		p.say("[%d] is for exactly what it says; there is no command in this rule", it.num)
	default:
		rule := o.Rule
		rule.Command = words
		again := *keep
		again.edit = &ask.GrantEdit{Rule: &rule}
		p.offer(it, &again, o)
	}
}

// kept is the offer that keep is about, nil when that is not this ask's.
func (it *item) kept(keep *pendingGrant) *ask.Offer {
	if keep == nil || keep.num != it.num || keep.digest != it.shown.Ask.Digest {
		return nil
	}
	for i := range it.shown.Offers {
		if o := &it.shown.Offers[i]; o.ID == keep.offer {
			return o
		}
	}
	return nil
}

func (p *plain) confirm(it *item, keep *pendingGrant) {
	if keep == nil || keep.num != it.num || keep.digest != it.shown.Ask.Digest {
		p.say("[%d] has nothing to confirm; nothing was answered", it.num)
		return
	}
	if time.Since(keep.shown) < p.arm {
		p.say("[%d] the rule was not on the screen yet when this was typed; begin again with: %d allow session, or tree", it.num, it.num)
		return
	}
	for i := range it.shown.Offers {
		if o := &it.shown.Offers[i]; o.ID == keep.offer {
			a, err := allow(it.shown, o)
			if err == nil && keep.edit != nil {
				a.Grant = keep.edit
				err = a.Check()
			}
			p.give(it, "allow, "+string(o.Scope), a, err)
			return
		}
	}
	p.say("[%d] that grant is no longer offered; nothing was answered", it.num)
}
