package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"permd/api/hookwire"
	"permd/node"
	"permd/session"
)

const top = "../.."

func readDoc(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(top, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// docs are README.md and everything below docs.
func docs(t *testing.T) []string {
	t.Helper()
	names := []string{"README.md"}
	err := filepath.WalkDir(filepath.Join(top, "docs"), func(path string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".md") {
			rel, rerr := filepath.Rel(top, path)
			names, err = append(names, rel), rerr
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// fences are the blocks of a language, without their comments.
func fences(doc, language string) []string {
	var blocks []string
	for i, part := range strings.Split(doc, "```") {
		if body, ok := strings.CutPrefix(part, language+"\n"); ok && i%2 == 1 {
			blocks = append(blocks, body)
		}
	}
	return blocks
}

// tree is the command tree with what cobra adds when it runs.
func tree() *cobra.Command {
	root := (&app{}).command()
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd("")
	return root
}

// tryCommand checks a permd command line as the real command tree would,
// short of running it.
func tryCommand(t *testing.T, where string, args []string) {
	t.Helper()
	root := tree()
	c, rest, err := root.Find(args)
	if err != nil || c == root || c.Hidden {
		t.Errorf("%s: permd %s: no such command", where, strings.Join(args, " "))
		return
	}
	if err := c.ParseFlags(rest); err != nil {
		t.Errorf("%s: permd %s: %v", where, strings.Join(args, " "), err)
		return
	}
	if err := c.ValidateArgs(c.Flags().Args()); err != nil {
		t.Errorf("%s: permd %s: %v", where, strings.Join(args, " "), err)
	}
	if c.HasSubCommands() {
		t.Errorf("%s: permd %s: names a group, not a command", where, strings.Join(args, " "))
	}
}

// Every command line that the documents show is one that exists, with these
// flags and this number of arguments.
func TestCommandsInTheDocumentsExist(t *testing.T) {
	targets := readDoc(t, "Makefile")
	n := 0
	for _, doc := range docs(t) {
		for _, block := range fences(readDoc(t, doc), "sh") {
			for line := range strings.Lines(block) {
				line, _, _ = strings.Cut(line, "#")
				w := strings.Fields(line)
				if len(w) > 0 && w[0] == "sudo" {
					w = w[1:]
				}
				switch {
				case len(w) == 0:
					continue
				case w[0] == "permd":
					tryCommand(t, doc, w[1:])
				case len(w) > 2 && w[0] == "go" && w[1] == "run" && w[2] == "./cmd/permd":
					tryCommand(t, doc, w[3:])
				case w[0] == "make" && len(w) == 2:
					if !strings.Contains(targets, "\n"+w[1]+":") {
						t.Errorf("%s: make %s: no such target", doc, w[1])
					}
				default:
					t.Errorf("%s shows a command that no test knows: %s", doc, line)
				}
				n++
			}
		}
		for _, m := range inline.FindAllStringSubmatch(readDoc(t, doc), -1) {
			if c, _, err := tree().Find(strings.Fields(m[1])); err != nil || !c.HasParent() {
				t.Errorf("%s: `permd %s`: no such command", doc, m[1])
			}
		}
	}
	if n < 10 {
		t.Errorf("only %d commands found: the test is blind", n)
	}
}

// inline is a command in running text; what follows its name is cut.
var inline = regexp.MustCompile("`permd ((?:[a-z]+)(?: [a-z]+)?)[^`]*`")

// The README's table has every command, and nothing else.
func TestTheTableOfCommandsIsComplete(t *testing.T) {
	var rows []string
	for _, m := range regexp.MustCompile("(?m)^\\| `permd ([a-z ]+?)(?: -- CMD)?` \\|").FindAllStringSubmatch(readDoc(t, "README.md"), -1) {
		rows = append(rows, m[1])
	}
	var want []string
	var walk func(c *cobra.Command, path string)
	walk = func(c *cobra.Command, path string) {
		for _, sub := range c.Commands() {
			p := strings.TrimSpace(path + " " + sub.Name())
			switch {
			case sub.Hidden || sub.Name() == "help":
			case sub.Name() == "setup":
				want = append(want, p+" claude")
			case sub.HasSubCommands() && sub.Name() != "completion":
				walk(sub, p)
			default:
				want = append(want, p)
			}
		}
	}
	walk(tree(), "")
	slices.Sort(rows)
	slices.Sort(want)
	if !slices.Equal(rows, want) {
		t.Errorf("the table has %q\ncommands are  %q", rows, want)
	}
}

// The script of help texts has every command.
func TestEveryHelpTextIsTested(t *testing.T) {
	script := readDoc(t, "cmd/permd/testdata/script/help.txtar")
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		line := strings.Replace(c.CommandPath(), "permd", "exec permd help", 1)
		if !strings.Contains(script, line+"\n") {
			t.Errorf("help.txtar lacks: %s", line)
		}
		for _, sub := range c.Commands() {
			if !sub.Hidden && sub.Name() != "help" && sub.Name() != "completion" {
				walk(sub)
			}
		}
	}
	walk(tree())
}

// What is linked inside the repository is there.
func TestLinksLeadSomewhere(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#]+)\)`)
	for _, doc := range docs(t) {
		for _, m := range link.FindAllStringSubmatch(readDoc(t, doc), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			if _, err := os.Stat(filepath.Join(top, filepath.Dir(doc), m[1])); err != nil {
				t.Errorf("%s: %v", doc, err)
			}
		}
	}
}

// T20: the defaults that the documents name are the real ones, and each is the
// strict side.
func TestT20DocumentedDefaults(t *testing.T) {
	blocks := fences(readDoc(t, "README.md"), "toml")
	if len(blocks) != 1 {
		t.Fatalf("%d blocks of settings in README.md", len(blocks))
	}
	lines := strings.Split(strings.TrimSpace(blocks[0]), "\n")
	for skip := -1; skip < len(lines); skip++ { // with all lines, and with each left out
		root := t.TempDir()
		d, err := session.Find(root)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(d.Config, 0o700); err != nil {
			t.Fatal(err)
		}
		text := strings.Join(lines, "\n")
		if skip >= 0 {
			text = strings.Join(slices.Delete(slices.Clone(lines), skip, skip+1), "\n")
		}
		if err := os.WriteFile(filepath.Join(d.Config, "config.toml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := settings(d); err != nil || got != node.Defaults() {
			t.Errorf("documented settings give %+v, %v; the defaults are %+v", got, err, node.Defaults())
		}
	}
	if known := 4; len(lines) != known {
		t.Errorf("%d settings documented, %d known", len(lines), known)
	}
	// A wait without a person ends; too many asks are refused; no prompt is
	// left out that the client would have shown.
	if d := node.Defaults(); d.AskTimeout <= 0 || d.AsksAMinute <= 0 || d.NoClientDialog {
		t.Errorf("a default is lax: %+v", d)
	}
	// No flag is set that changes, removes or skips a question by itself.
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		for _, f := range []string{"yes", "purge", "undo", "system", "auto", "kill-lead", "allow-temporary-path", "live"} {
			if v := c.Flags().Lookup(f); v != nil && v.DefValue != "false" {
				t.Errorf("%s --%s is %s by default", c.CommandPath(), f, v.DefValue)
			}
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(tree())
}

// Every promise of docs/trust.md names tests that exist, where it says.
func TestTrustTableNamesTests(t *testing.T) {
	row := regexp.MustCompile(`(?m)^\| (T[0-9]+) \|(.*)\|$`)
	name := regexp.MustCompile("`(Test[A-Za-z0-9]+|Fuzz[A-Za-z0-9]+)`")
	command := regexp.MustCompile("`(?:CI=true )?(go test [^`]*|make [a-z]+)`")
	doc := readDoc(t, "docs/trust.md")
	seen := map[string]bool{}
	for _, m := range row.FindAllStringSubmatch(doc, -1) {
		seen[m[1]] = true
		tests, commands := name.FindAllStringSubmatch(m[2], -1), command.FindAllStringSubmatch(m[2], -1)
		if len(tests) == 0 || len(commands) == 0 {
			t.Errorf("%s names no test or no command", m[1])
		}
		source := ""
		for _, c := range commands {
			source += testSource(t, c[1])
		}
		for _, x := range tests {
			if !strings.Contains(source, "func "+x[1]+"(") {
				t.Errorf("%s: %s is in none of the packages that its command runs", m[1], x[1])
			}
		}
	}
	for _, want := range []string{"T1", "T3", "T4", "T9", "T11", "T12", "T13", "T15", "T16", "T17", "T18", "T20"} {
		if !seen[want] {
			t.Errorf("%s is missing", want)
		}
	}
}

// testSource is the text of the tests that a command runs.
func testSource(t *testing.T, command string) string {
	t.Helper()
	var dirs []string
	for _, w := range strings.Fields(command) {
		if strings.HasPrefix(w, "./") {
			dirs = append(dirs, filepath.Join(top, w))
		}
	}
	if strings.HasPrefix(command, "make") {
		dirs = []string{top + "/..."}
	}
	var out strings.Builder
	for _, dir := range dirs {
		deep := strings.HasSuffix(dir, "...")
		dir = strings.TrimSuffix(dir, "...")
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				if err == nil && !deep && filepath.Clean(path) != filepath.Clean(dir) {
					return filepath.SkipDir
				}
				return err
			}
			if strings.HasSuffix(path, "_test.go") {
				b, err := os.ReadFile(path)
				out.Write(b)
				return err
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
	return out.String()
}

// docs/protocol-local.md has every word of the socket protocol.
func TestTheProtocolIsDocumentedWhole(t *testing.T) {
	doc := readDoc(t, "docs/protocol-local.md")
	f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(top, "api", "message.go"), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	ast.Inspect(f, func(x ast.Node) bool {
		spec, ok := x.(*ast.ValueSpec)
		if !ok {
			return true
		}
		for _, v := range spec.Values {
			if lit, ok := v.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				word, err := strconv.Unquote(lit.Value)
				if n++; err != nil || !strings.Contains(doc, "`"+word+"`") {
					t.Errorf("%s (%s) is not documented", spec.Names[0], lit.Value)
				}
			}
		}
		return true
	})
	if n < 40 {
		t.Errorf("only %d words found: the test is blind", n)
	}
	for _, v := range hookwire.Names() {
		if !strings.Contains(doc, "`"+v+"`") {
			t.Errorf("the variable %s is not documented", v)
		}
	}
}

// The formats on disk stand in docs/protocol-local.md as they stand beside the
// code that writes them.
func TestTheFormatsAreDocumentedAsTheyAre(t *testing.T) {
	doc := readDoc(t, "docs/protocol-local.md")
	n := 0
	for _, c := range []struct{ file, from, to string }{
		{"forwarding/letter.go", "// Its bytes:", "// Nothing in"},
		{"heartbeat/heartbeat.go", "//	     0     8  ", "//	    48     n"},
		{"api/hookwire/doc.go", "//	\"permd-hook/1", "//	head:"},
	} {
		_, text, ok := strings.Cut(readDoc(t, c.file), c.from)
		text, _, end := strings.Cut(text, c.to)
		if !ok || !end {
			t.Fatalf("%s has no format any more", c.file)
		}
		for line := range strings.Lines(c.from + text) {
			line, ok := strings.CutPrefix(line, "//	")
			if !ok {
				continue
			}
			// Columns may be set otherwise, and a sentence be shortened.
			words := strings.Fields(line)
			for _, w := range words[:min(len(words), 3)] {
				if !strings.Contains(doc, strings.TrimRight(w, ";,")) {
					t.Errorf("%s: %q is not in the document: %s", c.file, w, line)
				}
			}
			n++
		}
	}
	for _, line := range []string{
		"<kind> <id> <origin> <digest> <node> <instance> <session> <node> <instance> <session> <counter> <size>\\n",
	} {
		if !strings.Contains(doc, line) || !strings.Contains(readDoc(t, "forwarding/letter.go"), line) {
			t.Errorf("a letter's line is not the same in both: %s", line)
		}
	}
	facts := string(session.Facts{}.Encode())
	for line := range strings.Lines(facts) {
		if key, _, _ := strings.Cut(line, " "); !strings.Contains(doc, "\n"+key+" ") {
			t.Errorf("the fact %q is not documented", key)
		}
	}
	if n < 8 {
		t.Errorf("only %d lines found: the test is blind", n)
	}
}

// docs/dependencies.md has every module that permd itself imports, and none
// that it does not.
func TestEveryDependencyHasItsReason(t *testing.T) {
	cmd := exec.Command("go", "list", "-e", "-f", `{{join .Imports "\n"}}{{"\n"}}{{join .TestImports "\n"}}{{"\n"}}{{join .XTestImports "\n"}}`, "permd/...")
	cmd.Dir = top
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	imported := map[string]bool{}
	for p := range strings.FieldsSeq(string(out)) {
		if first, _, _ := strings.Cut(p, "/"); strings.Contains(first, ".") {
			imported[p] = true
		}
	}
	mod := readDoc(t, "go.mod")
	documented := map[string]bool{}
	for _, m := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\|").FindAllStringSubmatch(readDoc(t, "docs/dependencies.md"), -1) {
		documented[m[1]] = true
		used := strings.Contains(mod, "tool "+m[1])
		for p := range imported {
			used = used || p == m[1] || strings.HasPrefix(p, m[1]+"/")
		}
		if !used {
			t.Errorf("%s is documented, and nothing imports it", m[1])
		}
	}
	for p := range imported {
		ok := false
		for d := range documented {
			ok = ok || p == d || strings.HasPrefix(p, d+"/")
		}
		if !ok {
			t.Errorf("%s is imported and has no line in docs/dependencies.md", p)
		}
	}
}
