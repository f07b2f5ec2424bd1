# What developers and CI run. A target's comment behind ## is its line in `make help`.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# GOTESTSUM prints one line a package, the output of what fails, and a count at the end.
GOTESTSUM := go tool gotestsum --format standard-quiet --hide-summary=skipped --

.PHONY: help
help: ## List what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: ## Build bin/posthaste, a static binary
	CGO_ENABLED=0 go build -trimpath -o bin/posthaste ./cmd/posthaste

.PHONY: demo
demo: ## See a queue push, retry and bury within half a minute
	go run ./cmd/posthaste demo

.PHONY: test
test: ## Run all tests: unit, conformance, end to end, crash, bench, and overload by itself
	$(GOTESTSUM) -count=1 ./...
	go -C test/bench test -count=1 ./...
	POSTHASTE_TEST_FLOOD=1m $(GOTESTSUM) -count=1 ./test/overload

.PHONY: check
check: lint ## Run what a change must pass: lint, layers, all tests with the race detector
	$(GOTESTSUM) -count=1 -race ./...
	go -C test/bench test -count=1 -race ./...

.PHONY: lint
lint: ## Check format, vet, staticcheck and the layers
	@unformatted=$$(go tool gofumpt -l .); \
	if [ -n "$$unformatted" ]; then echo "not formatted, run make fmt:"; echo "$$unformatted"; exit 1; fi
	go vet ./...
	go -C test/bench vet ./...
	go tool staticcheck ./...
	cd test/bench && $$(go -C ../.. tool -n staticcheck) ./...
	go test -count=1 ./test

# FUZZTIME is how long each target is tried, FUZZJOBS how many at a time, on a processor each.
FUZZTIME ?= 1m
FUZZJOBS ?= 2

.PHONY: fuzz
fuzz: ## Try every decoder on input that is made up, for FUZZTIME each
	@grep -roE '^func Fuzz\w+' --include='*_test.go' . | sort | xargs -P $(FUZZJOBS) -I {} bash -c '\
		found="{}"; file=$${found%%:*}; target=$${found##*func }; \
		if out=$$(go test -run "^$$" -fuzz "^$$target$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 1s -parallel 1 "$$(dirname "$$file")" 2>&1); \
		then echo "$$target in $$(dirname "$$file"): $$(grep -o "execs: [0-9]*" <<<"$$out" | tail -1)"; \
		else echo "$$out"; echo "$$target in $$(dirname "$$file") failed" >&2; exit 1; fi'

.PHONY: fmt
fmt: ## Format the source
	go tool gofumpt -w .

.PHONY: generate
generate: ## Make generated code anew
	go generate ./...

# test/bench is a module of its own: what it measures beside is none of the server's
# dependencies. BENCHFLAGS are its flags; their paths are looked for from there.
BENCHFLAGS ?=

.PHONY: bench
bench: ## Measure the real binary on each store, beside others; ten minutes
	go run -C test/bench . $(BENCHFLAGS)

.PHONY: bench-report
bench-report: ## Measure, and keep the figures in test/reports; on a quiet machine
	mkdir -p test/reports
	go run -C test/bench . -report ../reports $(BENCHFLAGS)
