# What is needed: Go, make and Python 3. `make help` lists the targets.

GO      ?= go
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null)
COMMIT  ?= $(shell git rev-parse --short=12 HEAD 2>/dev/null)
LDFLAGS := -s -w -X main.version=$(VERSION) -X main.commit=$(COMMIT)

# The race detector needs cgo, which Go turns off where it finds no C compiler.
RACE := $(if $(filter 1,$(shell $(GO) env CGO_ENABLED)),-race)

.DEFAULT_GOAL := help
.PHONY: help build test test-extras test-release test-envoys random tools figures faults soak bench bench-check fuzz demo release-snapshot lint check clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## Build bin/consul-hds, a static binary
	CGO_ENABLED=0 $(GO) build -trimpath -buildvcs=false -ldflags '$(LDFLAGS)' -o bin/consul-hds ./cmd/consul-hds

test: tools ## Run all tests: unit and end-to-end, with the race detector
	$(if $(RACE),,@echo 'NOTE: no C compiler was found: the tests run without the race detector')
	@unshare --net true 2>/dev/null || echo 'NOTE: this user may make no network namespaces: the mesh is tested without (root may, and so may all by `unshare -r`)'
	LAB_RACE=$(if $(RACE),1,0) $(GO) test $(RACE) -count=1 -parallel 8 -timeout 20m ./...
	cd test/nomad && $(GO) test $(RACE) -count=1 -timeout 5m ./...

test-extras: tools test-release ## Run the tests that need Debian's packages chromium and prometheus (promtool), and test-release
	cd test/extras && LAB_RACE=$(if $(RACE),1,0) $(GO) test $(RACE) -count=1 -timeout 10m ./...

test-release: ## Build a release twice, compare, and look into its archives and packages
	cd release && $(GO) test -count=1 -timeout 20m ./...

tools: ## Get the Consul and the Envoy of the tests (minutes, only once)
	@$(GO) run -buildvcs=false ./test/lab/cmd/fetch

test-envoys: tools ## Run the end-to-end suite on every Envoy that is claimed to work (half an hour)
	$(GO) run -buildvcs=false ./test/envoys

CHECKS ?= 1000
SEED ?= 0
random: ## Run the random world in fake time against its model: CHECKS=1000 worlds, SEED=0 others each time
	$(GO) test $(RACE) -count=1 -timeout 0 -run 'RandomWorld|TheSameSeed' ./bridge -v -rapid.nofailfile -rapid.checks=$(CHECKS) -rapid.seed=$(SEED) -rapid.steps=60

figures: tools ## Measure what the docs claim: delays, restarts, writes, CPU, servers (twenty-five minutes)
	$(GO) run -buildvcs=false ./test/figures

faults: tools ## Break all parts, the network between them and Consul, and judge what users see (about two hours)
	$(GO) run -buildvcs=false ./test/faults

soak: tools ## Churn a node for two hours: fail if the daemon grows or a status is wrong
	$(GO) run -buildvcs=false ./test/soak

bench: tools ## Measure ratios to what cannot cost less; prints a table (half an hour)
	$(GO) test -run '^$$' -bench . -count 5 ./bridge/...
	$(GO) run -buildvcs=false ./test/load

# Counts, not times, and without the race detector, which allocates too.
bench-check: ## Fail if steady reports and polls, flips or changes allocate more than they may (seconds, once it is built)
	$(GO) test -count=1 -run 'Cost|MadeOnce|KeepsOne|OnlyWhatChanges|NotDerivedAgain|NotDecodedAgain|TwoGoroutines|Packed' ./bridge ./bridge/catalog ./bridge/hds ./bridge/probe ./bridge/checks ./bridge/agenda ./bridge/telemetry

FUZZTIME ?= 10m
fuzz: ## Run every fuzz target for 10 minutes each, or FUZZTIME=30s (under 15s may not do for a corpus); ends at the first finding
	@$(GO) run -buildvcs=false ./test/fuzz -time $(FUZZTIME)

demo: ## Watch an unhealthy instance leave Consul's routing and come back
	@$(GO) build -buildvcs=false -o bin/demo ./test/demo
	@bin/demo

release-snapshot: ## Build archives, deb, rpm and checksums of this commit into dist
	cd release && $(GO) run -buildvcs=false . -out ../dist

lint: ## golangci-lint where it is installed, else go vet and gofmt
ifneq ($(shell command -v golangci-lint 2>/dev/null),)
	golangci-lint run ./...
	cd test/nomad && golangci-lint run ./...
	cd release && golangci-lint run ./...
else
	@echo 'golangci-lint is not installed: go vet and gofmt only'
	$(GO) vet ./...
	cd test/nomad && $(GO) vet ./...
	cd release && $(GO) vet ./...
	@unformatted=$$(gofmt -l .); if [ -n "$$unformatted" ]; then \
	  echo "not formatted by gofmt:"; echo "$$unformatted"; exit 1; fi
endif

check: ## Prove the import rules, the tidy modules and the formatted HCL
	@$(GO) run -buildvcs=false ./test/check

clean: ## Remove what was built here (not the cache of make tools)
	rm -rf bin dist .lab
