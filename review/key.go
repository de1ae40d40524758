package review

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"permd/internal/host"
)

// keys is the key under which values that are not written get their digests.
type keys []byte

const (
	keyName = ".key"
	keySize = 32
)

// loadKey reads the key below root, or makes one. The caller holds the
// ledger's lock, so that no two are made.
func loadKey(dir string) (keys, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("review log: %w", err)
	}
	defer root.Close()
	text, err := host.OpenPrivate(root, keyName, 2*keySize)
	if errors.Is(err, fs.ErrNotExist) {
		return makeKey(root)
	}
	if err != nil {
		return nil, fmt.Errorf("review log: key: %w", err)
	}
	key, err := hex.DecodeString(string(text))
	if err != nil || len(key) != keySize {
		return nil, fmt.Errorf("review log: key in %q is not %d hex digits; move it away and a new one is made "+
			"(digests of redacted values then no longer match older ones)", dir, 2*keySize)
	}
	return key, nil
}

func makeKey(root *os.Root) (keys, error) {
	key := make([]byte, keySize)
	rand.Read(key)
	err := host.WriteAtomic(root, keyName, []byte(hex.EncodeToString(key)), 0o600, true)
	if err != nil {
		return nil, fmt.Errorf("review log: key: %w", err)
	}
	return key, nil
}
