package review

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"permd/ask"
	"permd/internal/host"
)

// Sweep closes the logs of writers that ended without doing so: a torn end is
// set aside, a closing head written and entered in the ledger, so that from then
// on a cut of that log shows. It leaves the living and the closed alone and says
// how many it closed. opt.Writer is not used. What fails for one log does not
// keep it from the next.
func Sweep(ctx context.Context, opt Options) (int, error) {
	entries, err := os.ReadDir(opt.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	closed := 0
	var errs []error
	for _, e := range entries {
		if ctx.Err() != nil {
			return closed, errors.Join(append(errs, ctx.Err())...)
		}
		if !e.IsDir() || !ask.ValidID(e.Name()) || e.Name() == ledgerName || !abandoned(filepath.Join(opt.Dir, e.Name())) {
			continue
		}
		opt.Writer = e.Name()
		l, err := Open(opt)
		if errors.Is(err, ErrInUse) {
			continue
		}
		if err == nil {
			err = l.Close()
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		closed++
	}
	return closed, errors.Join(errs...)
}

// abandoned says whether nobody writes in dir and its last record is no closing
// head. When in doubt it is not.
func abandoned(dir string) bool {
	held, err := host.Held(filepath.Join(dir, "lock"))
	if held || err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false
	}
	numbers, err := fileNumbers(dir)
	if err != nil || len(numbers) == 0 {
		return false
	}
	f, fi, err := openToRead(filepath.Join(dir, fileName(numbers[len(numbers)-1])))
	if err != nil {
		return false
	}
	defer f.Close()
	raw, err := lastLine(f, fi.Size())
	if err != nil {
		return true
	}
	l, err := ParseLine(raw)
	return err != nil || !l.closes()
}
