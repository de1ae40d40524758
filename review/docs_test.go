package review

import (
	"os"
	"strings"
	"testing"
)

// Every event and every key is in the documentation, under its class.
func TestDocumentationNamesEverything(t *testing.T) {
	raw, err := os.ReadFile("../docs/review-log.md")
	if err != nil {
		t.Fatal(err)
	}
	doc := string(raw)
	for _, n := range Names() {
		if !strings.Contains(doc, "`"+string(n)+"`") {
			t.Errorf("event %s is not described", n)
		}
	}
	rows := map[Class]string{}
	for line := range strings.Lines(doc) {
		for class, start := range map[Class]string{Public: "| public |", Sensitive: "| sensitive |", Secret: "| secret |"} {
			if strings.HasPrefix(line, start) {
				rows[class] = line
			}
		}
	}
	for _, k := range Keys() {
		for class, row := range rows {
			if got := strings.Contains(row, "`"+string(k)+"`"); got != (ClassOf(k) == class) {
				t.Errorf("key %s: class %d, in the row of %d: %v", k, ClassOf(k), class, got)
			}
		}
	}
	if len(rows) != 3 {
		t.Errorf("%d classes are described", len(rows))
	}
}
