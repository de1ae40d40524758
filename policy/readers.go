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
	deep:    "-r -R --recursive --dereference-recursive", hidden: "-r -R --recursive --dereference-recursive",
	wideFlags: "RS", wideLong: "dereference-recursive", wideVal: "exclude-from",
}

// words are programs that print or ignore their words.
var words = &reader{words: true, text: true}

// Options that follow links on the way through a tree are wide: what is behind
// a link may lie anywhere, so that only a rule of the person's own for this
// program covers them.

// readers are the programs of the class "read-only". git and find have
// grammars of their own.
var readers = map[string]*reader{
	"true": words, "false": words, ":": words, "echo": words, "sleep": {text: true}, "seq": {flags: "w", values: "fs", text: true},
	"printf": {words: true, text: true, check: func(r *reading) bool {
		return len(r.operands) > 0 && r.operands[0].Text != "-v" && noSubscript(r)
	}},
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
	"tree": {wideFlags: "l", flags: "adfipsughDFqNQrtUvxC", values: "LPI", names: true, cwd: true, long: "dirsfirst noreport prune du gitignore", longVal: "filelimit sort charset"},
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
		deep: "*", hidden: "-. -u --hidden --unrestricted", wideFlags: "Lz", wideLong: "follow search-zip no-ignore-global no-ignore-dot no-ignore-exclude debug trace", wideVal: "ignore-file type-add"},
	"sort": {flags: "bdfghiMnRrsuVcCmz", values: "kStp", long: "ignore-leading-blanks dictionary-order ignore-case general-numeric-sort human-numeric-sort " +
		"ignore-nonprinting month-sort numeric-sort random-sort reverse stable unique version-sort check merge zero-terminated",
		longVal: "key field-separator buffer-size parallel sort check[=]"},
	"uniq": {flags: "cdDiuz", values: "fsw", most: 1, long: "count repeated ignore-case unique zero-terminated", longVal: "skip-fields skip-chars check-chars all-repeated[=] group[=]"},
	"cut":  {flags: "nsz", values: "bcdf", long: "complement only-delimited zero-terminated", longVal: "bytes characters fields delimiter output-delimiter"},
	"tr":   {flags: "cCdst", text: true, long: "complement delete squeeze-repeats truncate-set1"},
	"nl":   {flags: "p", values: "bdfhilnsvw"}, "rev": {}, "fold": {flags: "bs", values: "w"}, "expand": {flags: "i", values: "t"},
	"column": {flags: "tnexR", values: "sco"}, "paste": {flags: "sz", values: "d"}, "comm": {flags: "123z", long: "nocheck-order check-order total", longVal: "output-delimiter"},
	"diff": {wideFlags: "r", wideLong: "recursive", flags: "abBdeEiNnpqstTuwyc", values: "CUIxW", digits: true, long: "brief report-identical-files unified context side-by-side new-file ignore-case " +
		"ignore-space-change ignore-all-space ignore-blank-lines text minimal suppress-common-lines no-dereference strip-trailing-cr normal ed rcs",
		longVal: "unified[=] context[=] exclude ignore-matching-lines width label color[=] tabsize"},
	"cmp":    {flags: "bls", values: "in", long: "print-bytes verbose quiet silent", longVal: "ignore-initial bytes"},
	"md5sum": sums, "sha1sum": sums, "sha224sum": sums, "sha256sum": sums, "sha384sum": sums, "sha512sum": sums, "b2sum": sums, "cksum": sums,
	"od": {flags: "abcdfhilosvx", values: "AjNtS", glued: "w"}, "hexdump": {flags: "bcCdovx", values: "ens"},
	"xxd": {flags: "abeEiu", values: "cglos", most: 1}, "strings": {flags: "afo", values: "net"},
	"jq": {flags: "cCMnrRsSeaj", script: true, pairs: "arg argjson", long: "compact-output color-output monochrome-output null-input raw-output raw-input slurp " +
		"sort-keys exit-status ascii-output join-output tab stream unbuffered seq", longVal: "indent", check: jqFilter},
	"sed": {flags: "nErsuz", values: "e", script: true, unless: "-e --expression", long: "quiet silent regexp-extended separate unbuffered null-data posix",
		longVal: "expression", check: sedScripts},
	"awk": awk, "gawk": awk, "mawk": awk, "nawk": awk,
	"test": {words: true, names: true, check: testReads}, "[": {words: true, names: true, check: testReads},
	"base64": {flags: "dD", values: "w", long: "decode", longVal: "wrap"},
	"cd":     {names: true, most: 1},
	"dirs":   {flags: "lpv", none: true}, "popd": {none: true},
	"pushd": {names: true, most: 1, check: func(r *reading) bool { return len(r.operands) == 1 && !strings.HasPrefix(r.operands[0].Text, "+") }},
	"set":   {flags: "eEufxv", values: "o", text: true, check: setReads}, "wait": {none: true},
	"exit": {text: true, most: 1, check: onlyNumbers}, "return": {text: true, most: 1, check: onlyNumbers}, "break": {text: true, most: 1, check: onlyNumbers}, "continue": {text: true, most: 1, check: onlyNumbers},
	"fd": fd, "fdfind": fd,
	"ps": {flags: "AadefFHjlLNTVwZ", values: "CGgpstuUoO", longVal: "sort pid ppid user format", long: "forest headers no-headers", most: 1, text: true, check: psReads}, "pgrep": {flags: "aAcfilnovwx", values: "dgGPstuU", text: true},
	"pidof": {flags: "cnqs", text: true}, "free": {flags: "bkmghltw", values: "sc", none: true}, "who": {flags: "abdHlmpqrstTu", none: true}, "w": {flags: "fhsio", most: 1, text: true},
	"lsof": {flags: "nPtlUwaQ", values: "cpu", glued: "i", names: true}, "ss": {flags: "0246aeHilmnoOprstuwx", none: true}, "netstat": {flags: "46aceilnoprstuwW", none: true},
	"lscpu": {flags: "aeJpxy", none: true}, "lsblk": {flags: "abdfJlmnOPprst", values: "Ieo", none: true}, "cal": {flags: "13jmswy", text: true}, "locale": {flags: "am", none: true},

	"man": {text: true, check: func(r *reading) bool {
		return len(r.operands) > 0 && !strings.Contains(r.operands[0].Text+r.operands[len(r.operands)-1].Text, "/")
	}},
	"help": {text: true}, "expr": words, "factor": {text: true}, "clear": {none: true}, "tput": {text: true, most: 1, check: func(r *reading) bool {
		return len(r.operands) == 1 && listed("cols lines colors bold sgr0", r.operands[0].Text)
	}},
	"ip": {flags: "46bchjosr", long: "brief color json oneline human", text: true, check: func(r *reading) bool {
		return len(r.operands) == 1 && listed("a addr address link l route r neigh rule", r.operands[0].Text) ||
			len(r.operands) == 2 && listed("show ls list", r.operands[1].Text) && listed("a addr address link l route r neigh rule", r.operands[0].Text)
	}},

	"node": {flags: "vc", long: "version check", most: 1, check: func(r *reading) bool {
		return len(r.opts) == 1 && r.has("-c --check") == (len(r.operands) == 1)
	}},
	"npm": {flags: "v", long: "version", none: true, check: oneOption}, "ruby": {flags: "v", long: "version", none: true, check: oneOption},
	"python": versionOnly, "python3": versionOnly, "cargo": versionOnly, "rustc": versionOnly, "cmake": versionOnly, "clang": versionOnly, "tsc": versionOnly, "pip": versionOnly, "java": {long: "version", none: true, check: oneOption},
	"make": {flags: "v", long: "version", none: true, check: oneOption}, "gcc": {flags: "v", long: "version", none: true, check: oneOption},
	"go": {most: 1, text: true, check: func(r *reading) bool { return len(r.operands) == 1 && r.operands[0].Text == "version" }},
}

var fd = &reader{
	flags: "HIsigaFp0q1u", values: "dEtecjS", script: true, names: true, cwd: true,
	long:      "hidden no-hidden no-ignore no-ignore-vcs case-sensitive ignore-case glob regex fixed-strings absolute-path full-path print0 quiet unrestricted version help prune",
	longVal:   "max-depth min-depth exact-depth exclude type extension size changed-within changed-before newer older max-results color threads",
	wideFlags: "L", wideLong: "follow",
}

var awk = &reader{values: "Fv", script: true, check: awkProgramReads}

// versionOnly is a program asked for its version and nothing else. "-v" is
// left out where it means something else: python3 -v reads a program from its
// input.
var versionOnly = &reader{long: "version", flags: "V", none: true, check: oneOption}

func oneOption(r *reading) bool { return len(r.opts) == 1 }

// noSubscript refuses words that a shell evaluates when it takes them for a
// number or a variable: a[$(x)] runs x, quoted or not.
func noSubscript(r *reading) bool {
	for _, o := range r.operands {
		if i := strings.IndexByte(o.Text, '['); i >= 0 && strings.ContainsAny(o.Text[i:], "$`") {
			return false
		}
	}
	return true
}

// testReads refuses -v and -R, whose operand is evaluated.
func testReads(r *reading) bool {
	for _, o := range r.operands {
		if o.Text == "-v" || o.Text == "-R" {
			return false
		}
	}
	return noSubscript(r)
}

func onlyNumbers(r *reading) bool {
	return len(r.operands) == 0 || strings.Trim(r.operands[0].Text, "0123456789") == ""
}

// psReads takes the letters of BSD, but not "e": that shows the environment
// of processes, with what secrets it has. "ps -auxe" may be "ps auxe".
func psReads(r *reading) bool {
	for _, v := range r.values {
		if strings.Contains(strings.ToLower(v.text), "env") || v.name == "-u" && strings.Contains(v.text, "e") && strings.Trim(v.text, "aefhjlruvwxX") == "" {
			return false
		}
	}
	return len(r.operands) == 0 || strings.Trim(r.operands[0].Text, "aAfhjlruvwxX") == ""
}

// setReads takes the options that stop a script early or show it.
func setReads(r *reading) bool {
	for _, v := range r.values {
		if !listed("pipefail errexit nounset xtrace verbose noglob", v.text) {
			return false
		}
	}
	for i, o := range r.operands {
		off := len(o.Text) > 1 && o.Text[0] == '+' && strings.Trim(o.Text[1:], "eEufxvo") == ""
		if !off && !(i > 0 && strings.HasSuffix(r.operands[i-1].Text, "o") && listed("pipefail errexit nounset xtrace verbose noglob", o.Text)) {
			return false
		}
	}
	return len(r.opts)+len(r.operands) > 0
}

// sedScripts takes scripts that only print.
func sedScripts(r *reading) bool {
	if scripts := r.all("-e --expression"); len(scripts) > 0 {
		return sedReads(strings.Join(scripts, "\n"))
	}
	return len(r.operands) > 0 && sedReads(r.operands[0].Text)
}

func awkProgramReads(r *reading) bool {
	return len(r.operands) > 0 && awkReads(r.operands[0].Text)
}

// jqElsewhere are the words of a filter that reads the environment or other
// files.
var jqElsewhere = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)(^|[^.\w"])\$?(env|import|include|get_search_list)\b`)
})

// jqFilter refuses filters that read the environment or other files.
func jqFilter(r *reading) bool {
	return len(r.operands) > 0 && !jqElsewhere().MatchString(r.operands[0].Text)
}
