package policy

import (
	"strings"

	"permd/policy/shell"
)

// gitReader finds the reader for a git command line whose own options move it
// nowhere but within a directory. Git runs what its configuration names;
// permd keeps agents from writing that (see later.go).
func gitReader(args []shell.Word) (*reader, []shell.Word) {
	for len(args) > 0 {
		switch s := args[0].Text; {
		case s == "--no-pager" || s == "-P" || s == "--no-optional-locks" || s == "--literal-pathspecs" || s == "--icase-pathspecs" || s == "--no-replace-objects":
			args = args[1:]
		case s == "-c" && len(args) > 1 && plainSetting(args[1].Text):
			args = args[2:]
		case s == "-C" && len(args) > 1:
			args = args[2:] // package shell has moved the unit's directory
		case s == "--version":
			return versionOnly, args
		case strings.HasPrefix(s, "-"):
			return nil, nil
		default:
			if len(args) > 1 {
				if d := gitReaders[s+" "+args[1].Text]; d != nil {
					return d, args[2:]
				}
			}
			return gitReaders[s], args[1:]
		}
	}
	return nil, nil
}

// plainSetting reports whether a setting changes how git prints, and no more.
func plainSetting(s string) bool {
	key, value, _ := strings.Cut(strings.ToLower(s), "=")
	switch {
	case strings.HasPrefix(key, "color."), strings.HasPrefix(key, "advice."), strings.HasPrefix(key, "column."):
		return true
	case key == "core.pager":
		return value == "cat" || value == ""
	}
	return listed("core.quotepath diff.renames diff.renamelimit diff.colormoved diff.algorithm diff.noprefix diff.mnemonicprefix log.date log.decorate status.short status.branch", key) &&
		value != "" && strings.Trim(value, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
}

const (
	gitDiff = "cached staged stat numstat shortstat dirstat summary name-only name-status patch no-patch patch-with-stat raw patch-with-raw minimal " +
		"patience histogram no-color no-renames check full-index binary abbrev ignore-space-at-eol ignore-space-change ignore-all-space " +
		"ignore-blank-lines function-context exit-code quiet text no-ext-diff no-textconv merge-base cc combined-all-paths no-prefix " +
		"ignore-submodules pickaxe-all pickaxe-regex compact-summary ws-error-highlight indent-heuristic color-words word-diff no-relative"
	gitDiffVal = "color[=] stat[=] unified[=] word-diff[=] word-diff-regex color-words[=] color-moved[=] diff-filter diff-algorithm find-renames[=] " +
		"find-copies[=] relative[=] abbrev[=] submodule[=] src-prefix dst-prefix inter-hunk-context ignore-submodules[=] anchored dirstat[=]"
	gitLog = "oneline graph all decorate no-decorate follow no-merges merges first-parent reverse date-order author-date-order topo-order " +
		"branches tags remotes full-history simplify-merges left-right cherry-mark cherry-pick cherry left-only right-only boundary source " +
		"abbrev-commit no-abbrev-commit parents children relative-date log-size no-walk walk-reflogs full-diff mailmap use-mailmap no-mailmap no-notes invert-grep " +
		"regexp-ignore-case extended-regexp fixed-strings perl-regexp all-match merge no-expand-tabs"
	gitLogVal = "max-count skip since after until before author committer grep pretty[=] format[=] date decorate[=] branches[=] tags[=] remotes[=] " +
		"glob exclude min-parents max-parents no-walk[=] notes[=] decorate-refs decorate-refs-exclude grep-reflog"
)

// openSetting reports whether a setting of git holds no secret.
func openSetting(key string) bool {
	section, _, ok := strings.Cut(strings.ToLower(key), ".")
	return ok && listed("user core branch remote init push pull merge rebase color alias commit fetch diff log status tag", section) && !strings.ContainsAny(key, " \t")
}

// gitReaders are the subcommands that only read, as one or two words.
var gitReaders = map[string]*reader{
	"status": {flags: "sbvz", glued: "u", long: "short branch show-stash long verbose no-renames ahead-behind no-ahead-behind null",
		longVal: "porcelain[=] untracked-files[=] ignored[=] ignore-submodules[=] column[=] find-renames[=]", names: true, cwd: true},
	"log":      {flags: "pusgciEFPwbRazmq", values: "nSGl", files: "L", glued: "MCBU", digits: true, long: gitDiff + " " + gitLog, longVal: gitDiffVal + " " + gitLogVal, cwd: true},
	"show":     {flags: "psgciEFPwbRazmq", values: "nSGl", files: "L", glued: "MCBU", digits: true, long: gitDiff + " " + gitLog, longVal: gitDiffVal + " " + gitLogVal, cwd: true},
	"diff":     {flags: "pusgRabwzqcW", values: "SGl", glued: "MCBU", long: gitDiff, longVal: gitDiffVal, cwd: true},
	"shortlog": {flags: "nsec", long: "numbered summary email " + gitLog, longVal: gitLogVal, cwd: true},
	"blame": {flags: "bcefklnpstw", values: "L", glued: "MC", long: "root show-stats porcelain line-porcelain incremental show-name show-number show-email first-parent color-lines color-by-age",
		longVal: "date since abbrev[=]"},
	"rev-parse": {flags: "q", long: "show-toplevel abbrev-ref verify quiet short git-dir show-prefix show-cdup is-inside-work-tree is-bare-repository symbolic " +
		"symbolic-full-name all branches tags remotes git-common-dir show-superproject-working-tree", longVal: "short[=] abbrev-ref[=]", names: true, cwd: true},
	"ls-files": {flags: "cdmosuktvfz", long: "cached deleted modified others ignored stage unmerged killed directory no-empty-directory exclude-standard full-name error-unmatch deduplicate", longVal: "exclude abbrev[=]", names: true, cwd: true},
	"ls-tree":  {flags: "drtlz", long: "long name-only name-status full-name full-tree object-only", longVal: "abbrev[=] format", names: true, cwd: true},
	"describe": {long: "all tags contains long exact-match always first-parent dirty", longVal: "abbrev[=] match exclude candidates dirty[=]", names: true, cwd: true},
	"branch": {flags: "arvl", long: "all remotes verbose list show-current no-color no-column ignore-case", longVal: "color[=] sort format contains[=] no-contains[=] merged[=] no-merged[=] points-at",
		text: true, check: func(r *reading) bool {
			return len(r.operands) == 0 || r.has("--list --contains --no-contains --merged --no-merged --points-at")
		}},
	"tag": {flags: "l", glued: "n", long: "list no-column ignore-case", longVal: "sort format contains[=] no-contains[=] merged[=] no-merged[=] points-at color[=]", text: true,
		check: func(r *reading) bool {
			return len(r.operands) == 0 || r.has("-l --list --contains --no-contains --merged --no-merged")
		}},
	"remote":         {flags: "v", long: "verbose", none: true},
	"remote get-url": {text: true, long: "push all"},
	"stash list":     {digits: true, values: "n", text: true, long: "oneline"},
	"stash show":     {flags: "pu", text: true, long: "stat patch name-only name-status include-untracked only-untracked"},
	"worktree list":  {none: true, flags: "vz", long: "porcelain verbose"},
	"submodule":      {none: true}, "submodule status": {text: true, long: "cached recursive"},
	"config": {text: true, long: "get get-all get-regexp show-origin show-scope name-only null local global system includes", longVal: "default type", flags: "z", check: func(r *reading) bool {
		return r.has("--get --get-all") && len(r.operands) == 1 && openSetting(r.operands[0].Text)
	}},
	"config get":    {text: true, long: "all show-origin local global system", check: func(r *reading) bool { return len(r.operands) == 1 && openSetting(r.operands[0].Text) }},
	"reflog":        {flags: "", digits: true, values: "n", none: true, long: "oneline all", longVal: "date"},
	"reflog show":   {flags: "", digits: true, values: "n", text: true, long: "oneline all", longVal: "date"},
	"for-each-ref":  {text: true, longVal: "sort format count points-at contains[=] merged[=] no-merged[=]"},
	"show-ref":      {text: true, flags: "ds", long: "heads tags branches head dereference verify hash", longVal: "abbrev[=]"},
	"symbolic-ref":  {text: true, most: 1, flags: "q", long: "quiet short"},
	"count-objects": {none: true, flags: "vH", long: "verbose human-readable"},
	"cherry":        {text: true, flags: "v", longVal: "abbrev[=]"},
	"diff-tree":     {flags: "rtpsz", glued: "MCBU", long: gitDiff + " root no-commit-id", longVal: gitDiffVal, cwd: true},
	"check-attr":    {text: true, flags: "a", long: "all"},
	"notes list":    {text: true}, "bisect log": {none: true},
	"cat-file":     {flags: "tsep", most: 1, cwd: true},
	"rev-list":     {values: "n", digits: true, long: "count " + gitLog, longVal: gitLogVal, names: true, cwd: true},
	"merge-base":   {flags: "a", long: "all is-ancestor fork-point octopus", names: true, cwd: true},
	"name-rev":     {long: "name-only tags all", names: true, cwd: true},
	"check-ignore": {flags: "vnq", long: "verbose non-matching quiet no-index", names: true},
	"grep": {flags: "acEFGhHIilLnPpqvwWz", values: "ABCem", digits: true, script: true, unless: "-e",
		long: "count extended-regexp fixed-strings basic-regexp perl-regexp ignore-case files-with-matches name-only files-without-match line-number " +
			"show-function function-context quiet invert-match word-regexp all-match cached heading break null only-matching column untracked",
		longVal: "after-context before-context context max-count max-depth color[=] threads", cwd: true, deep: "*", hidden: "--untracked"},
	"version": {none: true},
}
