# make test     what the tests need, then vet, staticcheck, gofmt and all tests
# make bench    all benchmarks, one table with the bound beside each figure
#               (BENCH=Relay for chosen ones)
# make fuzz     each fuzz target for FUZZTIME (60s)
#               (FUZZ=policy/shell:FuzzRead for chosen ones)
# make install  permd and permd-hook side by side into PREFIX/bin (~/.local)
# make generate files that are made from others

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.PHONY: all test tools check bench fuzz install generate

GO ?= go
PREFIX ?= $(HOME)/.local
DESTDIR ?=
TIMEOUT ?= 12m
BENCH ?= .
BENCHFLAGS ?=
FUZZTIME ?= 60s
FUZZ ?=

# Packages whose tests root runs a second time as a plain user. (internal/host
# and review do so by themselves.)
PLAIN ?= ./api/... ./heartbeat/... ./session/...

# Modules of their own, with what only their tests use.
MODULES ?= internal/otlpcheck

# Tests whose long loops run a second time without the race detector, which
# makes them ten times longer.
LONG ?= -run '^TestT([78]|14Every)' ./policy ./review

all: check

test: tools check
	@{ failed=0; \
	   $(GO) test -json -race -timeout $(TIMEOUT) ./... || failed=1; \
	   scripts/plain-user $(PLAIN) || failed=1; \
	   $(GO) test -json -count=1 -timeout $(TIMEOUT) $(LONG) || failed=1; \
	   for m in $(MODULES); do (cd $$m && $(GO) vet ./... >&2 && $(GO) test -json -timeout $(TIMEOUT) ./...) || failed=1; done; \
	   exit $$failed; } | $(GO) run ./scripts/skips

tools:
	@scripts/setup

check:
	$(GO) vet ./...
	GOOS=darwin GOARCH=arm64 $(GO) vet ./...
	$(GO) tool staticcheck ./...
	@unformatted=$$(gofmt -l .); if [ -n "$$unformatted" ]; then echo "gofmt -w these:"; echo "$$unformatted"; exit 1; fi

bench:
	@$(GO) test -run='^$$' -bench='$(BENCH)' -p 1 -timeout 60m $(BENCHFLAGS) ./... | \
	   $(GO) run ./internal/benchtable $(if $(filter-out .,$(BENCH)),-partial)

fuzz:
	@FUZZTIME=$(FUZZTIME) scripts/fuzz $(FUZZ)

# Both are built before either is put in place, each by a rename: a running
# session finds one version or the other, never half a file. They are copied:
# a file as the linker wrote it costs every start of the hook 12 % more CPU.
install:
	@mkdir -p '$(DESTDIR)$(PREFIX)/bin'
	@built=$$(mktemp -d); trap 'rm -rf "$$built"' EXIT; \
	   CGO_ENABLED=0 $(GO) build -trimpath -o "$$built/" ./cmd/permd ./cmd/permd-hook; \
	   new=$$(mktemp -d '$(DESTDIR)$(PREFIX)/bin/.permd-XXXXXX'); trap 'rm -rf "$$built" "$$new"' EXIT; \
	   install -m 755 "$$built/permd-hook" "$$built/permd" "$$new/"; \
	   mv "$$new/permd-hook" "$$new/permd" '$(DESTDIR)$(PREFIX)/bin/'
	@echo 'installed $(PREFIX)/bin/permd and $(PREFIX)/bin/permd-hook'
	@case ":$$PATH:" in *':$(PREFIX)/bin:'*) ;; *) echo 'add $(PREFIX)/bin to PATH to call permd by its name';; esac

generate:
	$(GO) generate ./...
