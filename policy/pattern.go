package policy

// Pattern writes the words of a command as the pattern that matches exactly
// that command.
func Pattern(argv []string) string { return quoteArgv(argv) }
