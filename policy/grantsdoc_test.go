package policy

import (
	"os"
	"strings"
	"testing"
)

// The rule file in docs/grants.md is read without a fault, and its table has
// every key of an authorizer.
func TestTheAuthorizersOfTheDocument(t *testing.T) {
	raw, err := os.ReadFile("../docs/grants.md")
	if err != nil {
		t.Fatal(err)
	}
	doc := string(raw)
	_, block, ok := strings.Cut(doc, "```toml\n")
	block, _, end := strings.Cut(block, "```")
	if !ok || !end {
		t.Fatal("no rule file")
	}
	f, err := Decode("docs/grants.md", []byte(block), LayerUser)
	if err != nil || len(f.Links) != 1 || f.Links[0].Name != "triage" || f.Links[0].TimeoutMS != 3000 {
		t.Errorf("%+v, %v", f, err)
	}
	for _, k := range linkKeys {
		if !strings.Contains(doc, "| `"+k+"` |") {
			t.Errorf("the key %s is not in the table", k)
		}
	}
	for _, text := range []string{"5 s, at most one minute", "for five minutes"} {
		if !strings.Contains(doc, text) {
			t.Errorf("it does not say %q", text)
		}
	}
	if DefaultLinkTimeout.String() != "5s" || MaxLinkTimeout.String() != "1m0s" {
		t.Error("the times are others")
	}
}
