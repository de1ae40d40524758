package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"permd/ask"
	"permd/review"
)

// logLine is one log's state.
func logLine(l review.LogReport) string {
	state := "ended without a closing head"
	switch {
	case l.Live:
		state = "being written"
	case l.Closed:
		state = "closed"
	}
	return fmt.Sprintf("%s: %d records in %d files, %s", l.Writer, l.Records, l.Files, state)
}

func reviewVerify(a *app) *cobra.Command {
	var asJSON bool
	var head string
	c := &cobra.Command{
		Use:   "verify",
		Short: "Check every log and the ledger",
		Long: "verify checks the hash chain of every log and what the ledger says of each. With\n" +
			"--head FILE, which \"permd review head\" wrote, it sees even a record that somebody\n" +
			"built anew as a whole, up to those heads. Hold that file elsewhere.\n\n" +
			"Exit codes: 0 intact, 1 tampered, 2 incomplete or not readable.",
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			d, err := a.dirs()
			if err != nil {
				return err
			}
			r, err := verify(d.Review(), head)
			if errors.Is(err, fs.ErrNotExist) {
				return &exitError{2, errors.New("there is no record at " + d.Review())}
			}
			if err != nil {
				return &exitError{2, err}
			}
			if asJSON {
				if err := json.NewEncoder(a.out).Encode(r); err != nil {
					return err
				}
			} else {
				for _, l := range r.Logs {
					fmt.Fprintln(a.out, logLine(l))
				}
				fmt.Fprintln(a.out, r.String())
			}
			switch r.Status {
			case review.Intact:
				return nil
			case review.Tampered:
				return &exitError{1, nil}
			}
			return &exitError{2, nil}
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	c.Flags().StringVar(&head, "head", "", "hold the record against the heads in `FILE`")
	return c
}

// verify verifies the record, against the heads in a file if one is named.
func verify(dir, name string) (review.Report, error) {
	if name == "" {
		return review.Verify(dir)
	}
	heads, err := readHeads(name)
	if err != nil {
		return review.Report{}, err
	}
	return review.VerifyHeld(dir, heads)
}

// maxHead is the longest line of a file of heads, in bytes.
const maxHead = 1024

// readHeads reads what permd review head wrote.
func readHeads(name string) ([]review.Head, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("the heads: %v", err) // a missing file is not a missing record
	}
	defer f.Close()
	var heads []review.Head
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, maxHead)
	for n := 1; lines.Scan(); n++ {
		var h review.Head
		if err := ask.Decode(lines.Bytes(), maxHead, &h); err != nil {
			return nil, fmt.Errorf("%s line %d: %w; the file has to be as \"permd review head\" wrote it", name, n, err)
		}
		heads = append(heads, h)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w; the file has to be as \"permd review head\" wrote it", name, err)
	}
	if len(heads) == 0 {
		return nil, fmt.Errorf("%s holds no head; write them with \"permd review head\"", name)
	}
	return heads, nil
}

func reviewHead(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "head",
		Short: "Print the heads of all logs, to be held elsewhere",
		Long: "head prints one JSON line for the ledger and for each log: its writer and file, the\n" +
			"number of its last record, and the hash that covers it and all before it. It prints\n" +
			"nothing of a record that was tampered with. \"permd review verify --head FILE\"\n" +
			"takes it.\n\n" +
			"Exit codes: 0 printed, 1 tampered, 2 there is no record or it is not readable.",
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			d, err := a.dirs()
			if err != nil {
				return err
			}
			r, err := review.Verify(d.Review())
			if errors.Is(err, fs.ErrNotExist) {
				return &exitError{2, errors.New("there is no record at " + d.Review())}
			}
			if err != nil {
				return &exitError{2, err}
			}
			if r.Status == review.Tampered {
				return &exitError{1, errors.New("the record was tampered with; \"permd review verify\" says where")}
			}
			for _, h := range r.Heads() {
				line, err := ask.Encode(h)
				if err != nil {
					return err
				}
				if _, err := fmt.Fprintf(a.out, "%s\n", line); err != nil {
					return err
				}
			}
			return nil
		},
	}
}
