package api_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"permd/api"
	"permd/ask"
)

// A program that answers: it attaches to a node's socket, shows what waits
// and allows one command. The first part stands in for the node.
func Example() {
	dir, err := os.MkdirTemp("", "permd")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "sock")
	end := exampleNode(path)
	defer end()

	ctx := context.Background()
	desk, err := api.DialAnswerer(ctx, path, "example 1.0", api.Attach{Surface: "example", Faces: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer desk.Close()
	err = desk.Run(ctx, func(e api.Event) {
		switch e := e.(type) {
		case *api.Snapshot:
			for _, shown := range e.Asks {
				action := shown.Ask.Body.Action
				fmt.Printf("%s wants to run %q in %s\n", shown.Ask.Body.From.Session, ask.Visible(action.Command), action.Cwd)
				verdict, err := desk.Answer(ctx, ask.AllowAnswer(shown.Ask))
				fmt.Println(verdict.Verdict, err)
			}
		case *api.Delivered:
			fmt.Println(e.Ask, "was", e.How)
		}
	})
	fmt.Println("end:", err)

	// Output:
	// claude-1 wants to run "make test" in /home/dev/proj
	// accepted <nil>
	// a-1 was released
	// end: EOF
}

func exampleNode(path string) (end func()) {
	waiting, err := ask.Seal(ask.Body{
		ID: "a-1", Origin: ask.OriginGate, From: ask.Who{Session: "claude-1", Client: "claude"}, Title: "Run a command",
		Action: &ask.Action{Client: "claude", Tool: ask.ToolBash, ClientTool: "Bash", Input: []byte(`{"command":"make test"}`),
			Cwd: "/home/dev/proj", Command: "make test"},
		Items: ask.PermissionItems("Allow this command?"),
	})
	if err != nil {
		panic(err)
	}
	listener, err := api.Listen(path)
	if err != nil {
		panic(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- listener.Serve(ctx, func(_ context.Context, in *api.Incoming) {
			c := in.Conn
			if _, err := c.Accept(func(api.Hello) (api.Welcome, *api.Refused) {
				return api.Welcome{Node: "n1", Instance: "i1"}, nil
			}); err != nil {
				return
			}
			if f, err := c.Read(); err != nil || f.T != api.TAttach {
				return
			}
			c.Write(api.TSnapshot, 0, api.Snapshot{Asks: []api.Shown{{Ask: waiting}}})
			f, err := c.Read()
			if err != nil {
				return
			}
			var answer ask.Answer
			verdict := api.AnswerVerdict{Verdict: api.VerdictInvalid}
			if err := f.Body(&answer); err != nil {
				verdict.Text = err.Error()
			} else if err := waiting.Validate(&answer, nil); err != nil {
				verdict.Ask, verdict.Text = answer.Ask, err.Error()
			} else {
				verdict.Ask, verdict.Verdict = answer.Ask, api.VerdictAccepted
			}
			c.Write(api.TVerdict, f.N, verdict)
			c.Write(api.TDeliver, 0, api.Delivered{Ask: answer.Ask, How: "released"})
		})
	}()
	return func() {
		cancel()
		<-done
	}
}
