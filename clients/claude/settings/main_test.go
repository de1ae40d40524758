package settings

import "os"

func writeExecutable(path, text string) error { return os.WriteFile(path, []byte(text), 0o700) }
