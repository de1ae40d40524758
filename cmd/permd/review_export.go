package main

import (
	"errors"
	"os"
	"time"

	"github.com/spf13/cobra"

	"permd/review"
	"permd/review/export"
)

func reviewExport(a *app) *cobra.Command {
	var f filterFlags
	var format string
	var unmasked bool
	c := &cobra.Command{
		Use:   "export",
		Short: "Write records for other programs: OpenTelemetry, JSON lines, a table",
		Long: "export writes records to standard output. otlp is one request of the OpenTelemetry\n" +
			"protocol a line, in JSON, as collectors take it over HTTP (POST each line to /v1/logs)\n" +
			"and from files; jsonl is one object a record, with where it stands; csv is a table.\n\n" +
			"What names the content of your work, as commands, paths and reasons, is masked, with\n" +
			"marks that are alike for alike values; --unmasked writes it as the record has it.\n" +
			"Whatever was a secret is not even there.\n\n" +
			"Exit codes: 0 written, 1 there is no record yet, 2 used wrongly or not readable.",
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			d, err := a.dirs()
			if err != nil {
				return err
			}
			filter, err := f.filter(d.Review(), time.Now())
			if err != nil {
				return err
			}
			o := export.Options{Format: export.Format(format), Version: version}
			o.Host, _ = os.Hostname() // a record without it is still one
			if !unmasked {
				if o.Mask, err = review.OpenMasker(d.Review()); err != nil {
					return &exitError{2, err}
				}
			}
			e, err := export.New(a.out, o)
			if err != nil {
				return usage("--format: %v", err)
			}
			if _, err := os.Stat(d.Review()); err != nil {
				return noRecord(err)
			}
			return noRecord(errors.Join(review.Scan(d.Review(), filter, e.Encode), e.Close()))
		},
	}
	f.add(c)
	c.Flags().StringVar(&format, "format", "", "otlp, jsonl or csv")
	c.Flags().BoolVar(&unmasked, "unmasked", false, "write commands, paths and reasons as they are on the record")
	return c
}
