package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	claudeset "permd/clients/claude/settings"
	"permd/desk"
	"permd/internal/host"
	"permd/review"
	"permd/session"
)

func init() { commands = append(commands, uninstallCommand) }

// fileEntry is where a memory of setup keeps the path of its file. Undo
// passes it over.
const fileEntry = "file"

// withFile notes in a memory of setup which file it is about, once.
func withFile(taken []claudeset.Taken, file string) ([]claudeset.Taken, error) {
	for _, t := range taken {
		if t.Where == fileEntry {
			return taken, nil
		}
	}
	b, err := json.Marshal(file)
	if err != nil {
		return nil, err
	}
	return append(taken, claudeset.Taken{Where: fileEntry, Old: b}), nil
}

// setupFiles are the settings files that setup changed and that were not
// undone, as the memories in <state>/setup name them.
func setupFiles(d session.Dirs) ([]string, error) {
	dir := filepath.Join(d.State, "setup")
	names, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var files []string
	for _, n := range names {
		if !strings.HasPrefix(n.Name(), "claude-") || !strings.HasSuffix(n.Name(), ".json") {
			continue
		}
		memo := filepath.Join(dir, n.Name())
		taken, err := readTaken(memo)
		if err != nil {
			return nil, err
		}
		for _, t := range taken {
			var file string
			if t.Where != fileEntry || json.Unmarshal(t.Old, &file) != nil {
				continue
			}
			if !filepath.IsAbs(file) || memoName(file) != n.Name() {
				return nil, fmt.Errorf("%s names a file that it is not about; move it away", memo)
			}
			files = append(files, file)
		}
	}
	return files, nil
}

func memoName(file string) string { return "claude-" + shortName(file) + ".json" }

func uninstallCommand(a *app) *cobra.Command {
	var purge, yes bool
	c := &cobra.Command{
		Use:   "uninstall",
		Short: "Take permd out of the clients again, and with --purge remove what it kept",
		Long: "uninstall takes permd's hooks out of every settings file that setup changed, puts back\n" +
			"what setup took away there, ends the desk and removes what dead nodes left. With\n" +
			"--purge it also removes settings, rules, grants and, last, the record. It removes only\n" +
			"directories of permd. It is refused while an agent runs under permd, since that agent's\n" +
			"hooks would lead nowhere, and to agents themselves.\n\n" +
			"Exit codes: 0 done or nothing to do, 1 refused, not confirmed or not all done.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.uninstall(cmd.Context(), purge, yes)
		},
	}
	c.Flags().BoolVar(&purge, "purge", false, "also remove settings, rules, grants and the record")
	c.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	return c
}

func (a *app) uninstall(ctx context.Context, purge, yes bool) error {
	d, err := a.dirs()
	if err != nil {
		return err
	}
	if err := a.person(d, "permd uninstall"); err != nil {
		return err
	}
	if err := noneAlive(d); err != nil {
		return err
	}
	p, err := planUninstall(d, purge)
	if err != nil {
		return &exitError{1, err}
	}
	if p.empty() {
		fmt.Fprintln(a.out, "nothing to take out")
		a.programs()
		return nil
	}
	p.show(a)
	if !yes {
		if ok, err := a.confirm("Go on?"); err != nil || !ok {
			return &exitError{1, errors.Join(errors.New("nothing was changed"), err)}
		}
	}
	if purge && p.records != "" && !yes {
		if ok, err := a.confirm(p.records + " cannot be made again. Remove it?"); err != nil || !ok {
			return &exitError{1, errors.Join(errors.New("nothing was changed"), err)}
		}
	}
	if err := a.doUninstall(ctx, d, p); err != nil {
		return &exitError{1, err}
	}
	a.programs()
	return nil
}

// noneAlive refuses while nodes live: their agents would go on with hooks
// that lead nowhere, and their records would be written into what is gone.
func noneAlive(d session.Dirs) error {
	nodes, err := livingNodes(d)
	if err != nil {
		return err
	}
	var who []string
	for _, n := range nodes {
		w := n
		if f, err := session.ReadFacts(d.Node(n)); err == nil {
			w = fmt.Sprintf("%s (process %d)", f.Client, f.PID)
		}
		who = append(who, w)
	}
	if len(who) > 0 {
		return &exitError{1, fmt.Errorf("agents run under permd: %s; end them first", strings.Join(who, ", "))}
	}
	return nil
}

// plan is what uninstall is going to do.
type plan struct {
	files   []string // settings files to undo
	desk    bool
	run     bool     // runtime directory to clear
	dirs    []string // directories to remove whole, the record last
	records string   // what the record holds, in words
}

func (p *plan) empty() bool { return len(p.files) == 0 && !p.desk && !p.run && len(p.dirs) == 0 }

func planUninstall(d session.Dirs, purge bool) (*plan, error) {
	p := &plan{}
	var err error
	if p.files, err = setupFiles(d); err != nil {
		return nil, err
	}
	if held, err := host.Held(desk.LockFile(d)); err == nil {
		p.desk = held
	}
	if p.run, err = ours(d.Run); err != nil {
		return nil, err
	}
	if !purge {
		return p, nil
	}
	for _, dir := range []string{d.Config, d.State} {
		have, err := ours(dir)
		if err != nil {
			return nil, err
		}
		if have {
			p.dirs = append(p.dirs, dir)
		}
	}
	if r, err := review.Verify(d.Review()); err == nil {
		var n uint64
		for _, l := range r.Logs {
			n += l.Records
		}
		p.records = fmt.Sprintf("the record (%d entries of %d writers, %s)", n, len(r.Logs), r.Status)
	}
	return p, nil
}

// ours says whether dir is there; one that is not a private directory of ours
// is an error and never removed.
func ours(dir string) (bool, error) {
	err := host.CheckDir(dir, 0o700)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

func (p *plan) show(a *app) {
	for _, f := range p.files {
		fmt.Fprintf(a.out, "undo    %s\n", f)
	}
	if p.desk {
		fmt.Fprintln(a.out, "end     the desk process")
	}
	if p.run {
		fmt.Fprintln(a.out, "clear   what dead nodes left")
	}
	for _, dir := range p.dirs {
		fmt.Fprintf(a.out, "remove  %s\n", dir)
	}
	if p.records != "" {
		fmt.Fprintf(a.out, "with    %s\n", p.records)
	}
}

// doUninstall goes on past a failure, so that one file that cannot be changed
// keeps nothing else in place but what is needed to try again.
func (a *app) doUninstall(ctx context.Context, d session.Dirs, p *plan) error {
	var failed error
	for _, f := range p.files {
		if err := a.setup(setupOptions{undo: true, yes: true, file: f}); err != nil {
			failed = errors.Join(failed, err)
		}
	}
	if p.desk {
		if err := a.stopDesk(ctx, d); err != nil {
			failed = errors.Join(failed, err)
		}
	}
	if failed != nil {
		return fmt.Errorf("%w; nothing was removed, call uninstall again", failed)
	}
	if p.run {
		if err := clearRun(d); err != nil {
			return err
		}
	}
	for _, dir := range p.dirs {
		if err := removeKeeping(dir, d.Review()); err != nil {
			return err
		}
	}
	// The record goes last: it says what was done up to here.
	for _, dir := range p.dirs {
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
		fmt.Fprintf(a.out, "removed %s\n", dir)
	}
	if d.Root != "" && len(p.dirs) > 0 {
		os.Remove(d.Root) // only if nothing else is in it
	}
	return nil
}

// clearRun removes the runtime directory unless a node was started meanwhile.
// Who starts one holds start.lock, and so do we.
func clearRun(d session.Dirs) error {
	start, err := host.TryLock(filepath.Join(d.Run, "start.lock"))
	if err != nil {
		return fmt.Errorf("an agent is just starting under permd; end it and call uninstall again: %w", err)
	}
	defer start.Close()
	if err := noneAlive(d); err != nil {
		return err
	}
	if _, err := session.ReapLocked(d); err != nil {
		return err
	}
	return os.RemoveAll(d.Run)
}

// removeKeeping removes everything in dir but keep.
func removeKeeping(dir, keep string) error {
	names, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, n := range names {
		if path := filepath.Join(dir, n.Name()); path != keep {
			if err := os.RemoveAll(path); err != nil {
				return err
			}
		}
	}
	return nil
}

// programs says what is left: permd does not remove the files it runs from.
func (a *app) programs() {
	if hook, err := hookBeside(false); err == nil {
		dir := filepath.Dir(hook)
		fmt.Fprintf(a.out, "the programs stay: rm %s %s\n", shellWord(filepath.Join(dir, "permd")), shellWord(hook))
	}
}

// shellWord quotes s for a shell if it needs it.
func shellWord(s string) string {
	if strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+,:@%") == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
