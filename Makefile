# make deps test   everything, on an empty Debian machine (deps needs root)
# make test        lint and all tests; installs nothing outside its cache folder
GO      ?= go
BIN     := $(CURDIR)/bin
LINT    := $(BIN)/golangci-lint
LINT_VERSION := v2.15.0
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS := -X main.version=$(VERSION)

.PHONY: build deps test check unit integration fuzz lint vet bench bench-peer chaos bench-unit clean

build:
	$(GO) build -trimpath -ldflags "$(LDFLAGS)" -o $(BIN)/connectctl ./cmd/connectctl

deps:
	integration/env/deps.sh

test: check vet lint
	integration/test.sh

check:
	@integration/env/check.sh

vet:
	$(GO) vet ./...

lint: $(LINT)
	$(LINT) run ./...

$(LINT): go.mod
	@$(LINT) version 2>/dev/null | grep -q "$(LINT_VERSION:v%=%)" || GOBIN=$(BIN) GOFLAGS= $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(LINT_VERSION)
	@touch $(LINT)

unit:
	$(GO) test -race -short ./...

integration:
	integration/test.sh integration

# Every fuzz target for FUZZTIME (5m), one after another; FUZZ=pattern takes some of them.
fuzz:
	integration/fuzz.sh $(FUZZ)

bench:
	integration/bench.sh

# Beside Debezium on Kafka Connect, over TCP.
bench-peer:
	BENCH=peer integration/bench.sh

# make chaos ROUNDS=1000 KEEP=docs/proof.md   also SEED=, FOR=10m, LABS=2, FAULT="broker killed"
chaos:
	$(GO) run ./integration/chaos/cmd $(if $(ROUNDS),-rounds $(ROUNDS)) $(if $(FOR),-for $(FOR)) $(if $(SEED),-seed $(SEED)) $(if $(LABS),-labs $(LABS)) $(if $(FAULT),-fault "$(FAULT)") $(if $(KEEP),-keep $(KEEP))

bench-unit:
	$(GO) test -run '^$$' -bench . -benchmem ./schema/... ./connectors/... ./pipeline/...

clean:
	rm -rf $(BIN)
