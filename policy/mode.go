package policy

import (
	"fmt"
	"slices"

	"permd/ask"
)

// Mode is what a person switched on for a while beside the rules. The zero
// value, and one that is not known, is ModeNormal.
type Mode string

// The modes.
const (
	// ModeNormal adds nothing to the rules.
	ModeNormal Mode = "normal"
	// ModeAcceptEdits allows a write or edit of files inside the project that
	// nothing but the default asks about.
	ModeAcceptEdits Mode = "accept-edits"
	// ModeYolo allows what is asked, but for what is firm ([Result.Firm]). It
	// lifts no deny, self-protection included.
	ModeYolo Mode = "yolo"
)

// ParseMode reads the name of a mode.
func ParseMode(s string) (Mode, error) {
	switch m := Mode(s); m {
	case ModeNormal, ModeAcceptEdits, ModeYolo:
		return m, nil
	}
	return ModeNormal, fmt.Errorf("%s is no mode; write normal, accept-edits or yolo", ask.Quote(s))
}

// Apply returns what r, the decision on in, is in mode m: r itself or an
// allow by the mode. A session that only claims to be below this node gets
// nothing from its modes.
func (m Mode) Apply(in Input, r Result) Result {
	if r.Verdict != ask.Prompt || r.Firm || in.Node == Claimed || in.Action == nil {
		return r
	}
	switch m {
	case ModeYolo:
	case ModeAcceptEdits:
		if !editsProject(&in, &r) {
			return r
		}
	default:
		return r
	}
	by := Reason{Verdict: ask.Allow, Kind: ask.KindMode, Text: "mode " + string(m)}
	r.Reasons = slices.Concat([]Reason{by}, r.Reasons)
	r.Verdict, r.Reason, r.Grantable = ask.Allow, by.Text, false
	r.By = ask.By{Kind: ask.KindMode, Surface: string(m)}
	return r
}

// editsProject reports whether in is nothing but a write or edit of files that
// certainly lie in the project, asked about by default alone.
func editsProject(in *Input, r *Result) bool {
	a := in.Action
	if a.Tool != ask.ToolWrite && a.Tool != ask.ToolEdit || len(a.Paths) == 0 || len(r.Paths) == 0 {
		return false
	}
	for _, x := range r.Reasons {
		if x.Verdict == ask.Prompt && x.Kind != ask.KindDefault {
			return false
		}
	}
	for _, p := range r.Paths {
		if secretFile(p.Given) || secretFile(p.Real) {
			return false
		}
	}
	return insideProject(in, r.Paths)
}
