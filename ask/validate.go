package ask

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Errors of [Ask.Validate] that a caller tells apart. Every other one wraps
// [ErrInvalid].
var (
	ErrWrongAsk    = errors.New("the answer is for another ask")
	ErrWrongDigest = errors.New("the answer is for another text than this ask's")
)

// Check refuses an answer that is wrong for any ask.
func (n *Answer) Check() error {
	if !ValidID(n.Ask) {
		return invalid("ask id %s", Quote(n.Ask))
	}
	switch n.Outcome {
	case Answered, Declined, Dismissed, Stopped:
	default:
		return invalid("outcome %s; a surface answers, declines, dismisses or stops", Quote(string(n.Outcome)))
	}
	if n.Outcome != Answered && (len(n.Items) > 0 || n.Offer != "" || n.Reply != "" || n.Edited != nil) {
		return invalid("an ask that was %s has no items, grant, reply or edit", n.Outcome)
	}
	if len(n.Items) > MaxItems {
		return invalid("%d items, at most %d are allowed", len(n.Items), MaxItems)
	}
	if n.Offer != "" && (!ValidID(n.Offer) || n.OfferDigest == nil) {
		return invalid("offer %s without the digest of the offers as shown", Quote(n.Offer))
	}
	if n.Grant != nil {
		if n.Offer == "" {
			return invalid("a grant is edited, yet none is taken")
		}
		if err := n.Grant.Check(); err != nil {
			return err
		}
	}
	if len(n.Reply) > MaxText || len(n.Reason) > MaxText {
		return fmt.Errorf("reply or reason: %w (limit %d bytes)", ErrTooLarge, MaxText)
	}
	if n.Edited != nil {
		if err := checkRaw(n.Edited); err != nil {
			return fmt.Errorf("edited input: %w", err)
		}
	}
	return nil
}

// Validate reports why ans must not settle a, nil when it may. Offers are the
// deciding node's, as shown. It checks, in this order: the ask, the digest,
// the outcome against the ask's verbs, every item, and the grant taken. How
// wide a grant the answerer may give is the broker's to check.
//
// The reason of an answer is always welcome, whether or not the client can
// hand it on: a deny is never refused for its words.
func (a *Ask) Validate(ans *Answer, offers []Offer) error {
	if ans == nil {
		return invalid("no answer")
	}
	if ans.Ask != a.Body.ID {
		return fmt.Errorf("%w: %s, not %s", ErrWrongAsk, Quote(ans.Ask), a.Body.ID)
	}
	if ans.Digest != a.Digest {
		return ErrWrongDigest
	}
	if err := ans.Check(); err != nil {
		return err
	}
	v := a.Body.Verbs
	for _, verb := range []struct {
		used, legal bool
		name        string
	}{
		{ans.Outcome == Declined, v.Decline, "declined"},
		{ans.Outcome == Dismissed, v.Dismiss, "dismissed"},
		{ans.Outcome == Stopped, v.Stop, "stopped"},
		{ans.Reply != "", v.Reply, "replied to"},
		{ans.Edited != nil, v.Edit, "edited"},
	} {
		if verb.used && !verb.legal {
			return invalid("this ask cannot be %s", verb.name)
		}
	}
	if ans.Outcome != Answered {
		return nil
	}
	if err := a.validateItems(ans); err != nil {
		return err
	}
	return a.validateGrant(ans, offers)
}

// validateItems wants one entry an item. Only a reply to the whole ask may
// leave items out, and never the one that allows or denies.
func (a *Ask) validateItems(ans *Answer) error {
	given := map[string]*ItemAnswer{}
	for i := range ans.Items {
		n := &ans.Items[i]
		if given[n.Item] != nil {
			return invalid("item %s is answered twice", Quote(n.Item))
		}
		given[n.Item] = n
	}
	for i := range a.Body.Items {
		it := &a.Body.Items[i]
		n := given[it.ID]
		delete(given, it.ID)
		if n == nil {
			if ans.Reply != "" && !it.permission() {
				continue
			}
			return invalid("item %s is not answered", Quote(it.ID))
		}
		if err := it.validate(n, a.Body.Verbs); err != nil {
			return fmt.Errorf("item %s: %w", Quote(it.ID), err)
		}
	}
	for id := range given {
		return invalid("item %s was not asked", Quote(id))
	}
	return nil
}

func (a *Ask) validateGrant(ans *Answer, offers []Offer) error {
	allow, ok := a.Permission(ans)
	if ans.Edited != nil && !(ok && allow) {
		return invalid("an edited input goes with an allow only")
	}
	if ans.Offer == "" {
		return nil
	}
	if !ok || !allow {
		return invalid("a grant goes with an allow only")
	}
	d, err := OffersDigest(offers)
	if err != nil {
		return err
	}
	if *ans.OfferDigest != d {
		return invalid("the offers are no longer the ones that were shown")
	}
	if ans.Edited != nil {
		return invalid("a grant is for the action as asked, not as edited")
	}
	if !slices.ContainsFunc(offers, func(o Offer) bool { return o.ID == ans.Offer }) {
		return invalid("grant %s was not offered", Quote(ans.Offer))
	}
	return nil
}

// Permission says whether ans allows. It is ok only for an answer that picks
// exactly one known option of a's one permission item; every other answer,
// and nil, is neither a yes nor a no.
func (a *Ask) Permission(ans *Answer) (allow, ok bool) {
	it := a.Body.Permission()
	if it == nil || ans == nil || ans.Outcome != Answered {
		return false, false
	}
	var pick string
	found := 0
	for i := range ans.Items {
		if n := &ans.Items[i]; n.Item == it.ID {
			found++
			if n.State != ItemAnswered || len(n.Picks) != 1 {
				return false, false
			}
			pick = n.Picks[0]
		}
	}
	if found != 1 {
		return false, false
	}
	for i := range it.Options {
		if o := &it.Options[i]; o.ID == pick {
			return o.Effect == EffectAllow, o.Effect == EffectAllow || o.Effect == EffectDeny
		}
	}
	return false, false
}

func (it *Item) validate(n *ItemAnswer, v Verbs) error {
	empty := len(n.Picks) == 0 && n.Text == "" && n.Note == "" && n.Number == "" && n.Bool == nil
	switch n.State {
	case ItemAnswered:
	case ItemSkipped, ItemYouDecide:
		legal := v.Skip && !it.Required
		if n.State == ItemYouDecide {
			legal = v.YouDecide
		}
		if !legal || it.permission() {
			return invalid("it cannot be left as %s", n.State)
		}
		if !empty {
			return invalid("left as %s, yet with an answer", n.State)
		}
		return nil
	default:
		return invalid("item state %s", Quote(string(n.State)))
	}
	if len(n.Text) > MaxText || len(n.Note) > MaxText {
		return fmt.Errorf("text: %w (limit %d bytes)", ErrTooLarge, MaxText)
	}
	if n.Note != "" && !it.Free.note() {
		return invalid("it takes no note")
	}
	if it.Type != ItemChoice && len(n.Picks) > 0 || it.Type != ItemBool && n.Bool != nil ||
		it.Type != ItemNumber && it.Type != ItemInt && n.Number != "" ||
		it.Type != ItemText && n.Text != "" && !it.Free.own() {
		return invalid("it takes another kind of answer, a %s", it.Type)
	}
	switch it.Type {
	case ItemChoice:
		return it.validatePicks(n)
	case ItemText:
		if n.Text == "" && !it.Required && (it.Free == nil || it.Free.MinLen == 0) {
			return nil
		}
		return it.Free.validate(n.Text)
	case ItemBool:
		if n.Bool == nil {
			return invalid("want a yes or a no")
		}
		return nil
	case ItemNumber, ItemInt:
		return it.validateNumber(n.Number)
	}
	return invalid("item type %s", Quote(string(it.Type)))
}

func (it *Item) validatePicks(n *ItemAnswer) error {
	last := -1
	for _, p := range n.Picks {
		i := slices.IndexFunc(it.Options, func(o Option) bool { return o.ID == p })
		if i < 0 {
			return invalid("option %s was not asked", Quote(p))
		}
		if i <= last {
			return invalid("option %s stands twice or out of order", Quote(p))
		}
		last = i
	}
	count := len(n.Picks)
	if n.Text != "" {
		count++
		if err := it.Free.validate(n.Text); err != nil {
			return err
		}
	}
	least := it.MinPicks
	if it.Required {
		least = max(least, 1)
	}
	if count < least || count > it.maxPicks() {
		return invalid("%d picks, want %d to %d", count, least, it.maxPicks())
	}
	return nil
}

func (it *Item) validateNumber(s string) error {
	x, err := parseNumber(s, it.Type == ItemInt)
	if err != nil {
		return err
	}
	if it.Min != "" {
		if lo, err := parseNumber(it.Min, false); err != nil || x.Cmp(lo) < 0 {
			return invalid("%s is less than %s", s, it.Min)
		}
	}
	if it.Max != "" {
		if hi, err := parseNumber(it.Max, false); err != nil || x.Cmp(hi) > 0 {
			return invalid("%s is more than %s", s, it.Max)
		}
	}
	return nil
}

// validate checks own text against the limits. Lengths count characters. A
// pattern is the client's and may be in a dialect that Go does not read; then
// it is left to the client.
func (f *Free) validate(s string) error {
	if strings.TrimSpace(s) == "" {
		return invalid("the text is empty")
	}
	if f == nil {
		return nil
	}
	if n := utf8.RuneCountInString(s); n < f.MinLen || f.MaxLen > 0 && n > f.MaxLen {
		return invalid("%d characters, want %d to %d", n, f.MinLen, f.MaxLen)
	}
	if !f.Multiline && strings.ContainsAny(s, "\n\r") {
		return invalid("the text must stay on one line")
	}
	if f.Pattern != "" {
		if re, err := regexp.Compile(f.Pattern); err == nil && !re.MatchString(s) {
			return invalid("the text does not match %s", Quote(f.Pattern))
		}
	}
	bad := false
	switch f.Format {
	case FormatEmail:
		at := strings.LastIndexByte(s, '@')
		bad = at < 1 || at == len(s)-1 || strings.ContainsAny(s, " \t<>")
	case FormatURI:
		u, err := url.Parse(s)
		bad = err != nil || u.Scheme == ""
	case FormatDate:
		_, err := time.Parse(time.DateOnly, s)
		bad = err != nil
	case FormatDateTime:
		_, err := time.Parse(time.RFC3339, s)
		bad = err != nil
	}
	if bad {
		return invalid("the text is no %s", f.Format)
	}
	return nil
}
