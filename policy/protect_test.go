package policy

import (
	"strings"
	"testing"

	"permd/ask"
	"permd/policy/paths"
)

var self = &Self{
	Config: home + "/.config/permd", State: home + "/.local/state/permd", Run: "/run/user/1000/permd", Managed: "/etc/permd/policy.d",
	Binaries: []string{home + "/.local/bin/permd", home + "/.local/bin/permd-hook"}, PIDs: []int{4242, 4243}, Panes: []string{"%7"},
}

// everything is a policy that would allow what it can.
const everything = `default = "allow"
[[rule]]
action = "allow"
tool = "bash"
[[rule]]
action = "allow"
tool = "read"
[[rule]]
action = "allow"
tool = "write"
[[rule]]
action = "allow"
tool = "task"
`

func protectedDecision(t *testing.T, a *ask.Action) Result {
	in := input(Compile(file(t, "p", everything, LayerUser)), a)
	in.Self = self
	return Decide(in)
}

func TestSelfProtectionDenies(t *testing.T) {
	for _, cmd := range []string{
		// permd's own commands
		"permd desk", "permd grant --last", "permd mode yolo --for 1h", "permd trust", "permd setup claude", "permd remote pair", "permd stop", "permd pause 30m",
		"permd uninstall", "permd policy apply", "permd policy edit", "permd policy grants revoke x", "permd demo", "permd nonsense", "permd --root /x desk", "permd --root=/x grant",
		"/usr/bin/permd desk", "./permd desk", home + "/.local/bin/permd desk", "'permd' desk", "p\\ermd desk", "sudo permd desk", "env A=1 permd desk", "nohup permd desk &",
		"ls; permd desk", "true && permd trust", "echo $(permd grant)", "echo y | permd grant", "(permd stop)", "if true; then permd stop; fi", "f() { permd stop; }; f",
		"sh -c 'permd desk'", "bash -lc \"cd x && permd grant\"", "eval 'permd trust'", "xargs permd grant", "find . -exec permd grant {} +", "timeout 5 permd desk",
		"P=permd; $P desk", "{permd,desk}", "$'permd' desk", "script -c 'permd desk' /dev/null", "bash <<E\npermd grant\nE", "permd run -- permd desk", "npx permd desk", "echo 'unclosed; permd desk",
		// its files
		"rm -rf ~/.config/permd", "rm " + home + "/.config/permd/policy.toml", "echo x > ~/.config/permd/policy.toml", "cp x ~/.config/permd/policy.d/a.toml", "tee ~/.config/permd/policy.toml",
		"sed -i s/deny/allow/ ~/.config/permd/policy.toml", "python3 edit.py ~/.config/permd/policy.toml", "vim ~/.config/permd/policy.toml", "cat ~/.local/state/permd/identity", "ls /run/user/1000/permd",
		"nc -U /run/user/1000/permd/nodes/x/sock", "curl --unix-socket /run/user/1000/permd/desk/sock x", "socat - UNIX-CONNECT:/run/user/1000/permd/desk/sock", "rm -rf ~", "rm -rf ~/.config", "mv ~/.local/state x",
		"mv ~/.local/bin/permd x", "cp evil ~/.local/bin/permd", "ln -sf evil ~/.local/bin/permd-hook", "chmod -x ~/.local/bin/permd", "rm -r .permd", "echo > .permd/policy.toml", "cd ~/.config && rm -rf permd",
		"cd ~ && rm -rf .config/permd", "truncate -s 0 /etc/permd/policy.d/a.toml", "find ~/.config -delete", "rsync --delete x/ ~/.config/",
		// its processes
		"kill 4242", "kill -9 4242", "kill -TERM 4243 1", "kill -9 -4242", "kill -9 -1", "pkill permd", "pkill -f permd", "pkill -9 perm", "pkill -f 'permd node'", "pkill -f 'local/bin/permd'", "killall permd", "killall -r 'per.*'",
		"killall -9 permd-hook", "pkill -u dev", "kill $(pgrep permd)", "pgrep permd | xargs kill", "pidof permd | xargs kill -9", "kill `cat x; pgrep -f permd`", "sudo pkill permd",
		// the clients' settings
		"rm ~/.claude/settings.json", "echo '{}' > .claude/settings.json", "cp x .claude/settings.local.json", "sed -i x sub/.claude/settings.json", "mv .claude/hooks x", "rm -rf ~/.claude", "touch ~/.claude/plugins/x",
		"echo > ~/.claude.json", "cp x ~/.codex/hooks.json", "rm -rf ~/.codex", "tee .codex/config.toml", "echo > ~/.gemini/settings.json", "echo > .gemini/settings.json", "cp x ~/.config/opencode/opencode.json", "echo > opencode.json",
		"cp x .opencode/plugin/y.js", "rm -rf ~/.pi/agent/extensions", "tee /etc/claude-code/managed-settings.json", "rm /etc/codex/requirements.toml", "cd .claude && rm settings.json",
		// start files of the shell
		"echo x >> ~/.bashrc", "tee -a ~/.zshrc", "cp x ~/.profile", "echo x > ~/.config/fish/config.fish", "cat x >> $HOME/.bash_profile", "cat x >> \"${HOME}/.zshenv\"", "cd ~ && echo x >> .bashrc",
		// agents with permd off
		"claude --bare", "claude -p x --bare", "claude --safe-mode", "claude --setting-sources project", "claude --setting-sources=user", "claude --settings '{\"disableAllHooks\":true}' -p x",
		"claude --settings='{\"disableAllHooks\": true}'", "npx -y @anthropic-ai/claude-code --bare", "npx @anthropic-ai/claude-code@2.1 --bare", "codex --disable hooks exec x", "codex --disable=hooks", "codex -c features.hooks=false",
		"codex exec -c 'features.hooks = false' x", "opencode --pure run x", "pi -ne", "permd run -- claude --bare", "sh -c 'claude --bare'", "env claude --bare", "ls | claude --bare",
		"CLAUDE_CONFIG_DIR=/tmp/x claude", "CODEX_HOME=/tmp/x codex", "env CLAUDE_CONFIG_DIR=/tmp/x claude", "export CLAUDE_CONFIG_DIR=/tmp/x; claude", "export CODEX_HOME=/x", "HOME=/tmp/x claude -p y", "XDG_CONFIG_HOME=/x opencode",
		"sudo CODEX_HOME=/x codex", "CLAUDE_CONFIG_DIR=/x",
		"claude --restricted -p x", "claude --settings off.json -p x", "claude --settings '{\"\\u0064isableAllHooks\":true}'", "claude --settings '{\"env\":{\"CLAUDE_CODE_SIMPLE\":\"1\"}}' -p x", "CLAUDE_CODE_SIMPLE=1 claude -p x", "env CLAUDE_CODE_SAFE_MODE=1 claude -p x",
		"export CLAUDE_CODE_RESTRICTED=1", "sudo CLAUDE_CODE_SIMPLE=1 claude",
		// a desk's own pane
		"tmux send-keys -t %7 y Enter", "tmux send-keys -t%7 y", "tmux pipe-pane -t %7 x",
	} {
		r := protectedDecision(t, bash(cmd))
		if r.Verdict != ask.Deny || r.By.Kind != ask.KindProtection || r.Reason == "" || r.Grantable {
			t.Errorf("%q: %s by %s: %s", cmd, r.Verdict, r.By.Kind, r.Reason)
		}
	}
	for _, a := range []*ask.Action{
		onFile(ask.ToolWrite, home+"/.config/permd/policy.toml"), onFile(ask.ToolEdit, "~/.config/permd/policy.d/x.toml"), onFile(ask.ToolRead, home+"/.local/state/permd/grants/x.json"),
		onFile(ask.ToolWrite, ".claude/settings.local.json"), onFile(ask.ToolEdit, home+"/.claude/settings.json"), onFile(ask.ToolWrite, ".permd/policy.toml"), onFile(ask.ToolWrite, home+"/.bashrc"),
		onFile(ask.ToolWrite, "/proc/self/root"+home+"/.bashrc"), onFile(ask.ToolWrite, "../.bashrc"), onFile(ask.ToolWrite, home+"/.local/bin/permd"), onFile(ask.ToolEdit, "a.go", ".claude/hooks/x.sh"), fetch("file://" + home + "/.local/state/permd/x"),
	} {
		if r := protectedDecision(t, a); r.Verdict != ask.Deny || r.By.Kind != ask.KindProtection {
			t.Errorf("%s %+v %s: %s by %s", a.Tool, a.Paths, a.URL, r.Verdict, r.By.Kind)
		}
	}
}

// What only speaks of such things is not denied.
func TestSelfProtectionHasNoFalseDenials(t *testing.T) {
	for _, cmd := range []string{
		"echo 'permd desk'", "echo \"; permd desk\"", "git commit -m 'fix: permd grant and ~/.bashrc'", "grep -rn 'permd desk' .", "grep -rn CLAUDE_CONFIG_DIR=x src", "# permd desk\nls", "ls # permd desk",
		"cat <<'E'\npermd desk\nE", "cat > notes.md <<'E'\nrun permd desk; then rm -rf ~/.claude\nE", "permd status", "permd policy explain 'permd desk'", "permd ask 'shall I stop?'", "permd review tail", "permd doctor", "permd run -- ls", "permd",
		"which permd", "ls ~/.config/permd", "cat ~/.config/permd/policy.toml", "cat ~/.bashrc", "cat ~/.claude/settings.json", "ls ~/.claude", "git diff .claude/settings.json", "git add .claude/settings.json", "head ~/.codex/config.toml",
		"kill 1", "kill -9 99", "kill %1", "pkill node", "pkill -f vite", "killall node", "pgrep permd", "ps aux", "kill $(pgrep node)", "pkill -u dev node",
		"rm -rf build", "rm -rf .cache", "mv a b", "rm -rf " + proj + "/dist", "touch .claude/commands/x.md", "mkdir -p .claude/commands", "cp x .claude/agents/y.md", "echo x > CLAUDE.md", "rm .claude/commands/x.md",
		"claude -p x", "claude --settings '{\"model\":\"opus\"}' -p x", "codex exec x", "HOME=/tmp/x go test", "XDG_CONFIG_HOME=/x ls", "npm run bare", "go run . --bare", "mytool --pure", "tmux ls", "tmux capture-pane -p -t %7", "ssh host permd desk", "docker exec web permd stop",
		"python3 ~/.claude/plugins/cache/x/run.py", "node ~/.claude/plugins/x.js", "python3 -c 'print(\"permd desk\")'", "echo $HOME/.bashrc", "printf '%s' ~/.zshrc", "find . -name .bashrc", "grep x ~/.zshrc",
	} {
		if r := protectedDecision(t, bash(cmd)); r.Verdict == ask.Deny {
			t.Errorf("%q: %s: %s", cmd, r.Verdict, r.Reason)
		}
	}
}

func TestProtectedByAnotherName(t *testing.T) {
	view := paths.Fixed{Links: map[string]string{proj + "/cfg": home + "/.config/permd", home + "/.config": "/data/config", proj + "/b": home + "/.bashrc"}}
	mine := NewSelf(*self, view)
	for _, cmd := range []string{"echo x > cfg/policy.toml", "rm /data/config/permd/policy.toml", "echo x >> b", "cp x b"} {
		in := input(Compile(), bash(cmd))
		in.View, in.Self = view, mine
		if r := Decide(in); r.Verdict != ask.Deny {
			t.Errorf("%q: %s", cmd, r.Verdict)
		}
	}
	in := input(Compile(), onFile(ask.ToolWrite, strings.ToUpper(home)+"/.BASHRC"))
	in.Self = self
	if r := Decide(in); r.Verdict == ask.Deny {
		t.Errorf("another file: %s", r.Verdict)
	}
	in.Fold = true
	if r := Decide(in); r.Verdict != ask.Deny {
		t.Errorf("the same file where case does not count: %s", r.Verdict)
	}
}

// Nothing lifts self-protection: no rule, however exact, and no grant.
func TestNothingLiftsSelfProtection(t *testing.T) {
	p := Compile(file(t, "p", "[[rule]]\naction = \"allow\"\ncommand = \"rm -rf "+home+"/.claude\"\n[[rule]]\naction = \"allow\"\ntool = \"write\"\npath = \"~/.bashrc\"\n", LayerManaged))
	for _, a := range []*ask.Action{bash("rm -rf " + home + "/.claude"), onFile(ask.ToolWrite, home+"/.bashrc")} {
		if r := decide(p, a); r.Verdict != ask.Deny || r.By.Kind != ask.KindProtection {
			t.Errorf("%s by %s", r.Verdict, r.By.Kind)
		}
	}
}

// What runs later or drives a terminal asks in spite of rules with a pattern,
// and no grant is offered.
func TestLater(t *testing.T) {
	for _, cmd := range []string{
		"tmux send-keys -t 1 x Enter", "tmux -L s send x", "tmux pipe-pane x", "tmux run-shell x", "tmux new-session -d x", "tmux ls \\; send-keys x", "tmux", "screen -X stuff x", "screen", "zellij action write 1", "zellij run x",
		"xdotool type x", "at now", "batch", "crontab x", "crontab -e", "systemd-run x", "systemctl --user enable x", "launchctl load x", "osascript -e x", "gdb -p 12", "gdb a 12", "strace -p 12", "strace -fp12", "kitty @ send-text x", "wezterm cli send-text x",
		"docker run -v /:/host img", "docker run --privileged img", "docker run --mount type=bind,src=/,dst=/h img", "docker run -v./x:/y img", "docker run --pid=host img", "podman run -v ~/x:/x img", "nohup at now", "sudo crontab -r",
		"git config core.hooksPath x", "git config --global alias.x '!y'", "git config core.pager x", "git config -e", "git -C sub config core.fsmonitor x", "git config include.path x",
		"cp x .git/hooks/pre-commit", "tee .git/config", "touch .envrc", "cp x .mcp.json", "python3 gen.py .vscode/tasks.json", "mv x .github/workflows/ci.yml", "cp x .husky/pre-commit", "tee .gitlab-ci.yml", "touch sub/.git", "cp x ~/.ssh/authorized_keys",
		"cp x ~/.config/systemd/user/x.service", "cp x ~/.gitconfig",
	} {
		r := protectedDecision(t, bash(cmd))
		if r.Verdict != ask.Prompt || r.Grantable || r.Reason == "" {
			t.Errorf("%q: %s, grantable %v: %s", cmd, r.Verdict, r.Grantable, r.Reason)
		}
	}
	for _, name := range []string{".git/hooks/pre-commit", ".git/config", ".envrc", ".mcp.json", ".vscode/tasks.json", ".github/workflows/ci.yml", "Jenkinsfile", ".git", "sub/.husky/x", home + "/.ssh/config", "/etc/cron.d/x"} {
		r := protectedDecision(t, onFile(ask.ToolWrite, name))
		if r.Verdict != ask.Prompt || r.Grantable {
			t.Errorf("write %s: %s, grantable %v", name, r.Verdict, r.Grantable)
		}
	}
	for _, cmd := range []string{"tmux ls", "tmux capture-pane -p", "crontab -l", "docker run img", "docker run -v data:/x img", "systemctl status x", "gdb a", "git config user.name x", "git config --get core.pager", "git config --list", "screen -ls", "docker ps", "at.sh", "cat .git/config", "git add .github/workflows/ci.yml"} {
		if r := protectedDecision(t, bash(cmd)); r.Verdict != ask.Allow {
			t.Errorf("%q: %s: %s", cmd, r.Verdict, r.Reason)
		}
	}
	for _, name := range []string{".github/README.md", ".vscode/notes.md", "src/.gitkeep", "git/config", ".gitignore"} {
		if r := protectedDecision(t, onFile(ask.ToolWrite, name)); r.Verdict != ask.Allow {
			t.Errorf("write %s: %s: %s", name, r.Verdict, r.Reason)
		}
	}
	exact := Compile(file(t, "p", "[[rule]]\naction = \"allow\"\ncommand = \"tmux send-keys -t build make Enter\"\n[[rule]]\naction = \"allow\"\ntool = \"write\"\npath = \".github/workflows/ci.yml\"\n", LayerUser))
	for _, a := range []*ask.Action{bash("tmux send-keys -t build make Enter"), onFile(ask.ToolWrite, ".github/workflows/ci.yml")} {
		if r := decide(exact, a); r.Verdict != ask.Allow {
			t.Errorf("by a rule for exactly this: %s: %s", r.Verdict, r.Reason)
		}
	}
}

// A rule with a star does not cover options that run or write something else.
func TestEscapes(t *testing.T) {
	for _, cmd := range []string{
		"git -c core.pager=x log", "git -calias.x='!y' x", "git --exec-path=/x log", "git clone 'ext::sh -c id' x", "git fetch --upload-pack=x", "git rebase -x y", "git diff --ext-diff", "git log --output=x",
		"tar -cf x --checkpoint-action=exec=y", "tar --to-command=x", "tar -xIx f", "rg --pre x y", "sort -o x y", "sort -uo x", "find . -delete", "find . -fprint x", "go test -exec x", "go build -toolexec x", "npm run x --script-shell=y", "rsync -e x a b",
		"env LD_PRELOAD=./x.so ls", "env PATH=. ls", "sudo GIT_SSH=x git fetch", "ssh -o ProxyCommand=x h", "ssh -oProxyCommand=x h", "scp -S x a b", "sed -i s/a/b/ x", "sed 's/a/b/w x' y", "sed '1e x' y", "sed -e 'w x' y", "awk 'BEGIN{system(\"x\")}'", "awk '{print > \"x\"}'", "make SHELL=x", "vim -c x", "curl -K x", "less -o x y", "tree -o x",
	} {
		r := protectedDecision(t, bash(cmd))
		if r.Verdict != ask.Prompt {
			t.Errorf("%q: %s: %s", cmd, r.Verdict, r.Reason)
		}
	}
	for _, cmd := range []string{"git log -p", "git commit -m 'a -c b'", "git rebase -i HEAD~2", "tar -czf x.tgz src", "rg foo", "sort -u x", "find . -name x", "go test ./...", "npm run x", "rsync -av a b", "ssh h", "ssh h uptime", "ssh h 'a; b | c'", "docker exec web sh -c 'a; b'", "env TZ=UTC date", "env LC_ALL=C ls", "sed 's/where/we/' x", "sed -n 5p x", "awk '{print $1}' x", "make test", "vim x", "curl -sSL https://x.org"} {
		if r := protectedDecision(t, bash(cmd)); r.Verdict != ask.Allow {
			t.Errorf("%q: %s: %s", cmd, r.Verdict, r.Reason)
		}
	}
}

func TestAgentsAreTasks(t *testing.T) {
	const bashAll = "[[rule]]\naction = \"allow\"\ntool = \"bash\"\n"
	for _, c := range []struct {
		rules, cmd string
		want       ask.Verdict
	}{
		{bashAll, "claude -p x", ask.Prompt},
		{bashAll, "npx -y @anthropic-ai/claude-code -p x", ask.Prompt},
		{bashAll, "permd run -- codex exec x", ask.Prompt},
		{"[[rule]]\naction = \"allow\"\ntool = \"task\"\nagent = \"claude\"\n", "claude -p x", ask.Allow},
		{"[[rule]]\naction = \"allow\"\ntool = \"task\"\nagent = \"claude\"\n", "./claude -p x", ask.Prompt},
		{"[[rule]]\naction = \"allow\"\ntool = \"task\"\nagent = \"claude\"\n", "npx claude -p x", ask.Prompt},
		{bashAll + "[[rule]]\naction = \"allow\"\ntool = \"task\"\nagent = \"claude\"\n", "claude -p x", ask.Allow},
		{bashAll + "[[rule]]\naction = \"allow\"\ntool = \"task\"\nagent = \"claude\"\n", "permd run -- claude -p x", ask.Allow},
		{bashAll + "[[rule]]\naction = \"allow\"\ntool = \"task\"\nagent = \"claude\"\n", "codex exec x", ask.Prompt},
		{"[[rule]]\naction = \"allow\"\ncommand = \"claude -p *\"\n", "claude -p x", ask.Allow},
		{"[[rule]]\naction = \"allow\"\ncommand = \"claude -p x\"\n[[rule]]\naction = \"deny\"\ntool = \"task\"\n", "claude -p x", ask.Deny},
		{"", "claude -p x", ask.Prompt},
	} {
		if r := decide(Compile(file(t, "p", c.rules, LayerUser)), bash(c.cmd)); r.Verdict != c.want {
			t.Errorf("%q under %q: %s, want %s: %s", c.cmd, c.rules, r.Verdict, c.want, r.Reason)
		}
	}
}
