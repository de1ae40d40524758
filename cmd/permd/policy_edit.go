package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"permd/ask"
	"permd/internal/host"
	"permd/policy"
	"permd/session"
)

func policyEdit(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "edit [FILE]",
		Short: "Edit your rules: checked, the difference shown, then in force",
		Long: "edit opens a copy of your rules, or of a file of policy.d, in $VISUAL or $EDITOR. What you\n" +
			"save is checked first; with a fault you go back to the editor or give up. Then the difference\n" +
			"is shown, and only with your yes it takes the file's place and comes into force, also where it\n" +
			"loosens. That is recorded. A file that is not there yet begins as the starter policy.\n\n" +
			"It needs a terminal of your own.\n\n" +
			"Exit codes: 0 in force or nothing changed, 1 given up or refused, 2 used wrongly or the editor\n" +
			"failed.",
		Example: "  permd policy edit\n" +
			"  permd policy edit policy.d/work.toml",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			d, err := a.dirs()
			if err != nil {
				return err
			}
			if err := a.person(d, "permd policy edit"); err != nil {
				return err
			}
			if !term.IsTerminal(int(a.in.Fd())) {
				return usage("permd policy edit needs a terminal; change the file with what you like and then run permd policy apply")
			}
			name, err := editable(d, args)
			if err != nil {
				return err
			}
			return a.editRules(cmd.Context(), d, name)
		},
	}
	return c
}

// editable is the rule file that is meant: one that counts as the user's.
func editable(d session.Dirs, args []string) (string, error) {
	if len(args) == 0 {
		return userRules(d), nil
	}
	name := args[0]
	if !filepath.IsAbs(name) {
		name = filepath.Join(d.Config, name)
	}
	name = filepath.Clean(name)
	if name != userRules(d) && (filepath.Dir(name) != filepath.Join(d.Config, "policy.d") || !strings.HasSuffix(name, ".toml")) {
		return "", usage("%s is no file of your rules; they are %s and policy.d/*.toml beside it", args[0], userRules(d))
	}
	return name, nil
}

// editRules edits a copy of name until it is right or given up, and puts it in
// place.
func (a *app) editRules(ctx context.Context, d session.Dirs, name string) error {
	before, err := os.ReadFile(name)
	fresh := errors.Is(err, fs.ErrNotExist)
	switch {
	case fresh && name == userRules(d):
		before = nil
	case err != nil && !fresh:
		return &exitError{2, err}
	}
	dir := filepath.Join(d.State, "edit")
	if err := errors.Join(host.MakeDir(d.State), host.MakeDir(dir)); err != nil {
		return &exitError{2, err}
	}
	defer os.RemoveAll(dir)
	copied := filepath.Join(dir, filepath.Base(name))
	text := before
	if fresh && name == userRules(d) {
		text = starter
	}
	if err := os.WriteFile(copied, text, 0o600); err != nil {
		return &exitError{2, err}
	}
	for {
		if err := a.editor(ctx, copied); err != nil {
			return &exitError{2, fmt.Errorf("the editor failed, nothing was changed: %w", err)}
		}
		if text, err = os.ReadFile(copied); err != nil {
			return &exitError{2, err}
		}
		faults, warnings := policy.Lint(policy.Text{Name: name, Data: text, Layer: policy.LayerUser})
		for _, w := range warnings {
			fmt.Fprintln(a.out, ask.VisibleLine(strings.Replace(w.Error(), ": ", ": warning: ", 1)))
		}
		if len(faults) == 0 {
			break
		}
		fmt.Fprintln(a.out, ask.Visible(faults.Error()))
		again, err := a.confirm("It is not saved. Edit again?")
		if err != nil || !again {
			return &exitError{1, errors.Join(errors.New("nothing was changed"), err)}
		}
	}
	if !fresh && bytes.Equal(text, before) {
		fmt.Fprintln(a.out, "nothing was changed")
		return nil
	}
	fmt.Fprint(a.out, ask.Visible(difference(string(before), string(text))))
	if ok, err := a.confirm("Save this?"); err != nil || !ok {
		return &exitError{1, errors.Join(errors.New("nothing was changed"), err)}
	}
	return a.saveRules(d, name, before, text, fresh)
}

// saveRules puts text in the place of name, unless it has changed meanwhile,
// and lets what loosens come into force when the person says so.
func (a *app) saveRules(d session.Dirs, name string, before, text []byte, fresh bool) error {
	for _, dir := range []string{d.Config, filepath.Dir(name)} {
		if err := host.MakeDir(dir); err != nil {
			return &exitError{2, err}
		}
	}
	if is, err := os.ReadFile(name); fresh != errors.Is(err, fs.ErrNotExist) || !bytes.Equal(is, before) {
		return &exitError{1, fmt.Errorf("%s was changed by somebody else meanwhile; nothing was saved", name)}
	}
	// The rules that held are read first, so that what is new is known to be.
	s := a.store(d)
	s.Policy("")
	root, err := os.OpenRoot(filepath.Dir(name))
	if err != nil {
		return &exitError{2, err}
	}
	defer root.Close()
	if err := host.WriteAtomic(root, filepath.Base(name), text, 0o600, true); err != nil {
		return &exitError{2, err}
	}
	p := s.Pending()
	if p == nil {
		if err := s.Problem(); err != nil {
			return &exitError{1, err}
		}
		fmt.Fprintln(a.out, "saved, and in force")
		return nil
	}
	fmt.Fprintln(a.out, "saved; what tightens is in force, this loosens:")
	return a.applyShown(d, s, p, false)
}

// editor runs the person's editor on a file.
func (a *app) editor(ctx context.Context, name string) error {
	editor := "vi"
	for _, v := range []string{"VISUAL", "EDITOR"} {
		if e := os.Getenv(v); e != "" {
			editor = e
			break
		}
	}
	// The variable may hold options, as for other programs.
	c := exec.CommandContext(ctx, "/bin/sh", "-c", editor+` "$1"`, "editor", name)
	c.Stdin, c.Stdout, c.Stderr = a.in, a.out, a.err
	return c.Run()
}

// difference shows which lines went and came, with one line around them.
func difference(before, after string) string {
	x, y := strings.Split(strings.TrimSuffix(before, "\n"), "\n"), strings.Split(strings.TrimSuffix(after, "\n"), "\n")
	if before == "" {
		x = nil
	}
	start := 0
	for start < len(x) && start < len(y) && x[start] == y[start] {
		start++
	}
	end := 0
	for end < len(x)-start && end < len(y)-start && x[len(x)-1-end] == y[len(y)-1-end] {
		end++
	}
	var b strings.Builder
	for _, l := range common(x[start:len(x)-end], y[start:len(y)-end]) {
		b.WriteString(l + "\n")
	}
	return b.String()
}

// common are the lines of two texts: "-" only before, "+" only after, and "  "
// in both. Texts too long to be compared are told as gone and come.
func common(x, y []string) (out []string) {
	const most = 4 << 20
	if len(x)*len(y) > most {
		for _, l := range x {
			out = append(out, "- "+l)
		}
		for _, l := range y {
			out = append(out, "+ "+l)
		}
		return out
	}
	// longest[i][k] is the length of the longest list of lines that x from i
	// and y from k share.
	longest := make([][]int, len(x)+1)
	for i := range longest {
		longest[i] = make([]int, len(y)+1)
	}
	for i := len(x) - 1; i >= 0; i-- {
		for k := len(y) - 1; k >= 0; k-- {
			if x[i] == y[k] {
				longest[i][k] = longest[i+1][k+1] + 1
			} else {
				longest[i][k] = max(longest[i+1][k], longest[i][k+1])
			}
		}
	}
	i, k := 0, 0
	for i < len(x) || k < len(y) {
		switch {
		case i < len(x) && k < len(y) && x[i] == y[k]:
			out = append(out, "  "+x[i])
			i, k = i+1, k+1
		case k == len(y) || i < len(x) && longest[i+1][k] >= longest[i][k+1]:
			out = append(out, "- "+x[i])
			i++
		default:
			out = append(out, "+ "+y[k])
			k++
		}
	}
	return out
}
