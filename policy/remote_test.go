package policy

import (
	"testing"

	"permd/ask"
)

// A command on another machine is excused for files that are not known here,
// and for nothing else: what its text may run has to be understood, whatever a
// wildcard allows.
func TestRemoteTextIsUnderstood(t *testing.T) {
	p := rules(t, `
[[rule]]
action = "allow"
tool = "bash"

[[rule]]
action = "deny"
command = "npm publish *"

[[rule]]
action = "deny"
command = "rm *"
`)
	for cmd, want := range map[string]ask.Verdict{
		`docker exec web sh -c 'IFS=,; X=npm,publish; $X'`:                           ask.Prompt,
		`docker exec web bash -c 'X='\''$(rm x)'\''; echo "${X@P}"'`:                 ask.Prompt,
		`docker exec web bash -c 'echo "${X:Y:3}"'`:                                  ask.Prompt,
		`docker exec web bash -c 'echo "${!X}"'`:                                     ask.Prompt,
		`docker exec web bash -c 'echo "${X[Y]}"'`:                                   ask.Prompt,
		`docker exec web bash -c "X='a[\$(rm x)]'; ((X))"`:                           ask.Prompt,
		`docker exec web bash -c 'PS4='\''$(rm x)'\''; set -x; ls'`:                  ask.Prompt,
		`docker exec web sh -c 'echo "rm x" > x.sh && . ./x.sh'`:                     ask.Prompt,
		`docker exec web sh -c "printf '%s\n' 'rm x' | xargs -I{} sh -c '{}'"`:       ask.Prompt,
		`docker exec web sh -c 'rm x'`:                                               ask.Deny,
		`ssh host "npm publish --tag x"`:                                             ask.Deny,
		`docker exec web sh -c 'ls -la *.go ~/x && echo "$HOME" "$X" ${Y:-a} | cat'`: ask.Allow,
		`ssh host 'cd /srv && git log --oneline | head'`:                             ask.Allow,
		`docker exec web npm test`:                                                   ask.Allow,
		`kubectl exec pod -- env A=1 npm test`:                                       ask.Allow,
	} {
		a := action(ask.ToolBash, "Bash")
		a.Command = cmd
		if r := Decide(input(p, a)); r.Verdict != want {
			t.Errorf("%s: %s, want %s\n%+v", cmd, r.Verdict, want, r.Reasons)
		}
	}
}
