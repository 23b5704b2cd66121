# SPDX-License-Identifier: Apache-2.0
# How are the images made? Targets `engine` and `operator`: `docker build --target engine .` anywhere, `make images` without
# Docker. Every base is an argument, so that it can come from a mirror or be made locally; all three must be the same Debian
# release, because the engine links to its DPDK.
ARG DEBIAN=debian:bookworm-slim
ARG RUST=rust:1.95-slim-bookworm
ARG GO=golang:1.26-bookworm

FROM ${RUST} AS engine-build
RUN apt-get update \
 && apt-get install -y --no-install-recommends libdpdk-dev libpcap-dev libclang-dev gcc libc6-dev pkg-config \
 && apt-get clean && rm -rf /var/lib/apt/lists/*
WORKDIR /src/engine
COPY engine .
RUN cargo build $(pgo/arguments) --locked --release --package spate-engine \
 && install -D "${CARGO_TARGET_DIR:-target}/release/spate-engine" /out/spate-engine

# Not an image that runs: the program of `make bench`, here since it has nearly all dependencies of the engine, built in the same way.
FROM engine-build AS bench
RUN cargo build $(pgo/arguments) --locked --release --package spate-bench \
 && install -D "${CARGO_TARGET_DIR:-target}/release/spate-bench" /out/spate-bench

FROM ${GO} AS operator-build
WORKDIR /src/operator
ENV CGO_ENABLED=0 GOFLAGS=-trimpath
COPY operator/go.mod operator/go.sum ./
COPY api /src/api
COPY crds /src/crds
RUN go mod download
COPY operator .
RUN GOGC=off GOMEMLIMIT=3GiB go build -ldflags='-s -w' -o /out/spate-operator ./cmd/manager

# DPDK's run time with the drivers that ports are made of, and of NICs with SR-IOV; libpcap compiles packet filters; libxdp, which the
# driver of AF_XDP brings, has the XDP program for its sockets (/usr/lib/ARCHITECTURE/bpf). The
# expressions leave out DPDK's version, which is part of each package's name.
FROM ${DEBIAN} AS dpdk
RUN apt-get update \
 && apt-get install -y --no-install-recommends \
      '^libpcap0.8(t64)?$' '^librte-eal[0-9]+$' '^librte-(bus-(pci|vdev|auxiliary|vmbus)|mempool-ring|common-mlx5)-?[0-9]+$' \
      '^librte-net-(af-packet|af-xdp|bond|memif|null|ring|virtio|iavf|e1000|igc|ixgbe|i40e|ice|vmxnet3|ena|bnxt|mlx5)-?[0-9]+$' \
 && apt-get clean && rm -rf /var/lib/apt/lists/* /var/log/apt /var/log/dpkg.log /var/cache/debconf
COPY --from=engine-build /out/spate-engine /usr/local/bin/

COPY engine/image/bird.conf /image/
COPY engine/image/collect /usr/local/sbin/
RUN collect /out /usr/local/bin/spate-engine

# BIRD speaks the routing protocols of ports, in a container of its own that has the engine's image.
FROM dpdk AS routing
RUN apt-get update \
 && apt-get install -y --no-install-recommends bird2 \
 && apt-get clean && rm -rf /var/lib/apt/lists/* /var/log/apt /var/log/dpkg.log /var/cache/debconf
RUN rm -rf /out && collect /out /usr/local/bin/spate-engine /usr/sbin/bird \
 && install -D -m 644 /image/bird.conf /out/etc/spate/bird.conf

# What runs, and no more: no shell, no package manager, nothing that gains rights (build/image-check).
# The pod names the user and drops all capabilities but those that its ports need: NET_RAW, or the VF's device node, is for root.
FROM scratch AS engine
COPY --from=routing /out /
ENV PATH=/usr/local/bin
ENTRYPOINT ["/usr/local/bin/spate-engine"]

# The operator's image carries the engine too: `spate-engine compile` judges plans without sending a packet.
FROM scratch AS operator
COPY --from=dpdk /out /
COPY --from=operator-build /out/spate-operator /usr/local/bin/
ENV PATH=/usr/local/bin
USER 65532:65532
ENTRYPOINT ["/usr/local/bin/spate-operator"]
