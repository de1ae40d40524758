package ask

import "fmt"

// decides says what a kind may say. Kinds that are not listed are unknown.
var decides = map[Kind]struct{ allow, answered bool }{
	KindRule:         {true, true},
	KindDefault:      {true, true},
	KindBaseline:     {true, true},
	KindProtection:   {false, true},
	KindGrant:        {true, true},
	KindUser:         {true, true},
	KindDevice:       {true, true},
	KindClientDialog: {true, true},
	KindLink:         {true, true},
	KindMode:         {true, true},
	KindRepeat:       {false, true},
	KindTimeout:      {false, false},
	KindUnavailable:  {false, false},
	KindWithdrawn:    {false, false},
	KindGateError:    {false, false},
	KindRelease:      {false, true},
}

// Check refuses a By of which any frame is malformed: an unknown kind, a
// frame below that does not belong there or is missing, a rule or grant
// without its place, a name with something hidden in it, or too many frames.
func (b *By) Check() error {
	for n := 1; ; n++ {
		if n > MaxFrames {
			return invalid("decided by more than %d frames", MaxFrames)
		}
		if err := b.checkFrame(); err != nil {
			return fmt.Errorf("decided by, frame %d: %w", n, err)
		}
		if b.Inner == nil {
			return nil
		}
		b = b.Inner
	}
}

func (b *By) checkFrame() error {
	forwarded := b.Kind == KindForwarded
	if _, known := decides[b.Kind]; !known && !forwarded {
		return invalid("kind %s", Quote(string(b.Kind)))
	}
	if forwarded != (b.Inner != nil) {
		return invalid("kind %s with or without a frame below", b.Kind)
	}
	if b.Session != "" && !ValidID(b.Session) || forwarded && b.Session == "" {
		return invalid("session %s", Quote(b.Session))
	}
	if b.Surface != "" && !validName(b.Surface) {
		return invalid("surface %s", Quote(b.Surface))
	}
	if (b.Kind == KindGrant) != (b.Grant != "") || b.Grant != "" && !ValidID(b.Grant) {
		return invalid("kind %s with grant %s", b.Kind, Quote(b.Grant))
	}
	switch b.Kind {
	case KindRule:
		if b.Rule == nil {
			return invalid("a rule without its place")
		}
	case KindBaseline, KindProtection:
	default:
		if b.Rule != nil {
			return invalid("kind %s with a rule", b.Kind)
		}
	}
	if r := b.Rule; r != nil && (!validName(r.Layer) || len(r.File) > MaxText || r.Line < 0) {
		return invalid("rule of layer %s, file %s, line %d", Quote(r.Layer), Quote(r.File), r.Line)
	}
	return nil
}

// Check refuses a decision that contradicts itself, so that none is half
// believed: an allow by what cannot allow, an answer nobody gave, a grant
// without an allow.
func (d *Decision) Check() error {
	if !ValidID(d.Ask) {
		return invalid("decision for ask %s", Quote(d.Ask))
	}
	if d.Verdict != Allow && d.Verdict != Deny {
		return invalid("verdict %s ends nothing", d.Verdict)
	}
	if !d.Outcome.Valid() {
		return invalid("outcome %s", Quote(string(d.Outcome)))
	}
	if err := d.By.Check(); err != nil {
		return err
	}
	may := decides[d.By.Decider().Kind]
	if d.Verdict == Allow && (!may.allow || d.Outcome != Answered || d.Digest.IsZero()) {
		return invalid("an allow, %s, by %s", d.Outcome, d.By.Decider().Kind)
	}
	if d.Outcome == Answered && !may.answered {
		return invalid("answered, yet by %s", d.By.Decider().Kind)
	}
	switch d.Outcome {
	case TimedOut, Withdrawn, Unavailable, Failed:
		if d.By.Person() {
			return invalid("%s, yet by a person", d.Outcome)
		}
	}
	if len(d.Reason) > MaxText {
		return fmt.Errorf("reason: %w (limit %d bytes)", ErrTooLarge, MaxText)
	}
	if d.WaitMS != nil && *d.WaitMS < 0 {
		return invalid("waited for %d ms", *d.WaitMS)
	}
	if d.Grant != nil {
		if d.Verdict != Allow {
			return invalid("a grant without an allow")
		}
		if err := d.Grant.Check(); err != nil {
			return err
		}
	}
	if n := d.Answer; n != nil {
		if err := n.Check(); err != nil {
			return err
		}
		if n.Ask != d.Ask || n.Digest != d.Digest || n.Outcome != d.Outcome {
			return invalid("the answer inside is for another ask or outcome")
		}
	}
	return nil
}
