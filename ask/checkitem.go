package ask

import (
	"fmt"
	"slices"
)

// Modes of [Free].
const (
	// FreeInstead: own text is an answer of its own; beside picks it counts
	// as one more.
	FreeInstead = "instead"
	// FreeBeside: a note may stand beside a pick.
	FreeBeside = "beside"
	// FreeBoth: an own answer and a note are both possible.
	FreeBoth = "both"
)

// Text formats of [Free].
const (
	FormatEmail    = "email"
	FormatURI      = "uri"
	FormatDate     = "date"
	FormatDateTime = "date-time"
)

func (f *Free) own() bool  { return f != nil && (f.Mode == FreeInstead || f.Mode == FreeBoth) }
func (f *Free) note() bool { return f != nil && (f.Mode == FreeBeside || f.Mode == FreeBoth) }

func (b *Body) checkItems() error {
	if len(b.Items) == 0 || len(b.Items) > MaxItems {
		return invalid("%d items, want 1 to %d", len(b.Items), MaxItems)
	}
	seen := map[string]bool{}
	permissions := 0
	for i := range b.Items {
		it := &b.Items[i]
		if !validName(it.ID) || seen[it.ID] {
			return invalid("item id %s is empty, too long, hidden or used twice", Quote(it.ID))
		}
		seen[it.ID] = true
		if err := it.check(); err != nil {
			return fmt.Errorf("item %s: %w", Quote(it.ID), err)
		}
		if it.permission() {
			permissions++
		}
	}
	switch b.Origin {
	case OriginGate, OriginPlan:
		if permissions != 1 {
			return invalid("a %s ask has exactly one item that allows or denies, not %d", b.Origin, permissions)
		}
	default:
		if permissions != 0 {
			return invalid("an option of a %s ask has an effect; a question grants nothing", b.Origin)
		}
	}
	return nil
}

// permission reports whether choosing here allows or denies.
func (it *Item) permission() bool {
	return slices.ContainsFunc(it.Options, func(o Option) bool { return o.Effect != "" })
}

// Permission returns the item that allows or denies, nil when b asks no
// permission.
func (b *Body) Permission() *Item {
	for i := range b.Items {
		if b.Items[i].permission() {
			return &b.Items[i]
		}
	}
	return nil
}

func (it *Item) check() error {
	if it.Default != nil {
		if err := checkRaw(it.Default); err != nil {
			return fmt.Errorf("default: %w", err)
		}
	}
	if err := it.Free.check(); err != nil {
		return err
	}
	if it.Type != ItemChoice && (len(it.Options) > 0 || it.MinPicks != 0 || it.MaxPicks != 0) {
		return invalid("options in an item of type %s", Quote(string(it.Type)))
	}
	if it.Type != ItemNumber && it.Type != ItemInt && (it.Min != "" || it.Max != "") {
		return invalid("number limits in an item of type %s", Quote(string(it.Type)))
	}
	switch it.Type {
	case ItemChoice:
		return it.checkChoice()
	case ItemText:
		if it.Free.note() {
			return invalid("a text item has nothing for a note to stand beside")
		}
	case ItemNumber, ItemInt:
		if it.Free != nil {
			return invalid("free text in a number")
		}
		return it.checkLimits()
	case ItemBool:
		if it.Free != nil {
			return invalid("free text in a yes or no")
		}
	default:
		return invalid("item type %s", Quote(string(it.Type)))
	}
	return nil
}

func (it *Item) checkChoice() error {
	if len(it.Options) == 0 && !it.Free.own() || len(it.Options) > MaxOptions {
		return invalid("%d options, want 1 to %d", len(it.Options), MaxOptions)
	}
	if it.Free != nil && it.Free.Mode == "" {
		return invalid("own text needs a mode: instead, beside or both")
	}
	most := it.maxPicks()
	if it.MinPicks < 0 || it.MaxPicks < 0 || it.MinPicks > most {
		return invalid("%d to %d picks of %d options", it.MinPicks, it.MaxPicks, len(it.Options))
	}
	seen := map[string]bool{}
	effects, denies := 0, 0
	for i := range it.Options {
		o := &it.Options[i]
		if !validName(o.ID) || seen[o.ID] {
			return invalid("option id %s is empty, too long, hidden or used twice", Quote(o.ID))
		}
		seen[o.ID] = true
		switch o.Effect {
		case "":
		case EffectAllow:
			effects++
		case EffectDeny:
			effects++
			denies++
		default:
			return invalid("effect %s", Quote(string(o.Effect)))
		}
		if p := o.Preview; p != nil && p.Format != "text" && p.Format != "markdown" && p.Format != "html" {
			return invalid("preview format %s", Quote(p.Format))
		}
	}
	if effects == 0 {
		return nil
	}
	if effects != len(it.Options) || denies == 0 {
		return invalid("each option of a permission allows or denies, and one denies")
	}
	if it.MinPicks != 1 || it.MaxPicks != 1 || it.Free.own() {
		return invalid("a permission is exactly one pick")
	}
	return nil
}

// maxPicks is the effective limit: 0 is as many as there are.
func (it *Item) maxPicks() int {
	if it.MaxPicks > 0 {
		return it.MaxPicks
	}
	n := len(it.Options)
	if it.Free.own() {
		n++
	}
	return n
}

func (f *Free) check() error {
	if f == nil {
		return nil
	}
	switch f.Mode {
	case "", FreeInstead, FreeBeside, FreeBoth:
	default:
		return invalid("free text mode %s", Quote(f.Mode))
	}
	switch f.Format {
	case "", FormatEmail, FormatURI, FormatDate, FormatDateTime:
	default:
		return invalid("text format %s", Quote(f.Format))
	}
	if f.MinLen < 0 || f.MaxLen < 0 || f.MaxLen > 0 && f.MinLen > f.MaxLen || f.MinLen > MaxText {
		return invalid("text of %d to %d characters", f.MinLen, f.MaxLen)
	}
	return nil
}

func (it *Item) checkLimits() error {
	for _, s := range []string{it.Min, it.Max} {
		if s == "" {
			continue
		}
		if _, err := parseNumber(s, false); err != nil {
			return err
		}
	}
	if it.Min == "" || it.Max == "" {
		return nil
	}
	lo, _ := parseNumber(it.Min, false)
	if hi, _ := parseNumber(it.Max, false); lo.Cmp(hi) > 0 {
		return invalid("limits %s to %s are empty", it.Min, it.Max)
	}
	return nil
}
