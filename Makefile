# Towpath's tasks. Each is one command; "make help" lists them.
SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help build check lint test race e2e gostd bench generate sim

PKGS := ./...
# packages in which goroutines meet; the rest has nothing that the race detector could find
RACE := . ./internal/dispatch/... ./internal/session/... ./internal/agent/... ./internal/executor/... ./internal/server/... ./internal/store/... ./internal/httpapi/... ./internal/cli/...

help: ## list the tasks
	@grep -hE '^[a-z0-9]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

build: bin/towpath ## build bin/towpath

bin/towpath: FORCE
	go build -o $@ ./cmd/towpath

FORCE:

check: lint bin/heldcall ## lint and vet, with the project's own checks
	go vet ./...
	go vet -vettool=$(CURDIR)/bin/heldcall ./...
	cd tools && go vet ./... && go test ./...

lint: bin/golangci-lint ## golangci-lint
	bin/golangci-lint run ./...

bin/golangci-lint: tools/go.mod tools/go.sum
	cd tools && go build -o ../$@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint

bin/heldcall: $(wildcard tools/heldcall/*.go tools/cmd/heldcall/*.go)
	cd tools && go build -o ../$@ ./cmd/heldcall

test: build ## everything that this machine can test; installs what it may
	. scripts/test-deps && go test -timeout 30m $(PKGS)

race: ## the packages in which goroutines meet, under the race detector
	go test -race -timeout 30m $(RACE)
	go test -race -short -timeout 30m ./tunnel/...

e2e: build ## the whole program against real projects
	. scripts/test-deps && go test -timeout 30m ./e2e/...

gostd: ## the Go standard library's tests, by towpath and by go test: many minutes
	TOWPATH_TEST_GOSTD=all go test ./e2e/... -run StandardLibrary -v -timeout 60m

bench: build ## the benchmarks; figures go to docs/benchmarks.md by hand
	. scripts/test-deps && go test -run '^$$' -bench . -benchtime 1x ./bench/...

sim: ## a million simulated fault schedules
	go test ./internal/sched/... -run Simulation -schedules 1000000 -timeout 0

generate: ## generated code
	go generate ./...
