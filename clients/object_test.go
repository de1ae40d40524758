package clients

import (
	"errors"
	"strings"
	"testing"
)

func TestParseObject(t *testing.T) {
	good := []string{
		`{}`, ` {"a":1} `, `{"a":{"a":{"a":[]}}}`, `{"a":"x","A":"y"}`, `{"a":[{"b":1},{"b":2}]}`, `{"a":[1,"a","a"]}`, `{"a":"b","b":"a"}`,
	}
	for _, s := range good {
		if _, err := ParseObject([]byte(s)); err != nil {
			t.Errorf("%s: %v", s, err)
		}
	}
	bad := map[string]string{
		"empty":            ``,
		"array":            `[]`,
		"null":             `null`,
		"string":           `"a"`,
		"number":           `1`,
		"half":             `{"a":1`,
		"trailing":         `{} {}`,
		"trailing junk":    `{}x`,
		"duplicate":        `{"a":1,"a":2}`,
		"duplicate escape": `{"a":1,"\u0061":2}`,
		"duplicate below":  `{"x":{"a":1,"b":[],"a":2}}`,
		"duplicate array":  `{"x":[{"a":{}, "a":2}]}`,
		"comma":            `{"a":1,}`,
		"deep":             `{"a":` + strings.Repeat("[", MaxDepth) + strings.Repeat("]", MaxDepth) + `}`,
		"comment":          `{"a":1/**/}`,
		"single quotes":    `{'a':1}`,
	}
	for name, s := range bad {
		if o, err := ParseObject([]byte(s)); !errors.Is(err, ErrNative) {
			t.Errorf("%s: %v, %v", name, o, err)
		}
	}
}

func TestObjectText(t *testing.T) {
	o, err := ParseObject([]byte(`{"a":"x","n":null,"i":1}`))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"a": "x", "n": "", "none": "", "A": ""} {
		if got, err := o.Text(name); err != nil || got != want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if _, err := o.Text("i"); !errors.Is(err, ErrNative) {
		t.Errorf("a number passed as text: %v", err)
	}
}

// FuzzParseObject holds that whatever parses has no name twice: parsing what
// was parsed again gives the same members.
func FuzzParseObject(f *testing.F) {
	f.Add([]byte(`{"a":[{"b":"c"}],"d":{"e":null}}`))
	f.Add([]byte(`{"a":1,"a":2}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		o, err := ParseObject(b)
		if err != nil {
			if o != nil {
				t.Fatal("a value with an error")
			}
			return
		}
		for k, v := range o {
			if len(v) > 0 && v[0] == '{' {
				if _, err := ParseObject(v); err != nil {
					t.Fatalf("member %q of an object that parsed does not: %v", k, err)
				}
			}
		}
	})
}
