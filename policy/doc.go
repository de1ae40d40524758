// Package policy is recorded authority: the rules a person or an
// administrator wrote, the grants a person gave, and the built-in ones. It
// says of an action: deny, ask or allow, and names every reason.
//
// It promises a pure decision, [Decide]: the same rules, grants, action and
// view of the file system give the same result, deny beats ask beats allow
// over all parts of a call and all rules, and neither the order of rules nor
// their repetition matters. What is not understood is never allowed. A grant
// lifts ask, never deny. What protects permd itself stands above every rule.
//
// It promises rule files that say what they do: strictly decoded, an unknown
// key, a wrong type or a rule that can never match is an error with file,
// line, column and remedy. A broken file never loosens: the last good policy
// stays, and where there is none everything asks ([Store]). An edit of the
// user's own rules that tightens applies at once; one that loosens waits for
// a person.
//
// It does not promise a wall. It sees what a command line says, not what a
// program does: an interpreter, a build file or a server may do anything that
// its user may. docs/policy-limits.md lists what it cannot see.
package policy
