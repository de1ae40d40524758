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
		case s == "--no-pager" || s == "-P" || s == "--no-optional-locks" || s == "--literal-pathspecs":
			args = args[1:]
		case s == "-C" && len(args) > 1:
			args = args[2:] // package shell has moved the unit's directory
		case s == "--version":
			return versionOnly, args
		case strings.HasPrefix(s, "-"):
			return nil, nil
		default:
			return gitReaders[s], args[1:]
		}
	}
	return nil, nil
}

const (
	gitDiff = "cached staged stat numstat shortstat dirstat summary name-only name-status patch no-patch patch-with-stat raw patch-with-raw minimal " +
		"patience histogram no-color no-renames check full-index binary abbrev ignore-space-at-eol ignore-space-change ignore-all-space " +
		"ignore-blank-lines function-context exit-code quiet text no-ext-diff no-textconv merge-base cc combined-all-paths no-prefix " +
		"ignore-submodules pickaxe-all pickaxe-regex compact-summary ws-error-highlight indent-heuristic color-words word-diff no-relative"
	gitDiffVal = "color[=] stat[=] unified word-diff[=] word-diff-regex color-words[=] color-moved[=] diff-filter diff-algorithm find-renames[=] " +
		"find-copies[=] relative[=] abbrev[=] submodule[=] src-prefix dst-prefix inter-hunk-context ignore-submodules[=] anchored dirstat[=]"
	gitLog = "oneline graph all decorate no-decorate follow no-merges merges first-parent reverse date-order author-date-order topo-order " +
		"branches tags remotes full-history simplify-merges left-right cherry-mark cherry-pick cherry left-only right-only boundary source " +
		"abbrev-commit no-abbrev-commit parents children relative-date log-size no-walk walk-reflogs full-diff mailmap use-mailmap no-mailmap no-notes invert-grep " +
		"regexp-ignore-case extended-regexp fixed-strings perl-regexp all-match merge no-expand-tabs"
	gitLogVal = "max-count skip since after until before author committer grep pretty[=] format[=] date decorate[=] branches[=] tags[=] remotes[=] " +
		"glob exclude min-parents max-parents no-walk[=] notes[=] decorate-refs decorate-refs-exclude grep-reflog"
)

// gitReaders are the subcommands that only read.
var gitReaders = map[string]*reader{
	"status": {flags: "sbvz", glued: "u", long: "short branch show-stash long verbose no-renames ahead-behind no-ahead-behind null",
		longVal: "porcelain[=] untracked-files[=] ignored[=] ignore-submodules[=] column[=] find-renames[=]", names: true, cwd: true},
	"log":      {flags: "pusgciEFPwbRazmq", values: "nSGUl", glued: "MCB", digits: true, long: gitDiff + " " + gitLog, longVal: gitDiffVal + " " + gitLogVal, cwd: true},
	"show":     {flags: "psgciEFPwbRazmq", values: "nSGUl", glued: "MCB", digits: true, long: gitDiff + " " + gitLog, longVal: gitDiffVal + " " + gitLogVal, cwd: true},
	"diff":     {flags: "pusgRabwzqcW", values: "SGUl", glued: "MCB", long: gitDiff, longVal: gitDiffVal, cwd: true},
	"shortlog": {flags: "nsec", long: "numbered summary email " + gitLog, longVal: gitLogVal, cwd: true},
	"blame": {flags: "bcefklnpstw", values: "L", glued: "MC", long: "root show-stats porcelain line-porcelain incremental show-name show-number show-email first-parent",
		longVal: "date since abbrev color-lines color-by-age"},
	"rev-parse": {flags: "q", long: "show-toplevel abbrev-ref verify quiet short git-dir show-prefix show-cdup is-inside-work-tree is-bare-repository symbolic " +
		"symbolic-full-name all branches tags remotes git-common-dir show-superproject-working-tree", longVal: "short[=] abbrev-ref[=]", names: true, cwd: true},
	"ls-files": {flags: "cdmosuktvfz", long: "cached deleted modified others ignored stage unmerged killed directory no-empty-directory exclude-standard full-name error-unmatch deduplicate", longVal: "exclude abbrev", names: true, cwd: true},
	"ls-tree":  {flags: "drtlz", long: "long name-only name-status full-name full-tree object-only", longVal: "abbrev[=] format", names: true, cwd: true},
	"describe": {long: "all tags contains long exact-match always first-parent dirty", longVal: "abbrev match exclude candidates dirty[=]", names: true, cwd: true},
	"branch":   {flags: "arvl", long: "all remotes verbose list show-current no-color no-column", longVal: "color[=] sort format contains[=] no-contains[=] merged[=] no-merged[=] points-at", none: true, names: true, cwd: true},
	"tag":      {flags: "l", long: "list no-column", longVal: "sort format contains[=] merged[=] points-at", text: true, check: func(r *reading) bool { return len(r.operands) == 0 || r.has("-l --list") }},
	"remote":   {flags: "v", long: "verbose", none: true, names: true, cwd: true},
	"stash":    {text: true, check: func(r *reading) bool { return len(r.operands) == 1 && r.operands[0].Text == "list" }},
	"worktree": {text: true, long: "porcelain", check: func(r *reading) bool { return len(r.operands) == 1 && r.operands[0].Text == "list" }},
	"reflog": {flags: "", digits: true, values: "n", text: true, check: func(r *reading) bool {
		return len(r.operands) == 0 || len(r.operands) == 1 && r.operands[0].Text == "show"
	}},
	"cat-file":     {flags: "tsep", most: 1, cwd: true},
	"rev-list":     {values: "n", digits: true, long: "count " + gitLog, longVal: gitLogVal, names: true, cwd: true},
	"merge-base":   {flags: "a", long: "all is-ancestor fork-point octopus", names: true, cwd: true},
	"name-rev":     {long: "name-only tags all", names: true, cwd: true},
	"check-ignore": {flags: "vnq", long: "verbose non-matching quiet no-index", names: true},
	"grep": {flags: "acEFGhHIilLnPpqvwWz", values: "ABCem", digits: true, script: true, unless: "-e",
		long: "count extended-regexp fixed-strings basic-regexp perl-regexp ignore-case files-with-matches name-only files-without-match line-number " +
			"show-function function-context quiet invert-match word-regexp all-match cached heading break null only-matching column untracked",
		longVal: "after-context before-context context max-count max-depth color[=] threads", cwd: true, deep: "*", hidden: "*"},
	"version": {none: true},
}
