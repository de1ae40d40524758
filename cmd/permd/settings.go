package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/viper"

	"permd/node"
	"permd/session"
)

// fileSettings are the scalar settings of config.toml. Rules are never here:
// viper folds the case of keys.
type fileSettings struct {
	AskTimeout   string `mapstructure:"ask_timeout"`
	OnParentLoss string `mapstructure:"on_parent_loss"`
	ClientDialog string `mapstructure:"client_dialog"`
	AsksAMinute  int    `mapstructure:"asks_a_minute"`
}

// settings reads <config>/config.toml. A missing file means the defaults; a
// file that is broken, or that others may write, is an error and nothing of
// it is used. The environment is never looked at: an agent could set it.
func settings(d session.Dirs) (node.Settings, error) {
	s := node.Defaults()
	path := filepath.Join(d.Config, "config.toml")
	if err := privateFile(path); err != nil {
		if errors.Is(err, os.ErrNotExist) {
			return s, nil
		}
		return s, err
	}
	v := viper.New()
	v.SetConfigFile(path)
	v.SetConfigType("toml")
	if err := v.ReadInConfig(); err != nil {
		return s, fmt.Errorf("%s: %s; correct it or move it away", path, flat(err.Error()))
	}
	var f fileSettings
	if err := v.UnmarshalExact(&f); err != nil {
		return s, fmt.Errorf("%s: %s; known settings are ask_timeout, on_parent_loss, client_dialog, asks_a_minute", path, flat(err.Error()))
	}
	if f.AskTimeout != "" {
		t, err := time.ParseDuration(f.AskTimeout)
		if err != nil {
			return s, fmt.Errorf("%s: ask_timeout: %w; write \"10m\" or \"90s\"", path, err)
		}
		s.AskTimeout = t
	}
	switch f.OnParentLoss {
	case "", "ask":
	case "refuse":
		s.RefuseOnParentLoss = true
	default:
		return s, fmt.Errorf("%s: on_parent_loss is %q; write \"ask\" or \"refuse\"", path, f.OnParentLoss)
	}
	switch f.ClientDialog {
	case "", "on":
	case "off":
		s.NoClientDialog = true
	default:
		return s, fmt.Errorf("%s: client_dialog is %q; write \"on\" or \"off\"", path, f.ClientDialog)
	}
	if f.AsksAMinute < 0 {
		return s, fmt.Errorf("%s: asks_a_minute is negative", path)
	}
	if f.AsksAMinute > 0 {
		s.AsksAMinute = f.AsksAMinute
	}
	return s, nil
}

// privateFile checks that path is a regular file of ours or root's that
// nobody else may write.
func privateFile(path string) error {
	fi, err := os.Lstat(path)
	if err != nil {
		return err
	}
	if !fi.Mode().IsRegular() {
		return fmt.Errorf("%s is not a regular file; replace it", path)
	}
	if st, ok := fi.Sys().(*syscall.Stat_t); ok && st.Uid != 0 && int(st.Uid) != os.Getuid() {
		return fmt.Errorf("%s belongs to another user; chown it", path)
	}
	if fi.Mode().Perm()&0o022 != 0 {
		return fmt.Errorf("%s may be written by others; run: chmod go-w %s", path, strings.ReplaceAll(path, " ", "\\ "))
	}
	return nil
}
