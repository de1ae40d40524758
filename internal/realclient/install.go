package realclient

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// ErrUnavailable says that this machine cannot have the client; the text around
// it says what is missing.
var ErrUnavailable = errors.New("the real client is not available")

const unfinished = ".part-"

// Find gives the pinned Claude Code, installing it into the cache if need be.
// The cache is $PERMD_TEST_CACHE, else permd-test in the user's cache folder.
// $PERMD_TEST_CLAUDE names a program to use instead of the pinned one.
func Find(ctx context.Context) (*Client, error) {
	if own := os.Getenv("PERMD_TEST_CLAUDE"); own != "" {
		return open(ctx, own)
	}
	arch := map[string]string{"amd64": "x64", "arm64": "arm64"}[runtime.GOARCH]
	if runtime.GOOS != "linux" || arch == "" {
		return nil, fmt.Errorf("%w: none is pinned for %s/%s; set PERMD_TEST_CLAUDE to an installed claude", ErrUnavailable, runtime.GOOS, runtime.GOARCH)
	}
	cache, err := cacheDir()
	if err != nil {
		return nil, err
	}
	pkg := "@anthropic-ai/claude-code-linux-" + arch
	home := filepath.Join(cache, "claude-"+ClaudeVersion+"-"+arch)
	program := filepath.Join("node_modules", pkg, "claude")
	if _, err := os.Stat(filepath.Join(home, program)); err == nil {
		return &Client{filepath.Join(home, program), ClaudeVersion}, nil
	}
	unlock, err := lock(ctx, filepath.Join(cache, "lock"))
	if err != nil {
		return nil, err
	}
	defer unlock()
	if _, err := os.Stat(filepath.Join(home, program)); err == nil {
		return &Client{filepath.Join(home, program), ClaudeVersion}, nil
	}
	return install(ctx, home, pkg+"@"+ClaudeVersion, program)
}

// install fills home in one step: everything is made beside it and renamed, so
// a killed install leaves nothing that looks finished. The caller holds the lock.
func install(ctx context.Context, home, pkg, program string) (*Client, error) {
	npm, err := exec.LookPath("npm")
	if err != nil {
		return nil, fmt.Errorf("%w: npm is needed to install %s once; install npm, or set PERMD_TEST_CLAUDE", ErrUnavailable, pkg)
	}
	stale, err := filepath.Glob(home + unfinished + "*")
	if err != nil {
		return nil, err
	}
	for _, dir := range stale {
		_ = os.RemoveAll(dir) // costs space only
	}
	tmp, err := os.MkdirTemp(filepath.Dir(home), filepath.Base(home)+unfinished)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	defer os.RemoveAll(tmp)
	if err := os.Chmod(tmp, 0o755); err != nil { // tests of a plain user run it too
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(tmp, "package.json"), []byte(`{"private":true}`), 0o644); err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, npm, "install", "--prefix", tmp, "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error", pkg)
	cmd.Dir = tmp
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w: npm install %s: %w: %s", ErrUnavailable, pkg, err, tail(out, 400))
	}
	c, err := open(ctx, filepath.Join(tmp, program))
	if err != nil {
		return nil, err
	}
	if c.Version != ClaudeVersion {
		return nil, fmt.Errorf("%w: %s printed version %q", ErrUnavailable, pkg, c.Version)
	}
	if err := os.Rename(tmp, home); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return &Client{filepath.Join(home, program), c.Version}, nil
}

// open asks a program for its version, which also proves that it starts here.
func open(ctx context.Context, path string) (*Client, error) {
	cmd := exec.CommandContext(ctx, path, "--version")
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.DevNull, "DISABLE_AUTOUPDATER=1"}
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%w: %q --version: %w", ErrUnavailable, path, err)
	}
	version, _, _ := strings.Cut(strings.TrimSpace(string(out)), " ")
	return &Client{path, version}, nil
}

func cacheDir() (string, error) {
	dir := os.Getenv("PERMD_TEST_CACHE")
	if dir == "" {
		base, err := os.UserCacheDir()
		if err != nil {
			return "", fmt.Errorf("%w: set PERMD_TEST_CACHE: %w", ErrUnavailable, err)
		}
		dir = filepath.Join(base, "permd-test")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return dir, nil
}

// lock waits until no other process installs. It tries again and again rather
// than wait in flock, so that the caller's deadline holds.
func lock(ctx context.Context, path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	again := time.NewTicker(100 * time.Millisecond)
	defer again.Stop()
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { _ = f.Close() }, nil // the lock goes with the descriptor
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			_ = f.Close()
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			_ = f.Close()
			return nil, fmt.Errorf("%w: another process has been installing it: %w", ErrUnavailable, ctx.Err())
		}
	}
}

func tail(b []byte, n int) string {
	b = bytes.TrimSpace(b)
	if len(b) > n {
		b = b[len(b)-n:]
	}
	return string(b)
}
