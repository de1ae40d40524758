package main

import (
	"encoding/json"
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"permd/api"
)

func init() { commands = append(commands, versionCommand) }

func versionCommand(a *app) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "version",
		Short: "Print the version of permd and of its socket protocol",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if asJSON {
				return json.NewEncoder(a.out).Encode(struct {
					Version string `json:"version"`
					API     []int  `json:"api"`
					Go      string `json:"go"`
					System  string `json:"system"`
				}{version, api.Versions, runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH})
			}
			_, err := fmt.Fprintf(a.out, "permd %s (socket protocol %v, %s, %s/%s)\n", version, api.Versions, runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return err
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}
