# replgate needs Go, git and make; nothing else. `make help` lists the targets.

GO         ?= go
FUZZTIME   ?= 30s
BENCHTIME  ?= 1s
VERSION    ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)

# Tools have a module of their own, so that none of their dependencies becomes one of replgate's.
STATICCHECK = $(GO) tool -modfile=tools/go.mod staticcheck

.DEFAULT_GOAL := help

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: ## build bin/replgate, version from git
	$(GO) build -trimpath -ldflags "-X main.version=$(VERSION)" -o bin/replgate ./cmd/replgate

# One run of the tests is enough: with the race detector, and the seeds of every fuzz target are part of it.
.PHONY: check
check: fmt-check vet staticcheck race guards ## everything that must hold before a commit; what CI runs

.PHONY: fmt-check
fmt-check: ## fail and list the files that gofmt would change
	@out=$$(gofmt -l .) || exit 1; if [ -n "$$out" ]; then echo "gofmt would change:"; echo "$$out"; exit 1; fi

.PHONY: vet
vet: ## go vet
	$(GO) vet ./...

.PHONY: staticcheck
staticcheck: ## staticcheck, in the version that tools/go.mod names
	$(STATICCHECK) ./...

.PHONY: test
test: ## all tests, fuzz seeds included, without the race detector
	$(GO) test ./...

.PHONY: race
race: ## all tests, fuzz seeds included, with the race detector
	$(GO) test -race ./...

# The race detector changes what things cost; these count and compare costs.
.PHONY: guards
guards: ## allocations, system calls, memory and the cost of the rules, without the race detector
	$(GO) test -run 'Guard|Allocate' ./wire ./policy ./proxy

.PHONY: soak
soak: ## the long variants: 100,000 failing connections, thousands of strangers and swaps of files, stalls of half a minute, every wrong plan
	REPLGATE_SOAK=1 $(GO) test -timeout 60m -run 'NothingLeaks|Strangers|Stalled|SeriesAreBounded|Backpressure|IdleLink|NeverMissed' ./cmd/replgate
	REPLGATE_SOAK=1 $(GO) test -timeout 60m -run 'Mutants' ./harden

# `go test -fuzz` takes one target of one package at a time.
.PHONY: fuzz
fuzz: ## run each fuzz target for FUZZTIME (30s)
	@grep -roE --include='*_test.go' '^func Fuzz[A-Za-z0-9_]*' . | sort | \
	while IFS=: read -r file func; do \
		target=$${func#func }; dir=$$(dirname "$$file"); echo "== $$dir $$target"; \
		$(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) "$$dir" || exit 1; \
	done

# As root, on Linux: it makes a network namespace, and installs the peers that Debian has.
.PHONY: bench
bench: ## gates beside HAProxy, nginx and others, about ten minutes; writes dist/bench.json and dist/bench.md
	@mkdir -p bin dist && $(GO) build -o bin/bench ./internal/bench && bin/bench -json dist/bench.json -page dist/bench.md

.PHONY: bench-quick
bench-quick: ## the same in three minutes, with fewer rounds
	@mkdir -p bin && $(GO) build -o bin/bench ./internal/bench && bin/bench -quick

.PHONY: bench-parts
bench-parts: ## the benchmarks of single parts, with their allocations, BENCHTIME (1s) each
	$(GO) test -run '^$$' -bench . -benchtime $(BENCHTIME) -benchmem ./...

.PHONY: demo
demo: ## a whole cluster of stand-in replicas behind gates, on this machine
	$(GO) run ./internal/demo

.PHONY: docs
docs: ## write what is generated below docs/: keys, manual pages, completion
	$(GO) run ./cmd/replgate docs docs

.PHONY: clean
clean: ## remove what build made
	rm -rf bin dist

# A release, see deploy/dist.sh. Binaries for Linux, and for macOS to develop on.
DIST = GO="$(GO)" VERSION="$(VERSION)" bash deploy/dist.sh

.PHONY: dist
dist: ## dist/: static binaries, bills of materials, SHA256SUMS
	@$(DIST) dist

.PHONY: dist-check
dist-check: ## build the binaries in two folders, from nothing, and compare
	@$(DIST) check

.PHONY: packages
packages: ## dist/: deb and rpm as well
	@$(DIST) packages
