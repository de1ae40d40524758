package policy

import (
	"regexp"
	"strings"
	"sync"
)

var sums = &reader{flags: "btz", long: "binary text zero tag"}

var grep = &reader{
	flags: "acEFGhHiIlLnoPqrsTUvVwxyzZb", values: "ABCmeDd", files: "f", digits: true, script: true, unless: "-e -f --regexp --file",
	long: "basic-regexp extended-regexp fixed-strings perl-regexp ignore-case no-ignore-case invert-match word-regexp line-regexp count " +
		"files-with-matches files-without-match only-matching quiet silent no-messages byte-offset with-filename no-filename line-number " +
		"initial-tab null null-data recursive text line-buffered version help",
	longVal: "regexp after-context before-context context max-count label include exclude exclude-dir color[=] colour[=] binary-files directories devices",
	deep:    "-r --recursive", hidden: "-r --recursive",
}

// words are programs that print or ignore their words.
var words = &reader{words: true, text: true}

// Options that follow links on the way through a tree are left out: what is
// behind a link may lie anywhere.

// readers are the programs of the class "read-only". git and find have
// grammars of their own.
var readers = map[string]*reader{
	"true": words, "false": words, ":": words, "echo": words, "sleep": {text: true}, "seq": {flags: "w", values: "fs", text: true},
	"printf":   {words: true, text: true, check: func(r *reading) bool { return len(r.operands) > 0 && r.operands[0].Text != "-v" }},
	"pwd":      {flags: "LP", none: true},
	"whoami":   {none: true, long: "version help"},
	"id":       {flags: "gGnruzZ", text: true, long: "group groups name real user zero"},
	"groups":   {text: true},
	"tty":      {flags: "s", none: true},
	"arch":     {none: true},
	"nproc":    {none: true, long: "all"},
	"uname":    {flags: "asnrvmpio", none: true, long: "all kernel-name kernel-release kernel-version machine operating-system"},
	"hostname": {flags: "fisdIA", none: true},
	"uptime":   {flags: "ps", none: true},
	"date": {flags: "uR", values: "d", glued: "I", long: "utc universal rfc-email", longVal: "date iso-8601[=] rfc-3339", most: 1, text: true,
		check: func(r *reading) bool { return len(r.operands) == 0 || strings.HasPrefix(r.operands[0].Text, "+") }},
	"basename": {flags: "az", values: "s", text: true, long: "multiple zero", longVal: "suffix"},
	"dirname":  {flags: "z", text: true, long: "zero"},
	"which":    {flags: "as", text: true, long: "all"},
	"type":     {flags: "aftpP", text: true},
	"whereis":  {flags: "bms", text: true},
	"command":  {flags: "vV", text: true, check: func(r *reading) bool { return r.has("-v -V") }},
	"realpath": {flags: "eELmPqsz", names: true, long: "canonicalize-existing canonicalize-missing logical physical quiet strip no-symlinks zero", longVal: "relative-to relative-base"},
	"readlink": {flags: "efmnqsvz", names: true, long: "canonicalize canonicalize-existing canonicalize-missing no-newline quiet silent verbose zero"},
	"ls": {flags: "1aAbBcCdfFgGhHiklLmnNopqQrRsStuUvxXZ", values: "ITw", names: true, cwd: true,
		long: "all almost-all author escape ignore-backups directory file-type human-readable si dereference inode kibibytes no-group " +
			"numeric-uid-gid literal hide-control-chars show-control-chars quote-name reverse recursive size full-time group-directories-first context zero version help",
		longVal: "color[=] classify[=] sort time time-style format indicator-style quoting-style hide ignore block-size tabsize width hyperlink[=]"},
	"stat": {flags: "LftZ", values: "c", names: true, long: "dereference file-system terse", longVal: "format printf"},
	"file": {flags: "bhikLnNprsv0", names: true, long: "brief mime mime-type mime-encoding no-dereference dereference keep-going extension raw"},
	"du": {flags: "abchHklmsSx0", values: "dtB", names: true, cwd: true, long: "all apparent-size bytes total human-readable summarize one-file-system count-links null",
		longVal: "max-depth threshold block-size exclude time[=]"},
	"df":   {flags: "ahHikklPT", values: "txB", names: true, long: "all human-readable si inodes local portability print-type total", longVal: "type exclude-type block-size output[=]"},
	"tree": {flags: "adfipsughDFqNQrtUvxC", values: "LPI", names: true, cwd: true, long: "dirsfirst noreport prune du gitignore", longVal: "filelimit sort charset"},
	"cat":  {flags: "AbeEnstTuv", long: "show-all number number-nonblank show-ends show-nonprinting show-tabs squeeze-blank"},
	"tac":  {flags: "br", values: "s"},
	"head": {flags: "qvz", values: "nc", digits: true, long: "quiet silent verbose zero-terminated", longVal: "lines bytes"},
	"tail": {flags: "fFqvz", values: "ncs", digits: true, long: "quiet silent verbose zero-terminated retry", longVal: "lines bytes follow[=] pid sleep-interval"},
	"wc":   {flags: "clmwL", long: "bytes chars lines words max-line-length", longVal: "total"},
	"grep": grep, "egrep": grep, "fgrep": grep,
	"rg": {
		flags: "acFHhiIlnNopPqsSUuvwx0.", values: "ABCEegGjmMrtTd", files: "f", script: true, unless: "-e -f --regexp --file --files --type-list",
		long: "case-sensitive ignore-case smart-case count count-matches files files-with-matches files-without-match fixed-strings word-regexp " +
			"line-regexp line-number no-line-number hidden no-hidden no-ignore no-ignore-vcs no-ignore-parent multiline multiline-dotall only-matching " +
			"passthru pretty quiet heading no-heading vimgrep json trim invert-match with-filename no-filename no-messages null text stats type-list " +
			"pcre2 no-follow column no-column unrestricted byte-offset crlf one-file-system no-config version help",
		longVal: "regexp glob iglob type type-not after-context before-context context max-count max-depth max-columns max-filesize color colors " +
			"encoding engine replace sort sortr threads path-separator context-separator",
		deep: "*", hidden: "-. -u --hidden --unrestricted"},
	"sort": {flags: "bdfghiMnRrsuVcCmz", values: "kStp", long: "ignore-leading-blanks dictionary-order ignore-case general-numeric-sort human-numeric-sort " +
		"ignore-nonprinting month-sort numeric-sort random-sort reverse stable unique version-sort check merge zero-terminated",
		longVal: "key field-separator buffer-size parallel sort check[=]"},
	"uniq": {flags: "cdDiuz", values: "fsw", most: 1, long: "count repeated ignore-case unique zero-terminated", longVal: "skip-fields skip-chars check-chars all-repeated[=] group[=]"},
	"cut":  {flags: "nsz", values: "bcdf", long: "complement only-delimited zero-terminated", longVal: "bytes characters fields delimiter output-delimiter"},
	"tr":   {flags: "cCdst", text: true, long: "complement delete squeeze-repeats truncate-set1"},
	"nl":   {flags: "p", values: "bdfhilnsvw"}, "rev": {}, "fold": {flags: "bs", values: "w"}, "expand": {flags: "i", values: "t"},
	"column": {flags: "tnexR", values: "sco"}, "paste": {flags: "sz", values: "d"}, "comm": {flags: "123z", long: "nocheck-order check-order total", longVal: "output-delimiter"},
	"diff": {flags: "abBdeEiNnpqstTuwyc", values: "CUIxW", digits: true, long: "brief report-identical-files unified context side-by-side new-file ignore-case " +
		"ignore-space-change ignore-all-space ignore-blank-lines text minimal suppress-common-lines no-dereference strip-trailing-cr normal ed rcs",
		longVal: "unified[=] context[=] exclude ignore-matching-lines width label color[=] tabsize"},
	"cmp":    {flags: "bls", values: "in", long: "print-bytes verbose quiet silent", longVal: "ignore-initial bytes"},
	"md5sum": sums, "sha1sum": sums, "sha224sum": sums, "sha256sum": sums, "sha384sum": sums, "sha512sum": sums, "b2sum": sums, "cksum": sums,
	"od": {flags: "abcdfhilosvx", values: "AjNtSw"}, "hexdump": {flags: "bcCdovx", values: "ens"},
	"xxd": {flags: "abeEiu", values: "cglos", most: 1}, "strings": {flags: "afo", values: "net"},
	"jq":   {flags: "cCMnrRsSeaj", script: true, long: "compact-output color-output monochrome-output null-input raw-output raw-input slurp sort-keys exit-status ascii-output join-output tab", longVal: "indent", check: jqFilter},
	"sed":  {flags: "nEr", script: true, unless: "-", check: sedPrint},
	"test": {words: true, names: true}, "[": {words: true, names: true},
	"cd": {names: true, most: 1},

	"node": versionOnly, "npm": versionOnly, "python": versionOnly, "python3": versionOnly, "ruby": versionOnly, "cargo": versionOnly,
	"rustc": versionOnly, "make": versionOnly, "cmake": versionOnly, "gcc": versionOnly, "clang": versionOnly, "tsc": versionOnly,
	"go": {none: false, most: 1, text: true, check: func(r *reading) bool { return len(r.operands) == 1 && r.operands[0].Text == "version" }},
}

// versionOnly is any program asked for its version and nothing else.
var versionOnly = &reader{long: "version", flags: "vV", none: true, check: func(r *reading) bool { return len(r.opts) == 1 }}

// sedLines is a sed script that prints lines by number.
var sedLines = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(\d+|\$)(,\+?(\d+|\$))?p$`) })

// sedPrint takes only sed -n with a script that prints lines: any other one
// may write a file or run a command.
func sedPrint(r *reading) bool {
	return r.has("-n") && len(r.operands) > 0 && sedLines().MatchString(r.operands[0].Text)
}

// jqFilter refuses filters that read the environment or other files.
func jqFilter(r *reading) bool {
	if len(r.operands) == 0 {
		return false
	}
	f := strings.ToLower(r.operands[0].Text)
	return !strings.Contains(f, "env") && !strings.Contains(f, "import") && !strings.Contains(f, "include")
}
