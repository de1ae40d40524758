package ask

import (
	"encoding/json"
	"strings"
)

// Answer is what a surface gives back for one ask.
type Answer struct {
	Ask     string  `json:"ask"`
	Digest  Digest  `json:"digest"`
	Outcome Outcome `json:"outcome"`
	// Items holds one entry an item when the outcome is answered.
	Items []ItemAnswer `json:"items,omitempty"`
	// Offer is the id of the grant offer taken with an allow, "" for once;
	// OfferDigest repeats the digest of the offers as shown.
	Offer       string  `json:"offer,omitempty"`
	OfferDigest *Digest `json:"offer_digest,omitempty"`
	// Grant narrows the offer taken, nil to take it as it was offered.
	Grant *GrantEdit `json:"grant,omitempty"`
	// Reply answers the whole ask in the person's own words.
	Reply string `json:"reply,omitempty"`
	// Reason goes back to the agent with a deny.
	Reason string `json:"reason,omitempty"`
	// Edited replaces the tool input of an allow; it is judged again.
	Edited json.RawMessage `json:"edited,omitempty"`
}

// ItemState says how an item was left.
type ItemState string

// The item states. The empty state is answered.
const (
	ItemAnswered  ItemState = ""
	ItemSkipped   ItemState = "skipped"
	ItemYouDecide ItemState = "you_decide"
)

// ItemAnswer answers one item.
type ItemAnswer struct {
	Item  string    `json:"item"`
	State ItemState `json:"state,omitempty"`
	// Picks are option ids, in the item's order.
	Picks []string `json:"picks,omitempty"`
	// Text is the person's own answer, Note a remark beside a pick; the two
	// are never merged.
	Text string `json:"text,omitempty"`
	Note string `json:"note,omitempty"`
	// Number is a decimal string.
	Number string `json:"number,omitempty"`
	Bool   *bool  `json:"bool,omitempty"`
}

// Offer is a grant the deciding node is ready to keep when it is chosen with
// an allow. The exact rule is shown before it is stored.
type Offer struct {
	ID    string `json:"id"`
	Scope Scope  `json:"scope"`
	Label string `json:"label"`
	Rule  Rule   `json:"rule"`
}

// GrantEdit is what a person changed of an offer before taking it. The deciding
// node refuses a rule that is not equal to the offered one or narrower.
type GrantEdit struct {
	// Rule takes the place of the offered one, nil for that itself.
	Rule *Rule `json:"rule,omitempty"`
	// ExpiresMS is how long the grant lives, 0 for as long as its scope.
	ExpiresMS int64 `json:"expires_ms,omitempty"`
}

// Check refuses an edit of which no grant could come.
func (e *GrantEdit) Check() error {
	if e.ExpiresMS < 0 {
		return invalid("a grant that lives %d ms", e.ExpiresMS)
	}
	if e.Rule == nil {
		return nil
	}
	if e.Rule.Action != Allow {
		return invalid("a grant whose rule says %s; it lifts ask and nothing else", e.Rule.Action)
	}
	return e.Rule.Check()
}

// Check refuses an offer that must not be shown.
func (o *Offer) Check() error {
	if !ValidID(o.ID) {
		return invalid("offer id %s", Quote(o.ID))
	}
	if !o.Scope.remembered() {
		return invalid("offer %s of scope %s", o.ID, Quote(string(o.Scope)))
	}
	if strings.TrimSpace(o.Label) == "" || o.Rule.Action != Allow {
		return invalid("offer %s has no label or does not allow", o.ID)
	}
	return o.Rule.Check()
}

// OffersDigest is the digest of the offers as shown: SHA-256 over version and
// canonical bytes.
func OffersDigest(offers []Offer) (Digest, error) {
	raw, err := Encode(offers)
	if err != nil {
		return Digest{}, err
	}
	return BodyDigest(raw), nil
}

// AllowAnswer returns a plain allow, once, for a.
func AllowAnswer(a *Ask) Answer { return permissionAnswer(a, OptionAllow) }

// DenyAnswer returns a plain deny for a, with an optional reason.
func DenyAnswer(a *Ask, reason string) Answer {
	r := permissionAnswer(a, OptionDeny)
	r.Reason = reason
	return r
}

func permissionAnswer(a *Ask, option string) Answer {
	return Answer{Ask: a.Body.ID, Digest: a.Digest, Outcome: Answered,
		Items: []ItemAnswer{{Item: PermissionItem, Picks: []string{option}}}}
}
