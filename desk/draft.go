package desk

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"permd/api"
	"permd/ask"
)

// ErrNothingAnswered is the error of [Draft.Answer] when every question was
// left open. Sending that is a choice of its own: see [Draft.AnswerEmpty].
var ErrNothingAnswered = errors.New("nothing is answered yet; answer a question, or say that none shall be answered")

// ErrTextStays is wrapped by the problem of a question whose own text cannot
// go with what was chosen: neither may be dropped, so the person says which.
var ErrTextStays = errors.New("your own text cannot go with an option here; take back the one or the other")

// Draft is the answer to an ask while a person fills it in. Every face builds
// its answers with it, so that the same acts mean the same answer everywhere.
//
// It promises: nothing is chosen until somebody chooses it, defaults and
// prefill included; picks are in the question's order; what was typed stays
// until it is taken back, whatever is picked beside it; a question that is
// left open is never an answer; and what it builds passes [ask.Ask.Validate].
// It knows no keys, no pages and no time, and sends nothing. It is not safe
// for several goroutines.
type Draft struct {
	shown api.Shown
	items []ask.ItemAnswer // one an item, in its order
	reply string
}

// NewDraft begins the answer to s, of which nothing is said yet.
func NewDraft(s api.Shown) *Draft {
	d := &Draft{shown: s}
	for i := range s.Ask.Body.Items {
		d.items = append(d.items, ask.ItemAnswer{Item: s.Ask.Body.Items[i].ID})
	}
	return d
}

// Shown is the ask that is being answered.
func (d *Draft) Shown() api.Shown { return d.shown }

// Item returns what was said of an item so far, the zero value for one that
// does not exist.
func (d *Draft) Item(id string) ask.ItemAnswer {
	if i, _ := d.find(id); i >= 0 {
		n := d.items[i]
		n.Picks = slices.Clone(n.Picks)
		return n
	}
	return ask.ItemAnswer{}
}

// Picked reports whether an option is picked.
func (d *Draft) Picked(item, option string) bool {
	i, _ := d.find(item)
	return i >= 0 && slices.Contains(d.items[i].Picks, option)
}

// Pick picks an option. In a single choice it takes the place of the one that
// was picked; text stays where it is.
func (d *Draft) Pick(item, option string) error { return d.pick(item, option, true) }

// Unpick takes a pick back.
func (d *Draft) Unpick(item, option string) error { return d.pick(item, option, false) }

// Toggle picks an option, or takes the pick back.
func (d *Draft) Toggle(item, option string) error {
	return d.pick(item, option, !d.Picked(item, option))
}

func (d *Draft) pick(item, option string, on bool) error {
	i, it := d.find(item)
	if i < 0 || it.Type != ask.ItemChoice {
		return fmt.Errorf("there is nothing to pick at %s", ask.Quote(item))
	}
	if !slices.ContainsFunc(it.Options, func(o ask.Option) bool { return o.ID == option }) {
		return fmt.Errorf("option %s was not asked", ask.Quote(option))
	}
	n := &d.items[i]
	var picks []string
	for j := range it.Options {
		id := it.Options[j].ID
		was := slices.Contains(n.Picks, id)
		switch {
		case id == option && on, id != option && was && !(on && it.MaxPicks == 1):
			picks = append(picks, id)
		}
	}
	n.Picks = picks
	d.said(i)
	return nil
}

// Text sets the person's own text of an item; "" takes it back. Text is kept
// as it is typed: what is wrong with it is said by [Draft.Problem].
func (d *Draft) Text(item, text string) error {
	i, it := d.find(item)
	if i < 0 || !OwnText(it) {
		return fmt.Errorf("no text is asked for at %s", ask.Quote(item))
	}
	return d.write(i, &d.items[i].Text, text)
}

// Note sets a remark beside the picks of an item; "" takes it back.
func (d *Draft) Note(item, text string) error {
	i, it := d.find(item)
	if i < 0 || !Remark(it) {
		return fmt.Errorf("no note can be given at %s", ask.Quote(item))
	}
	return d.write(i, &d.items[i].Note, text)
}

// Number sets the number of an item, as a decimal string; "" takes it back.
func (d *Draft) Number(item, text string) error {
	i, it := d.find(item)
	if i < 0 || it.Type != ask.ItemNumber && it.Type != ask.ItemInt {
		return fmt.Errorf("no number is asked for at %s", ask.Quote(item))
	}
	return d.write(i, &d.items[i].Number, strings.TrimSpace(text))
}

// Bool answers a yes or no.
func (d *Draft) Bool(item string, yes bool) error {
	i, it := d.find(item)
	if i < 0 || it.Type != ask.ItemBool {
		return fmt.Errorf("no yes or no is asked for at %s", ask.Quote(item))
	}
	d.items[i].Bool = &yes
	d.said(i)
	return nil
}

// Skip leaves an item without an answer, YouDecide leaves it to the agent; the
// two are never taken for each other. What was filled in before comes back with
// [Draft.Resume].
func (d *Draft) Skip(item string) error { return d.leave(item, ask.ItemSkipped) }

// YouDecide leaves an item to the agent.
func (d *Draft) YouDecide(item string) error { return d.leave(item, ask.ItemYouDecide) }

func (d *Draft) leave(item string, state ask.ItemState) error {
	i, it := d.find(item)
	if i < 0 {
		return fmt.Errorf("item %s was not asked", ask.Quote(item))
	}
	if !d.may(it, state) {
		return fmt.Errorf("this question cannot be left as %s", word(state))
	}
	d.items[i].State = state
	return nil
}

// MaySkip and MayLeave report whether an item can be left without an answer,
// or to the agent.
func (d *Draft) MaySkip(item string) bool {
	i, it := d.find(item)
	return i >= 0 && d.may(it, ask.ItemSkipped)
}

// MayLeave reports whether an item can be left to the agent.
func (d *Draft) MayLeave(item string) bool {
	i, it := d.find(item)
	return i >= 0 && d.may(it, ask.ItemYouDecide)
}

func (d *Draft) may(it *ask.Item, state ask.ItemState) bool {
	if it == d.permission() {
		return false
	}
	v := d.shown.Ask.Body.Verbs
	if state == ask.ItemYouDecide {
		return v.YouDecide
	}
	return v.Skip && !it.Required
}

// Resume takes back that an item was skipped or left to the agent.
func (d *Draft) Resume(item string) {
	if i, _ := d.find(item); i >= 0 {
		d.said(i)
	}
}

// Reply answers the whole ask in the person's own words; "" takes it back.
func (d *Draft) Reply(text string) error {
	if text != "" && !d.shown.Ask.Body.Verbs.Reply {
		return errors.New("this ask takes no reply of its own")
	}
	if len(text) > ask.MaxText {
		return tooLong(text)
	}
	d.reply = text
	return nil
}

// Replied is the reply so far.
func (d *Draft) Replied() string { return d.reply }

// Typed is everything that was typed, for a face that must not lose it.
func (d *Draft) Typed() []string {
	var out []string
	for i := range d.items {
		for _, s := range []string{d.items[i].Text, d.items[i].Note, d.items[i].Number} {
			if s != "" {
				out = append(out, s)
			}
		}
	}
	if d.reply != "" {
		out = append(out, d.reply)
	}
	return out
}

// Problem is why an item cannot be sent as it is, nil when it can.
func (d *Draft) Problem(item string) error {
	i, _ := d.find(item)
	if i < 0 {
		return fmt.Errorf("item %s was not asked", ask.Quote(item))
	}
	n, err := d.built(i)
	if err != nil || n == nil {
		return err
	}
	return d.shown.Ask.CheckItem(n)
}

// Answered counts the items that have an answer, and all there are.
func (d *Draft) Answered() (answered, all int) {
	for i := range d.items {
		if n := &d.items[i]; n.State == ask.ItemAnswered && !d.blank(i) {
			answered++
		}
	}
	return answered, len(d.items)
}

// Answer is what the draft says, checked. An item of which nothing was said is
// skipped where that is legal, else it is an error. [ErrNothingAnswered] when
// no item is answered and there is no reply.
func (d *Draft) Answer() (ask.Answer, error) {
	if n, _ := d.Answered(); n == 0 && strings.TrimSpace(d.reply) == "" {
		return ask.Answer{}, ErrNothingAnswered
	}
	return d.AnswerEmpty()
}

// AnswerEmpty is [Draft.Answer] for a person who has said that nothing shall
// be answered.
func (d *Draft) AnswerEmpty() (ask.Answer, error) {
	a := d.end(ask.Answered)
	a.Reply = d.reply
	for i := range d.items {
		n, err := d.built(i)
		if err != nil {
			return ask.Answer{}, d.about(i, err)
		}
		if n == nil {
			if d.reply != "" && &d.shown.Ask.Body.Items[i] != d.permission() {
				continue
			}
			return ask.Answer{}, d.about(i, errors.New("it is not answered"))
		}
		if err := d.shown.Ask.CheckItem(n); err != nil {
			return ask.Answer{}, d.about(i, err)
		}
		a.Items = append(a.Items, *n)
	}
	return a, d.shown.Ask.Validate(&a, d.shown.Offers)
}

// about names the item of an error where there are several.
func (d *Draft) about(i int, err error) error {
	if len(d.items) == 1 {
		return err
	}
	return fmt.Errorf("question %d: %w", i+1, err)
}

// Decline refuses the whole ask; the agent goes on. Reason may be "".
func (d *Draft) Decline(reason string) (ask.Answer, error) { return d.ended(ask.Declined, reason) }

// Dismiss puts the ask away without a choice, of which the agent is told.
func (d *Draft) Dismiss() (ask.Answer, error) { return d.ended(ask.Dismissed, "") }

// Stop ends the agent's turn.
func (d *Draft) Stop(reason string) (ask.Answer, error) { return d.ended(ask.Stopped, reason) }

func (d *Draft) ended(o ask.Outcome, reason string) (ask.Answer, error) {
	a := d.end(o)
	a.Reason = reason
	return a, d.shown.Ask.Validate(&a, nil)
}

func (d *Draft) end(o ask.Outcome) ask.Answer {
	return ask.Answer{Ask: d.shown.Ask.Body.ID, Digest: d.shown.Ask.Digest, Outcome: o}
}

// built is the answer to item i, nil when nothing was said of it and it may
// not be skipped. Own text that stands beside a pick for which there is no
// room becomes the note.
func (d *Draft) built(i int) (*ask.ItemAnswer, error) {
	it := &d.shown.Ask.Body.Items[i]
	n := d.items[i]
	if n.State != ask.ItemAnswered {
		return &ask.ItemAnswer{Item: it.ID, State: n.State}, nil
	}
	if d.blank(i) {
		if d.may(it, ask.ItemSkipped) {
			return &ask.ItemAnswer{Item: it.ID, State: ask.ItemSkipped}, nil
		}
		return nil, nil
	}
	n.Picks = slices.Clone(n.Picks)
	if it.Type == ask.ItemChoice && it.MaxPicks > 0 && n.Text != "" && len(n.Picks) >= it.MaxPicks {
		if !Remark(it) || n.Note != "" {
			return nil, ErrTextStays
		}
		n.Text, n.Note = "", n.Text
	}
	return &n, nil
}

// blank reports that nothing was filled in at item i.
func (d *Draft) blank(i int) bool {
	n := &d.items[i]
	return len(n.Picks) == 0 && n.Text == "" && n.Note == "" && n.Number == "" && n.Bool == nil
}

func (d *Draft) write(i int, to *string, text string) error {
	if len(text) > ask.MaxText {
		return tooLong(text)
	}
	*to = text
	d.said(i)
	return nil
}

func tooLong(text string) error {
	return fmt.Errorf("the text has %d bytes, at most %d are allowed", len(text), ask.MaxText)
}

// said notes that something was said of item i: it is no longer left open.
func (d *Draft) said(i int) { d.items[i].State = ask.ItemAnswered }

func (d *Draft) find(id string) (int, *ask.Item) {
	items := d.shown.Ask.Body.Items
	for i := range items {
		if items[i].ID == id {
			return i, &items[i]
		}
	}
	return -1, nil
}

func (d *Draft) permission() *ask.Item { return d.shown.Ask.Body.Permission() }

func word(s ask.ItemState) string {
	if s == ask.ItemYouDecide {
		return "the agent's to decide"
	}
	return "skipped"
}

// OwnText reports whether an item takes text of the person's own.
func OwnText(it *ask.Item) bool {
	return it.Type == ask.ItemText ||
		it.Type == ask.ItemChoice && it.Free != nil && (it.Free.Mode == ask.FreeInstead || it.Free.Mode == ask.FreeBoth)
}

// Remark reports whether an item takes a note beside a pick.
func Remark(it *ask.Item) bool {
	return it.Type == ask.ItemChoice && it.Free != nil && (it.Free.Mode == ask.FreeBeside || it.Free.Mode == ask.FreeBoth)
}
