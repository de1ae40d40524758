package suggest

import (
	"time"

	"permd/ask"
	"permd/review"
)

// Record reads the calls of all sessions since a time from the review log in
// dir, the zero time for all. Home is for "~" in commands.
func Record(dir, home string, since time.Time) ([]Call, error) {
	at := map[string]int{} // the call of an ask
	var calls []Call
	err := review.Scan(dir, review.Filter{Since: since}, func(r review.Record) error {
		if r.Err != nil || r.Ask == "" {
			return nil
		}
		key := r.Session + " " + r.Ask
		i, ok := at[key]
		if !ok {
			if r.Action == nil {
				return nil
			}
			i = len(calls)
			at[key] = i
			calls = append(calls, Call{Session: r.Session, Action: actionOf(r.Action, home), Time: r.Time})
		}
		c := &calls[i]
		person := r.By != nil && isPerson(r.By.Decider().Kind)
		switch r.Event {
		case review.AskApproved, review.AskSessionApproved:
			c.Allowed = c.Allowed || person
		case review.Effect:
			// What the client's own dialog allowed is known by its having run.
			c.Allowed = c.Allowed || person && r.Field(review.KeyEffect) != "not_seen"
		case review.AskDenied:
			c.Denied = c.Denied || person
		}
		return nil
	})
	return calls, err
}

func isPerson(k ask.Kind) bool {
	return k == ask.KindUser || k == ask.KindDevice || k == ask.KindClientDialog
}

func actionOf(r *review.Action, home string) ask.Action {
	a := ask.Action{Client: r.Client, Tool: r.Tool, ClientTool: r.ClientTool, Cwd: r.Cwd, Project: r.Cwd, Home: home, Command: r.Command,
		Paths: r.Paths, URL: r.URL, Query: r.Query, Agent: r.Agent, Input: []byte("{}")}
	if r.Server != "" {
		a.MCP = &ask.MCP{Server: r.Server, Name: r.Name, Source: r.Source}
	}
	return a
}
