package policy

import (
	"math/rand/v2"
	"slices"
	"strings"
)

// wholes write all words of a command, or its program, in one way that the
// shell puts together again. %w stands for all words, %p for the program, %a
// for its arguments, %q for all words as one quoted text, %P and %Q for the
// first letter of the program and for the rest of it.
var wholes = []string{
	"IFS=,; X=%,; $X", "set -- %w; \"$@\"", "set -- %w; $*", "A=(%w); \"${A[@]}\"", "A=(%w); ${A[*]}", "X=%q; $X", "X=%q; Y=X; ${!Y}", "X=z%q; ${X#z}", "X=z%q; ${X:1}", "X=%q; ${X/zz/}", "X=%q; eval $X", "X=%q; eval \"$X\"",
	"declare -n R=X; X=%p; $R %a", "X=%P; X+=%Q; $X %a", "X=%P Y=%Q; $X$Y %a", "for X in %p; do $X %a; done", "for X in %w; do Y+=\" $X\"; done; $Y", "f() { \"$@\"; }; f %w", "f() { $1 %a; }; f %p", "f() { local c=%p; $c %a; }; f", "%p() { command %p \"$@\"; }; %w",
	"mapfile -t A <<< %p; $A %a", "read -ra A <<< %q; \"${A[@]}\"", "read X <<< %p; $X %a", "case x in x) X=%p;; esac; $X %a", "[ -n x ] && X=%p; $X %a", "if true; then X=%p; else X=ls; fi; $X %a", "X=ls; eval 'X=%p'; $X %a", "X=ls; X=%p true; X=%p; $X %a", "X=ls; while read X; do $X %a; done <<< %p",
	"printf -v X %p; $X %a", "getopts x X -x; X=%p; $X %a", "X=$(echo %p); $X %a", "X=`echo %p`; $X %a", "X=$(printf %p) && $X %a", "$(echo %w)", "$(printf '%s ' %w)", "`echo %w`", "$(cat <<< %q)", "$(cat <<'E'\n%w\nE\n)", "eval $(echo %w)", "eval \"$(cat <<'E'\n%w\nE\n)\"",
	"echo %a | xargs %p", "echo %p | xargs -I{} {} %a", "printf '%s\\n' %q | xargs -I{} sh -c '{}'", "echo %w | while read l; do $l; done", "echo %w | while read -r l; do eval \"$l\"; done", "cat <<-E | bash\n\t%w\n\tE", "cat <<E | sh -s\n%w\nE", "echo %q | tee /dev/null | sh", "cat <(echo %q) | sh", "sh <(echo %q)",
	"echo %q > x.sh; sh x.sh", "echo %q > x.sh && . ./x.sh", "echo %q | tee x.sh; bash ./x.sh", "cat > x.sh <<'E'\n%w\nE\nchmod +x x.sh && ./x.sh", "printf 'a:\\n\\t%w\\n' | make -f -", "echo %q | at now", "trap %q EXIT; exit", "trap %q INT EXIT ERR; false", "trap -- %q DEBUG; ls", "bash -c '\"$@\"' _ %w", "bash -c '$0 %a' %p", "sh -c '$1 %a' x %p",
	"env X=%q bash -c '$X'", "X=%q sh -c 'eval \"$X\"'", "X=%q bash -c 'eval $X'", "export X=%q; sh -c '$X'", "exec 3<<< %q; bash <&3", "bash /dev/stdin <<< %q", "source /dev/stdin <<'E'\n%w\nE", ". /dev/fd/3 3<<< %q", "bash -c \"$(rev <<< %r)\"", "rev <<< %r | sh", "echo %r | rev | bash", "eval \"$(rev <<< %r)\"", "xxd -r -p <<< %x | sh", "eval $(xxd -r -p <<< %x)",
	"coproc %w", "coproc X { %w; }", "shopt -s expand_aliases\nalias z=%q\nz", "alias %p='%p '\n%w", "complete -C %q z", "PS4='$(%w)'; set -x; ls", "PROMPT_COMMAND=%q bash -i", "BASH_ENV=<(echo %q) bash -c ls", "ENV=x sh -ic %q", "command_not_found_handle() { %w; }; zzz", "hash -p /bin/%p z; z %a", "enable -n %p; %w", "exec -a x %w", "builtin command %w", "command -- %w", "\\command %w", "'command' '%p' %a",
	"test -v 'a[$(%w)]'", "[[ 'a[$(%w)]' -eq 0 ]]", "[[ -v 'a[$(%w)]' ]]", "X='a[$(%w)]'; echo $((X))", "X='a[$(%w)]'; ((X))", "let 'a[$(%w)]=1'", "printf -v 'a[$(%w)]' x", "unset 'a[$(%w)]'", "read 'a[$(%w)]' <<< x", "declare 'a[$(%w)]=1'", "X='$(%w)'; echo \"${X@P}\"", "a=([$(%w)]=1)", "echo ${a[$(%w)]}", "echo ${a:$(%w)}", "echo ${X:-$(%w)}", "echo ${X:=`%w`}", "echo \"${X//a/$(%w)}\"", "for ((i=$(%w);i<1;i++)); do :; done", "select x in $(%w); do :; done", "case $(%w) in *) ;; esac", "exec {fd}< <(%w)", "cat < <(%w)", "ls 2> >(%w)", "ls > >(%w)", "echo x >& >(%w)",
	"{\n%w\n}", "(\n%w\n)", "if [ x ]\nthen\n%w\nfi", "while :\ndo\n%w\nbreak\ndone", "f()\n{\n%w\n}\nf", "f() if true; then %w; fi\nf", "f() for i in 1; do %w; done\nf", "function f() { %w; }\nf", "time (%w)", "! (%w)", "{ %w; } 2>&1 | cat", "(%w) &", "{ %w; } &", "true && { false || %w; }", "ls; (cd x && { %w; })", "$(:)%w", "${X}%w", "$X %w", "\"\"$X%w", "> x < y %w 2> z", "A=1 B=2 > x %w", "A=$(ls) %w", "[ x ] && [ y ] || %w",
}

// whole writes a command, its words already quoted, in one of these ways.
func whole(r *rand.Rand, words []string) string {
	all := strings.Join(words, " ")
	backwards := []byte(all)
	slices.Reverse(backwards)
	return strings.NewReplacer("%w", all, "%p", words[0], "%a", strings.Join(words[1:], " "), "%q", single(all), "%,", strings.Join(words, ","), "%P", words[0][:1], "%Q", words[0][1:],
		"%r", single(string(backwards)), "%x", hexed(all)).Replace(pick(r, wholes))
}
