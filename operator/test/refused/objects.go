// SPDX-License-Identifier: Apache-2.0

// Package refused lists objects that an API server takes, and changes of them that it refuses, for all that judges objects.
package refused

// Generator is a good generator.
const Generator = `
apiVersion: spate.dev/v1alpha1
kind: TrafficGenerator
metadata: {name: lab}
spec:
  replicas: 1
  ports:
  - name: east
    attachment: {kernel: {network: east, namespace: nets}}
    lineRate: 10Gbps
    addresses: [198.18.0.1/24, "2001:2::1/64"]
    gateway: 198.18.0.254
    gateway6: "fe80::1"
    multicastGroups: [{address: 239.1.1.1}, {address: "ff3e::1", sources: ["2001:2::9"]}]
    vlan: 100
    punt: {filter: tcp port 179, interface: bgp}
  - name: west
    attachment: {loopback: {}}
  workers: 2
  cpuPolicy: Exclusive
  packetMemory: {size: 128Mi, backing: Hugepages2Mi}
  memory: 320Mi
  pollMode: Auto
  volumes: [{name: captures, persistentVolumeClaim: {claimName: captures}}]
  podTemplate:
    metadata: {labels: {team: net}, annotations: {example.org/note: lab}}
    spec: {priorityClassName: high, nodeSelector: {nic: 100g}, imagePullSecrets: [{name: registry}]}
  limits: {maxRate: 5Mpps, allowedDestinations: [198.18.0.0/15], allowedPorts: ["7", 1024-65535]}
  allowedNamespaces: {from: Selector, selector: {matchLabels: {team: net}}}
  lease: 1m
`

// Router is a valid generator: its port has sessions of all routing protocols.
const Router = `
apiVersion: spate.dev/v1alpha1
kind: TrafficGenerator
metadata: {name: router}
spec:
  ports:
  - name: east
    attachment: {kernel: {network: east}}
    addresses: [10.99.0.1/24, "2001:db8:99::1/64"]
    gateway: 10.99.0.254
    routing:
      routerID: 1.1.1.1
      bgp:
      - name: dut
        localAS: 65001
        neighbor: {address: 10.99.0.2, as: 65002}
        families: [IPv4Unicast, IPv6Unicast]
        bfd: {interval: 50ms, multiplier: 3}
        passwordFrom: {secretKeyRef: {name: bgp, key: dut}}
        holdTime: 9s
        ttlSecurity: true
      - {name: far, localAS: 65001, neighbor: {address: 10.1.0.1, as: 4200000000}, multihop: 3, passive: true}
      ospf:
      - {name: core, version: 2, area: 0.0.0.1, network: PointToPoint, hello: 1s, dead: 4s, passwordFrom: {secretKeyRef: {name: ospf, key: core}}}
      - {name: core6, version: 3}
      rip: [{name: old, version: RIPv2, update: 5s, timeout: 30s}, {name: old6, version: RIPng}]
      bfd: [{name: alive, neighbor: 10.99.0.3}]
  routing: {memory: 256Mi}
`

// Stream is a good stream.
const Stream = `
apiVersion: spate.dev/v1alpha1
kind: StatelessStream
metadata: {name: syn}
spec:
  packet:
    headers:
    - ethernet: {destination: "02:00:00:00:00:01"}
    - vlan: {id: 100}
    - ipv4: {source: 16.0.0.1, destination: 48.0.0.1}
    - tcp: {destinationPort: 80, flags: [SYN]}
    payload: {hex: "00ff"}
    size: 128
  fields:
  - name: client
    range: {start: 16.0.0.0, end: 18.0.0.254}
    order: Random
    seed: 7
    writes: [{field: ipv4.source}]
  - name: port
    range: {start: 1025, end: 65000, step: 2}
    writes: [{field: tcp.sourcePort}, {offset: 60, size: 2, mask: "0xff00", shift: 8}]
  transmit: {continuous: {rate: 1Mpps}}
  measure: {flow: true}
`

// Profile is a good profile.
const Profile = `
apiVersion: spate.dev/v1alpha1
kind: TrafficProfile
metadata: {name: imix}
spec:
  generator:
    ports:
    - name: east
      attachment: {loopback: {}}
  traffic:
  - name: small
    transmitPort: east
    receivePort: east
    stream:
      inline:
        packet:
          headers:
          - ethernet: {}
          - ipv4: {source: 198.18.0.1, destination: 198.19.0.1}
          - udp: {destinationPort: 7}
          size: 64
        fields:
        - name: port
          range: {start: 1025, end: 65000}
          order: Random
          writes: [{field: udp.sourcePort}]
        transmit: {continuous: {rate: 80%}}
        measure: {flow: true}
  - name: other
    transmitPort: east
    stream:
      ref: {name: other}
      rate: 10kpps
  rate: 1.5x
  duration: 10s
  warmup: 1s
  thresholds:
  - name: no-loss
    expression: result.lost == 0
  runID: first
  whenBusy: Queue
  generatorTolerance: {late: 1%, txDropped: "10"}
`

// Headers is a good stream with the headers of links, networks, transports and tunnels, and all that varies in it.
const Headers = `
apiVersion: spate.dev/v1alpha1
kind: StatelessStream
metadata: {name: everything}
spec:
  packet:
    headers:
    - ethernet: {destination: "02:00:00:00:00:01"}
    - mpls: {label: 100, bottomOfStack: true}
    - pppoe: {sessionID: 7, length: 10}
    - ppp: {}
    - arp: {senderIP: 198.18.0.1, targetIP: 198.18.0.2}
    - ipv4: {source: 198.18.0.1, destination: 198.18.0.2, options: [{routerAlert: 0}, {raw: "9404"}], totalLength: 20, checksum: 0x1234}
    - ipv6: {source: "::1", destination: "::2"}
    - ipv6HopByHop: {options: [{type: 5, value: "0000"}]}
    - ipv6Destination: {}
    - ipv6Routing: {type: 4, segmentsLeft: 1, addresses: ["2001:2::1"]}
    - ipv6Fragment: {identification: 4294967295, offset: 8191}
    - icmpv4: {echoRequest: {identifier: 1}}
    - icmpv6: {neighborSolicitation: {target: "::2"}}
    - udp: {checksum: 0}
    - tcp: {destinationPort: 80, options: [{mss: 1460}, {nop: {}}, {sack: [{left: 1, right: 2}]}, {timestamps: {value: 1}}]}
    - sctp: {destinationPort: 80, chunks: [{raw: {type: 1}}, {data: {tsn: 1}}], checksum: 4294967295}
    - gre: {key: 4294967295, sequence: 1, checksumPresent: true, checksum: 1}
    - vxlan: {vni: 16777215}
    - geneve: {vni: 1, options: [{class: 1, type: 1, value: "00000000"}]}
    - gtpu: {teid: 4294967295, extensions: [{type: 133, content: "0009"}]}
    payload: {random: {seed: 1}}
    sizes: {list: [{size: 64, weight: 7}, {size: 1518}], order: Random, seed: 1}
  copies: {count: 20000, vary: [{field: ipv4.source, step: -1}, {offset: 30, size: 6}]}
  fields:
  - name: a
    values: [1, 0x10, "2001:2::1"]
    order: Reverse
    carryTo: b
    repeatAfter: 5
    scope: Worker
  - name: b
    range: {start: 64, count: 65}
    writes: [{field: packet.size}]
  transmit: {multiBurst: {packetsPerBurst: 5, interBurstGap: 10ms, rate: 5pps}}
  startDelay: 1ms
  cache: 10000
  pinned: true
  measure: {mark: {ipv6FlowLabel: 1048575}}
`

// Control is a good stream with the headers of control protocols, and of the tunnels that have control messages.
const Control = `
apiVersion: spate.dev/v1alpha1
kind: StatelessStream
metadata: {name: control}
spec:
  packet:
    headers:
    - ethernet: {destination: "01:80:c2:00:00:02"}
    - lacp: {actor: {systemPriority: 32768, system: "02:00:00:00:00:01", key: 1, portPriority: 255, port: 1, state: [Activity, Aggregation]}, partner: {system: "02:00:00:00:00:02"}, collectorMaxDelay: 50}
    - macControl: {pauseTime: 65535}
    - macControl: {priorityEnableVector: 255, times: [0, 1, 2, 3, 4, 5, 6, 65535], opcode: 257}
    - igmp: {message: MembershipQueryV3, groupAddress: 232.1.1.1, maxRespCode: 255, suppressRouterProcessing: true, qrv: 7, qqic: 255, sourceAddresses: [198.18.0.1]}
    - igmp: {message: MembershipReportV3, groupRecords: [{recordType: AllowNewSources, multicastAddress: 232.1.1.1, sourceAddresses: [198.18.0.1]}], checksum: 1}
    - icmpv6: {multicastListener: {message: QueryV2, maximumResponseCode: 65535, qrv: 7, sourceAddresses: ["2001:2::1"]}}
    - icmpv6: {multicastListener: {message: ReportV2, multicastAddressRecords: [{recordType: ModeIsExclude, multicastAddress: "ff0e::1"}]}, checksum: 1}
    - nsh: {servicePathIdentifier: 16777215, serviceIndex: 0, ttl: 0, oam: true, nextProtocol: 255, fixedContext: "000102030405060708090a0b0c0d0e0f"}
    - nsh: {servicePathIdentifier: 1, metadata: [{class: 65535, type: 255, value: "00"}]}
    - vxlan: {vni: 1, nextProtocol: 4, flags: 12}
    - l2tp: {tunnelID: 65535, sessionID: 65535, lengthPresent: true, length: 1, ns: 1, nr: 1, offsetSize: 255, priority: true}
    - l2tp: {control: true, tunnelID: 1, avps: "8008000000000006"}
    - ppp: {addressAndControl: false}
    - l2tpv3: {sessionID: 4294967295, cookie: "0001020304050607", l2SpecificSublayer: true, sequenceNumber: 16777215}
    - l2tpv3: {controlConnectionID: 4294967295, ns: 1, nr: 1, length: 12, avps: "00"}
    size: 1518
  fields:
  - name: group
    range: {start: 232.1.1.1, count: 100}
    writes: [{field: "igmp[1].multicastAddress"}]
  transmit: {continuous: {rate: 1pps}}
`

// Replay is a good replay.
const Replay = `
apiVersion: spate.dev/v1alpha1
kind: StatelessStream
metadata: {name: replay}
spec:
  transmit:
    replay:
      pcap: {volume: {name: captures, path: a/b.pcap}}
      gap: {scale: "0.5"}
      loops: 2
      minGap: 1us
      fixChecksums: true
  measure: {mark: {ipv4Identification: auto}}
`

// Answering is a good profile that sends nothing by itself.
const Answering = `
apiVersion: spate.dev/v1alpha1
kind: TrafficProfile
metadata: {name: answering}
spec:
  generator:
    ports:
    - name: east
      attachment: {loopback: {}}
  reflect: [{port: east, swap: Addresses}]
  receive: [{name: tap, port: east}]
`

// Advertising is a good profile that advertises routes.
const Advertising = `
apiVersion: spate.dev/v1alpha1
kind: TrafficProfile
metadata: {name: advertising}
spec:
  generatorRef: {name: router}
  receive: [{name: tap, port: east}]
  routing:
    advertise:
    - name: customers
      port: east
      sessions: [dut]
      prefixes: {range: {first: 20.0.0.0/24, count: 1000, step: 2}}
      attributes: {asPath: [64512], communities: ["65001:100"], largeCommunities: ["65001:1:2"], med: 10, origin: EGP, nextHop: 10.99.0.7}
    - {name: core, port: east, sessions: [core], state: Withdrawn, prefixes: {list: [203.0.113.0/24]}, attributes: {metric: 20}}
    ready: {quiet: 500ms}
`

// Template is a good template.
const Template = `
apiVersion: spate.dev/v1alpha1
kind: ASTFTemplate
metadata: {name: http}
spec:
  source:
    programs:
      transport: TCP
      client:
      - connect: {}
      - label: again
        send: {content: {text: hello}}
      - receive: {bytes: 5, clear: true}
      - delay: {min: 10ms, max: 20ms}
      - jump: {to: again, variable: left, comparison: Greater, value: 3}
      - receiveUntil: {httpMessage: {}}
      - close: {}
      server:
      - receive: {bytes: 5}
      - send: {content: {size: 5, fields: [{offset: 1, counter: {width: 3}}, {list: {text: [a, b]}}]}}
      - switchTemplate: {template: other}
      - waitForPeerClose: {}
  destinationPort: 80
  connectionRate: 100cps
  pools:
    clients: [{name: c, start: 16.0.0.1, end: 16.0.0.254, sourcePorts: {start: 2000, max: 3000}, startMAC: "02:00:00:00:00:01"}]
    servers: [{name: s, start: 48.0.0.1, end: 48.0.0.254, order: Random, seed: 7, weight: 2}]
  match: [{text: GET}, {offset: 4, hex: 2f}]
`

// Clients is a good group of clients.
const Clients = `
apiVersion: spate.dev/v1alpha1
kind: ClientGroup
metadata: {name: subscribers}
spec:
  mac: {first: "02:10:00:00:00:00"}
  vlans: [{first: 100, count: 100}]
  hostname: "sub-{n:08}"
  ipv4: {dhcp: {vendorClass: spate, leaseTime: 600s, probes: 1}}
  ipv6: {dhcp: {prefix: 56}}
  retry: {first: 4s, spread: 1s}
`

// Run is a good run.
const Run = `
apiVersion: spate.dev/v1alpha1
kind: TrafficRun
metadata: {name: imix-1}
spec:
  profileRef: {name: imix}
  overrides:
    generatorRef: {name: lab, namespace: shared}
    rate: 80%
    duration: 10s
    warmup: 1s
    thresholds: [{name: no-loss, expression: result.lost == 0}]
  baselineRef: {name: imix-0}
  paused: true
  ttlSecondsAfterFinished: 3600
`

// Describing is a good run that describes what it executes.
const Describing = `
apiVersion: spate.dev/v1alpha1
kind: TrafficRun
metadata: {generateName: once-}
spec:
  profile:
    generatorRef: {name: lab}
    traffic:
    - name: small
      stream: {ref: {name: small}}
    duration: 10s
`
