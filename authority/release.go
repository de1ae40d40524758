package authority

import (
	"context"
	"encoding/json"

	"permd/ask"
)

// EditedJudge is a [Judge] that can also judge an action with another input
// than the one that was asked about.
type EditedJudge interface {
	JudgeEdited(ctx context.Context, a *ask.Ask, input json.RawMessage) (v ask.Verdict, by ask.By, reason string, err error)
}

// Release is the last check before an action runs, made by the node that lets
// it: the decision must be for this very text, and recorded authority must
// not deny the action now, whatever it said when the ask began. It returns d,
// or the denial that takes its place. A question has no action to judge.
func Release(ctx context.Context, d ask.Decision, a *ask.Ask, session string, j Judge) ask.Decision {
	if d.Ask != a.Body.ID || d.Digest != a.Digest {
		return refused(a, session, "the answer is for another text than the one that would run")
	}
	if err := d.Check(); err != nil {
		return GateError(a, session, err)
	}
	if d.Verdict != ask.Allow || a.Body.Action == nil {
		return d
	}
	v, by, reason, err := rejudge(ctx, d, a, j)
	switch {
	case err != nil:
		return GateError(a, session, err)
	case v == ask.Deny:
		now := deny(a, ask.Answered, by, reason)
		return refused(a, session, "it was allowed, but judged again before it ran it is "+Sentence(now))
	}
	return d
}

func rejudge(ctx context.Context, d ask.Decision, a *ask.Ask, j Judge) (ask.Verdict, ask.By, string, error) {
	if d.Answer == nil || d.Answer.Edited == nil {
		return judge(ctx, j, a)
	}
	e, ok := j.(EditedJudge)
	if !ok {
		return ask.Deny, ask.By{Kind: ask.KindDefault}, "an edited input cannot be judged here", nil
	}
	return judge(ctx, judgeFunc(func(ctx context.Context, a *ask.Ask) (ask.Verdict, ask.By, string, error) {
		return e.JudgeEdited(ctx, a, d.Answer.Edited)
	}), a)
}

type judgeFunc func(ctx context.Context, a *ask.Ask) (ask.Verdict, ask.By, string, error)

func (f judgeFunc) Judge(ctx context.Context, a *ask.Ask) (ask.Verdict, ask.By, string, error) {
	return f(ctx, a)
}

func refused(a *ask.Ask, session, reason string) ask.Decision {
	return deny(a, ask.Answered, ask.By{Kind: ask.KindRelease, Session: session}, reason)
}

// FromClaimed is what a decision of a parent that is only claimed is worth:
// its denials stand, its person's answer counts once, and nothing that it has
// on record allows.
func FromClaimed(d ask.Decision, a *ask.Ask, session string) ask.Decision {
	if d.Verdict != ask.Allow {
		return d
	}
	if !d.By.Person() {
		return refused(a, session, "the session that allowed it is a parent by claim only, and no person answered there; "+
			"confirm the claim at a surface, or start the agent with \"permd run\"")
	}
	d.Grant = nil
	return d
}
