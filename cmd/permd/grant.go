package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"permd/api"
	"permd/ask"
	"permd/policy"
	"permd/review"
	"permd/session"
)

func init() { commands = append(commands, grantCommand) }

type grantOptions struct {
	last, session, tree, project, user bool
	sub, yes, asJSON                   bool
	of, rule                           string
	dur                                time.Duration
}

// scope is the one scope that was named; that of the session where none was.
func (o *grantOptions) scope() (ask.Scope, error) {
	scope, n := ask.ScopeSession, 0
	for s, on := range map[ask.Scope]bool{ask.ScopeSession: o.session, ask.ScopeTree: o.tree, ask.ScopeProject: o.project, ask.ScopeUser: o.user} {
		if on {
			scope = s
			n++
		}
	}
	if n > 1 {
		return scope, usage("--session, --tree, --project and --user exclude each other")
	}
	return scope, nil
}

func grantCommand(a *app) *cobra.Command {
	var o grantOptions
	c := &cobra.Command{
		Use:   "grant --last",
		Short: "Grant what was asked about or denied last, so that it is not asked again",
		Long: "grant --last takes the last call, of all sessions that run or of one, that was asked about\n" +
			"or denied by a person, and grants it for the session: shown first, with the exact rule. The\n" +
			"rule is for exactly this command in this directory, this file, this tool or this host; with\n" +
			"--subcommand for the same subcommand with any further words. --rule narrows it further.\n\n" +
			"A grant lifts an ask, never a deny. It does not run the call; the agent asks for it again.\n" +
			"It is recorded, and only a person's own terminal may give it; permd policy grants lists\n" +
			"and revokes it.\n\n" +
			"Exit codes: 0 granted, 1 nothing to grant, not confirmed or refused, 2 used wrongly.",
		Example: "  permd grant --last\n  permd grant --last --project --subcommand\n  permd grant --last --user --for 8h --of claude-1f3a",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !o.last {
				return usage("say which call: permd grant --last")
			}
			if o.dur < 0 {
				return usage("--for takes a time from now, as in --for 8h")
			}
			d, err := a.dirs()
			if err != nil {
				return err
			}
			if err := a.person(d, "permd grant"); err != nil {
				return err
			}
			return a.grantLast(cmd.Context(), d, o)
		},
	}
	f := c.Flags()
	f.BoolVar(&o.last, "last", false, "the call that was asked about or denied last")
	f.BoolVar(&o.session, "session", false, "for the rest of its session (the default)")
	f.BoolVar(&o.tree, "tree", false, "for its session and all below it")
	f.BoolVar(&o.project, "project", false, "for every session of its project, until revoked")
	f.BoolVar(&o.user, "user", false, "for every session of yours, until revoked")
	f.BoolVar(&o.sub, "subcommand", false, "with any further words")
	f.StringVar(&o.rule, "rule", "", "a narrower rule instead, as a TOML table: action = \"allow\", command = \"…\" on lines of their own")
	f.DurationVar(&o.dur, "for", 0, "how long it holds, at most until the machine restarts")
	f.StringVar(&o.of, "of", "", "only calls of this session, with its subagents")
	f.BoolVar(&o.asJSON, "json", false, "print the grant as JSON")
	f.BoolVarP(&o.yes, "yes", "y", false, "do not ask before granting it")
	return c
}

// lastEverywhere asks every node for its last call and returns the newest.
func lastEverywhere(ctx context.Context, d session.Dirs, id string) (node string, last api.Last, problems error) {
	nodes, err := livingNodes(d)
	if err != nil {
		return "", last, err
	}
	for _, n := range nodes {
		var l api.Last
		if err := callNode(ctx, d, n, api.OpLast, api.LastArgs{Session: id}, &l); err != nil {
			problems = errors.Join(problems, fmt.Errorf("node %s: %w", n, err))
			continue
		}
		if l.Ask != nil && (node == "" || l.AgeMS < last.AgeMS) {
			node, last = n, l
		}
	}
	return node, last, problems
}

func (a *app) grantLast(ctx context.Context, d session.Dirs, o grantOptions) error {
	scope, err := o.scope()
	if err != nil {
		return err
	}
	id := ""
	if o.of != "" {
		if id = session.Canonical(o.of); id == "" {
			return usage("%q is no session id; permd sessions lists them", o.of)
		}
	}
	node, last, problems := lastEverywhere(ctx, d, id)
	if node == "" {
		return &exitError{1, errors.Join(errors.New("no session that runs has been asked about or denied anything; there is nothing to grant"), problems)}
	}
	say := a.err // what is for the eyes, beside JSON
	if !o.asJSON {
		say = a.out
	}
	w := waitingOf(node, api.Shown{Ask: last.Ask})
	fmt.Fprintf(say, "session %s, %s ago:\n    %s\n    in %s\n", last.Session, (time.Duration(last.AgeMS) * time.Millisecond).Round(time.Second),
		ask.Visible(w.Title+": "+w.Text), ask.VisibleLine(w.Cwd))
	switch last.Verdict {
	case ask.Deny:
		return &exitError{1, fmt.Errorf("it is denied, and a grant never lifts that: %s", ask.VisibleLine(last.Reason))}
	case ask.Allow:
		fmt.Fprintln(say, "it is allowed by now")
		return nil
	}
	offer := string(scope)
	if o.sub {
		offer += "-sub"
	}
	i := slices.IndexFunc(last.Offers, func(x ask.Offer) bool { return x.ID == offer })
	if i < 0 {
		return &exitError{1, errors.New(whyNot(last, o.sub))}
	}
	edit, rule, err := o.edit(last.Offers[i].Rule)
	if err != nil {
		return err
	}
	fmt.Fprintf(say, "%s:\n    %s\n", last.Offers[i].Label, ask.VisibleLine(policy.Line(&rule)))
	if o.dur > 0 {
		fmt.Fprintf(say, "    for %s\n", o.dur)
	}
	if !o.yes {
		ok, err := a.confirm("Grant it?")
		if err != nil || !ok {
			return &exitError{1, errors.Join(errors.New("nothing was granted"), err)}
		}
	}
	digest, err := ask.OffersDigest(last.Offers)
	if err != nil {
		return &exitError{1, err}
	}
	var g api.Granted
	if err := callNode(ctx, d, node, api.OpGrant, api.GrantArgs{Session: id, Ask: last.Ask.Body.ID, Digest: last.Ask.Digest, Offer: offer, OfferDigest: digest, Edit: edit}, &g); err != nil {
		return &exitError{1, err}
	}
	if o.asJSON {
		return json.NewEncoder(a.out).Encode(g)
	}
	fmt.Fprintf(a.out, "granted, %s; to take it back: permd policy grants revoke %s\n", g.Grant.ID, g.Grant.ID)
	return nil
}

func whyNot(last api.Last, sub bool) string {
	switch {
	case len(last.Offers) == 0:
		return "this cannot be granted for longer than once: " + ask.VisibleLine(last.Reason)
	case sub:
		return "this is no command with a subcommand that is known; leave --subcommand out"
	}
	return "this scope is not offered for it"
}

// edit is what the options change of an offered rule, and the rule that comes
// of it.
func (o *grantOptions) edit(offered ask.Rule) (*ask.GrantEdit, ask.Rule, error) {
	e := &ask.GrantEdit{ExpiresMS: o.dur.Milliseconds()}
	if o.rule != "" {
		f, err := policy.Decode("--rule", []byte("[[rule]]\n"+o.rule+"\n"), policy.LayerUser)
		if err != nil {
			return nil, offered, &exitError{2, err}
		}
		rules := f.Rules()
		if len(rules) != 1 {
			return nil, offered, usage("--rule takes one rule")
		}
		e.Rule = &rules[0]
		offered = rules[0]
	}
	if e.Rule == nil && e.ExpiresMS == 0 {
		return nil, offered, nil
	}
	return e, offered, nil
}

// grantUse is how often a grant was used, by the record.
type grantUse struct {
	Count int
	Last  string // time of the last use, as the record has it
}

// grantUses counts the uses of every grant: what it allowed without a question,
// and what it settled that waited.
func grantUses(d session.Dirs) (map[string]grantUse, error) {
	uses := map[string]grantUse{}
	err := review.Scan(d.Review(), review.Filter{}, func(r review.Record) error {
		if r.Err != nil || r.By == nil || r.Verdict == nil || *r.Verdict != ask.Allow {
			return nil
		}
		switch r.Event {
		case review.AskAutoApproved, review.AskApproved, review.ForwardedAutoApproved, review.ForwardedApproved:
		default:
			return nil
		}
		if by := r.By.Decider(); by.Kind == ask.KindGrant {
			u := uses[by.Grant]
			u.Count++
			u.Last = r.Time
			uses[by.Grant] = u
		}
		return nil
	})
	return uses, err
}
