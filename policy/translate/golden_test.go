package translate

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"permd/policy"
)

var update = flag.Bool("update", false, "write what is translated into testdata")

const work = "/home/dev/proj"

// settings are the files in testdata and where a client has them.
var settings = []struct{ client, file, at string }{
	{"claude", "settings.json", work + "/.claude/settings.json"},
	{"codex", "default.rules", "/home/dev/.codex/rules/default.rules"},
	{"codex", "config.toml", "/home/dev/.codex/config.toml"},
	{"gemini", "settings.json", "/home/dev/.gemini/settings.json"},
	{"gemini", "policy.toml", "/home/dev/.gemini/policies/policy.toml"},
	{"opencode", "opencode.json", "/home/dev/.config/opencode/opencode.json"},
	{"opencode", "last.json", work + "/opencode.json"},
	{"opencode", "open.json", work + "/opencode.jsonc"},
	{"pi", "config.json", "/home/dev/.pi/agent/extensions/pi-permission-system/config.json"},
	{"pi", "deny.json", work + "/.pi/extensions/pi-permission-system/config.json"},
}

func translated(t testing.TB, client, file string) *Result {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", client, file))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range settings {
		if s.client == client && s.file == file {
			r, err := Translate(client, Source{Name: s.at, Data: data})
			if err != nil {
				t.Fatal(err)
			}
			return r
		}
	}
	t.Fatalf("no settings %s of %s", file, client)
	return nil
}

// What realistic settings of each client come to.
func TestGolden(t *testing.T) {
	for _, s := range settings {
		t.Run(s.client+"/"+s.file, func(t *testing.T) {
			r := translated(t, s.client, s.file)
			toml := r.TOML()
			if _, err := policy.Decode("rules.toml", toml, policy.LayerUser); err != nil {
				t.Fatalf("what is translated is no rule file: %v\n%s", err, toml)
			}
			var losses strings.Builder
			for _, l := range r.Losses {
				fmt.Fprintf(&losses, "%s\n    %s\n", l.Entry, l.Why)
			}
			base := filepath.Join("testdata", s.client, s.file)
			for name, got := range map[string]string{base + ".rules.toml": string(toml), base + ".losses.txt": losses.String()} {
				if *update {
					if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
						t.Fatal(err)
					}
				}
				want, err := os.ReadFile(name)
				if err != nil || got != string(want) {
					t.Errorf("%s differs (%v):\n%s", name, err, got)
				}
			}
		})
	}
}
