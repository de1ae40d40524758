package shell

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

const secret = "hunter2Zq9"

func TestRedact(t *testing.T) {
	for cmd, want := range map[string]string{
		"ls -la src":                                    "ls -la src",
		"git commit -m 'fix: key handling'":             "git commit -m 'fix: key handling'",
		"API_KEY=hunter2Zq9 x":                          "API_KEY=‹redacted› x",
		"export TOKEN='hunter2Zq9'":                     "export TOKEN=‹redacted›",
		"env DB_PASSWORD=hunter2Zq9 x":                  "env DB_PASSWORD=‹redacted› x",
		"x --password=hunter2Zq9 y":                     "x --password=‹redacted› y",
		"x --password hunter2Zq9 y":                     "x --password ‹redacted› y",
		"x -password=hunter2Zq9 y":                      "x -password=‹redacted› y",
		"x --api-key \"hunter2Zq9\" y":                  "x --api-key ‹redacted› y",
		"x --password-stdin y":                          "x --password-stdin y",
		"x --token-file t y":                            "x --token-file t y",
		"mysql -u root -phunter2Zq9 db":                 "mysql -u root -p‹redacted› db",
		"mysql -p db":                                   "mysql -p db",
		"sudo sshpass -p hunter2Zq9 ssh h":              "sudo sshpass -p ‹redacted› ssh h",
		"mkdir -p build/out":                            "mkdir -p build/out",
		"ssh -p 22 host":                                "ssh -p 22 host",
		"curl -u me:hunter2Zq9 https://h/x":             "curl -u ‹redacted› https://h/x",
		"curl -sSu me:hunter2Zq9 h":                     "curl -sSu ‹redacted› h",
		"curl --user me:hunter2Zq9 h":                   "curl --user me:‹redacted› h",
		"curl https://me:hunter2Zq9@h/x":                "curl https://‹redacted›@h/x",
		"curl https://h/x?a=1&b":                        "curl https://h/x?a=1&b",
		"curl 'https://h/x?a=1&api_key=hunter2Zq9&b=2'": "curl 'https://h/x?a=1&api_key=‹redacted›&b=2'",
		"curl -H 'Authorization: Bearer hunter2Zq9' h":  "curl -H 'Authorization: Bearer ‹redacted›' h",
		"curl -H \"X-Api-Key: hunter2Zq9\" h":           "curl -H \"X-Api-Key: ‹redacted›\" h",
		"curl -H 'Accept: text/html' h":                 "curl -H 'Accept: text/html' h",
		"kubectl create secret generic s --from-literal=password=hunter2Zq9": "kubectl create secret generic s --from-literal=password=‹redacted›",
		"docker run -e TOKEN=hunter2Zq9 img":                                 "docker run -e TOKEN=‹redacted› img",
		"psql -c \"ALTER USER a PASSWORD 'hunter2Zq9'\"":                     "psql -c \"ALTER USER a PASSWORD ‹redacted›\"",
		"echo hunter2Zq9 | docker login --password-stdin":                    "echo ‹redacted› | docker login --password-stdin",
		"echo hunter2Zq9 | sudo -S ls":                                       "echo ‹redacted› | sudo -S ls",
		"echo 'u:hunter2Zq9' | chpasswd":                                     "echo ‹redacted› | chpasswd",
		"bash -c 'TOKEN=hunter2Zq9 x'":                                       "bash -c 'TOKEN=‹redacted› x'",
		"bash -c \"mysql -phunter2Zq9\"":                                     "bash -c 'mysql -p‹redacted›'",
		"python3 -c 'password = \"hunter2Zq9\"'":                             "python3 -c 'password = \"‹redacted›\"'",
		"echo ghp_0123456789abcdefghij":                                      "echo ‹redacted›",
		"git checkout 0123456789abcdef0123456789abcdef01234567":              "git checkout 0123456789abcdef0123456789abcdef01234567",
		"GIT_AUTHOR_NAME=dev git commit":                                     "GIT_AUTHOR_NAME=dev git commit",
		"PWD=/x MONKEY=1 x":                                                  "PWD=/x MONKEY=1 x",
		"x keys=(hunter2Zq9)":                                                "",
	} {
		got := Redact(cmd)
		if want == "" {
			want = Digest(cmd)
		}
		if got != want {
			t.Errorf("%q:\n got %q\nwant %q", cmd, got, want)
		}
	}
}

func TestRedactByDigest(t *testing.T) {
	for _, cmd := range []string{
		"cat <<EOF > x\nhunter2Zq9\nEOF",
		"cat <<'EOF'\nhunter2Zq9\nEOF",
		"cat <<-EOF\n\thunter2Zq9\n\tEOF",
		"x <<< hunter2Zq9",
		"x # hunter2Zq9",
		"# hunter2Zq9\nx",
		"x 'unclosed hunter2Zq9",
		"x\x00 hunter2Zq9",
		strings.Repeat("x hunter2Zq9;", 8000),
		"PASSWORDS=(hunter2Zq9 hunter2Zq9)",
	} {
		got := Redact(cmd)
		if strings.Contains(got, secret) {
			t.Errorf("%.60q: %.80q", cmd, got)
		}
		if !strings.Contains(got, "sha256:") && !strings.Contains(got, Redacted) {
			t.Errorf("%.60q: nothing stands for what was taken out: %.80q", cmd, got)
		}
	}
	if got := Redact("cat <<EOF\nbody\nEOF\nls"); !strings.HasSuffix(got, "EOF\nls") {
		t.Errorf("the rest is lost: %q", got)
	}
}

func TestSecretName(t *testing.T) {
	for name, want := range map[string]bool{
		"TOKEN": true, "GITHUB_TOKEN": true, "apiKey": true, "api-key": true, "AWS_SECRET_ACCESS_KEY": true, "DB_PWD": true, "PGPASSWORD": true,
		"Authorization": true, "npm_config__authToken": true, "SENTRY_DSN": true, "GH_PAT": true, "client_secret": true, "SSH_KEY2": true,
		"PWD": false, "OLDPWD": false, "PATH": false, "MONKEY": false, "AUTHOR": false, "KEYBOARD": false, "HOME": false, "token-file": false,
		"": false, "GIT_AUTHOR_DATE": false, "passing": false, "compass": false, "TOKENIZER_PATH": false,
	} {
		if got := SecretName(name); got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// Wherever a secret stands in one of these forms, the record does not have it.
func TestNoSecretIsLeft(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.StringMatching(`[A-Za-z0-9_]{8,20}`).Draw(t, "secret") + "Qz7"
		name := rapid.SampledFrom([]string{"TOKEN", "MY_API_KEY", "password", "client-secret", "authToken"}).Draw(t, "name")
		env := strings.ReplaceAll(name, "-", "_")
		form := rapid.SampledFrom([]string{
			env + "=%s x", "export " + env + "=\"%s\"", "env " + env + "=%s x", "x --" + name + "=%s", "x --" + name + " '%s' y",
			"curl -H '" + name + ": %s' h", "curl https://u:%s@h/", "curl \"https://h/?a=b&" + name + "=%s\"", "bash -c \"" + env + "='%s' x\"",
			"x <<E\n%s\nE", "x <<<%s", "echo %s | x --password-stdin", "x '{\"" + name + "\": \"%s\"}'", "(a; " + env + "=%s b) | c", "x # %s", "x '%s",
		}).Draw(t, "form")
		before := rapid.SampledFrom([]string{"", "cd x && ", "sudo ", "a | ", "if b; then c; fi; "}).Draw(t, "before")
		cmd := before + fmt.Sprintf(form, s)
		if before == "sudo " && strings.HasPrefix(form, "export") || strings.HasPrefix(form, "(") && before == "sudo " {
			return
		}
		if got := Redact(cmd); strings.Contains(got, s) {
			t.Fatalf("%q: %q", cmd, got)
		}
	})
}

// Redacting twice takes nothing more out.
func TestScrubTwice(t *testing.T) {
	for _, s := range []string{"Authorization: Bearer abcdefghijk", "password=x token: 'y'", "https://a:b@c/d?token=e", "IDENTIFIED BY 'x'", "plain"} {
		once := Scrub(s)
		if twice := Scrub(once); twice != once {
			t.Errorf("%q: %q, then %q", s, once, twice)
		}
	}
}

func BenchmarkRedact(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		Redact("cd packages/core && TOKEN=x go test ./... 2>&1 | grep -v ok | tail -20")
	}
}
