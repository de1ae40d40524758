package ask

import "encoding/json"

// ItemType is what kind of answer an item takes.
type ItemType string

// The item types.
const (
	ItemChoice ItemType = "choice"
	ItemText   ItemType = "text"
	ItemBool   ItemType = "bool"
	ItemNumber ItemType = "number"
	ItemInt    ItemType = "int"
)

// Effect is what choosing an option of a permission does. The empty effect
// has none: it is a question's option.
type Effect string

// The effects.
const (
	EffectAllow Effect = "allow"
	EffectDeny  Effect = "deny"
)

// Item is one question of an ask. A permission is one choice item.
type Item struct {
	// ID and the ids of options are at most [MaxName] bytes with nothing
	// hidden in them; the client's own value of an option is its Value.
	ID      string   `json:"id"`
	Header  string   `json:"header,omitempty"`
	Prompt  string   `json:"prompt"`
	Type    ItemType `json:"type"`
	Options []Option `json:"options,omitempty"`
	// MinPicks and MaxPicks bound a choice, own text counted as a pick;
	// MaxPicks 1 is a single choice, 0 no limit.
	MinPicks int   `json:"min_picks,omitempty"`
	MaxPicks int   `json:"max_picks,omitempty"`
	Free     *Free `json:"free,omitempty"`
	// Min and Max bound a number; decimal strings, so that no wire rounds.
	Min      string `json:"min,omitempty"`
	Max      string `json:"max,omitempty"`
	Required bool   `json:"required,omitempty"`
	// Default is shown as prefill and never sent unless a person submits it.
	Default json.RawMessage `json:"default,omitempty"`
}

// Option is one choice. ID is unique inside its item; equal labels are legal.
type Option struct {
	ID          string   `json:"id"`
	Value       string   `json:"value,omitempty"`
	Label       string   `json:"label"`
	Description string   `json:"description,omitempty"`
	Preview     *Preview `json:"preview,omitempty"`
	Recommended bool     `json:"recommended,omitempty"`
	Effect      Effect   `json:"effect,omitempty"`
}

// Preview is what an option would look like. HTML is shown as text.
type Preview struct {
	Format string `json:"format"` // "text", "markdown" or "html"
	Text   string `json:"text"`
}

// Free allows own text instead of, or beside, a choice, and bounds a text.
// Lengths count characters, 0 is no limit.
type Free struct {
	Mode        string `json:"mode"` // instead, beside, both; "" in a text item
	Multiline   bool   `json:"multiline,omitempty"`
	Placeholder string `json:"placeholder,omitempty"`
	Prefill     string `json:"prefill,omitempty"`
	MinLen      int    `json:"min_len,omitempty"`
	MaxLen      int    `json:"max_len,omitempty"`
	Format      string `json:"format,omitempty"` // email, uri, date, date-time
	Pattern     string `json:"pattern,omitempty"`
	Secret      bool   `json:"secret,omitempty"`
}

// URL asks for consent to open an address; nothing is fetched or opened.
type URL struct {
	Address string `json:"address"`
	ID      string `json:"id,omitempty"`
}

// Verbs says which answers besides choosing are legal for this ask.
type Verbs struct {
	Skip      bool `json:"skip,omitempty"`
	YouDecide bool `json:"you_decide,omitempty"`
	Decline   bool `json:"decline,omitempty"`
	Dismiss   bool `json:"dismiss,omitempty"`
	Stop      bool `json:"stop,omitempty"`
	Reply     bool `json:"reply,omitempty"`
	Edit      bool `json:"edit,omitempty"`
	// Reason is true when the client can hand a reason back to the agent.
	Reason bool `json:"reason,omitempty"`
}

// Option ids of the one item of a permission.
const (
	PermissionItem = "permission"
	OptionAllow    = "allow"
	OptionDeny     = "deny"
)

// PermissionItems returns the one item of a permission ask.
func PermissionItems(prompt string) []Item {
	return []Item{{
		ID: PermissionItem, Prompt: prompt, Type: ItemChoice, MinPicks: 1, MaxPicks: 1, Required: true,
		Options: []Option{
			{ID: OptionAllow, Label: "Allow", Effect: EffectAllow},
			{ID: OptionDeny, Label: "Deny", Effect: EffectDeny},
		},
	}}
}
