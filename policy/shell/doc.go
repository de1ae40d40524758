// Package shell reads a command string as the shell would and says which
// programs it would start.
//
// It promises two readings of the same text, for two uses. What may be
// allowed is only a [Script] whose Floor is empty: one plain literal simple
// command, whose words are exactly what the program gets. What may be denied
// is every [Unit]: every simple command found anywhere, in chains, pipes,
// substitutions, loops, functions and here-documents, behind wrappers such as
// sudo, xargs and sh -c, and, where the text cannot be read, every word that
// stands where a command would. Text that the shell would not run, such as
// quoted words, comments and bodies of here-documents with a quoted
// delimiter, is no unit.
//
// It does not promise to see what a program does with its words: an
// interpreter, a build file, an alias or a changed PATH run what they like.
// It runs nothing, looks at no file, and never panics; text over [MaxBytes] or
// nested too deeply is not parsed at all.
package shell
