/* SPDX-License-Identifier: Apache-2.0 */
/* What Rust cannot call directly: inline functions, and structs whose layout differs between DPDK versions. libpcap is
 * here for its compiler of packet filters. */
#pragma once
#include <stddef.h>
#include <pcap/pcap.h>
#include <rte_dev.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_eth_bond.h>
#include <rte_eth_bond_8023ad.h>
#include <rte_eth_ring.h>
#include <rte_ethdev.h>
#include <rte_lcore.h>
#include <rte_log.h>
#include <rte_mbuf.h>
#include <rte_mempool.h>
#include <rte_ring.h>
#include <rte_version.h>

/* Where the fields of an mbuf lie in the DPDK at hand. Constants, so that Rust's accesses are inlined. */
enum {
	SPATE_MBUF_BUF_ADDR = offsetof(struct rte_mbuf, buf_addr),
	SPATE_MBUF_OL_FLAGS = offsetof(struct rte_mbuf, ol_flags),
	SPATE_MBUF_DATA_OFF = offsetof(struct rte_mbuf, data_off),
	SPATE_MBUF_NB_SEGS = offsetof(struct rte_mbuf, nb_segs),
	SPATE_MBUF_PKT_LEN = offsetof(struct rte_mbuf, pkt_len),
	SPATE_MBUF_DATA_LEN = offsetof(struct rte_mbuf, data_len),
	SPATE_MBUF_TX_OFFLOAD = offsetof(struct rte_mbuf, tx_offload),
};
/* What is left of a packet to the device, in its flags, */
enum {
	SPATE_TX_IPV4 = RTE_MBUF_F_TX_IPV4 | RTE_MBUF_F_TX_IP_CKSUM,
	SPATE_TX_IPV6 = RTE_MBUF_F_TX_IPV6,
	SPATE_TX_TCP = RTE_MBUF_F_TX_TCP_CKSUM,
	SPATE_TX_UDP = RTE_MBUF_F_TX_UDP_CKSUM,
	SPATE_TX_TSO = RTE_MBUF_F_TX_TCP_SEG,
};
/* where the lengths of its headers, and of segments' data, lie in the field for them, */
enum {
	SPATE_TX_L2_SHIFT = RTE_MBUF_L2_LEN_OFS,
	SPATE_TX_L3_SHIFT = RTE_MBUF_L3_LEN_OFS,
	SPATE_TX_L4_SHIFT = RTE_MBUF_L4_LEN_OFS,
	SPATE_TX_SEGMENT_SHIFT = RTE_MBUF_TSO_SEGSZ_OFS,
};
/* and what the device reports of a received packet's transport checksum. */
enum {
	SPATE_RX_L4_MASK = RTE_MBUF_F_RX_L4_CKSUM_MASK,
	SPATE_RX_L4_GOOD = RTE_MBUF_F_RX_L4_CKSUM_GOOD,
};
/* What a device can do of the work on packets. */
enum {
	/* Completes checksums of IPv4, TCP and UDP. */
	SPATE_CAN_TX_CHECKSUM = 1,
	/* Cuts TCP into segments. */
	SPATE_CAN_TSO = 2,
	/* Verifies checksums of IPv4, TCP and UDP. */
	SPATE_CAN_RX_CHECKSUM = 4,
	/* Stamps received packets with the value of a counter of its own. */
	SPATE_CAN_RX_TIMESTAMP = 8,
};

/* Where every mbuf has 8 bytes for a note of this program, which no driver uses and which stay as they are while it is free; they are 0 in
 * a new pool. A negative errno if there is no room for them. */
int spate_note_offset(void);
/* Where every mbuf has the 8 bytes of a received packet's time stamp, and the flag of packets that have one (rte_mbuf_dyn.h): drivers register
 * the same. 0 or a negative errno. */
int spate_stamp_field(int *offset, uint64_t *flag);

/* Called for every line DPDK logs; level as RTE_LOG_*. */
typedef void (*spate_log_fn)(uint32_t level, const char *text, size_t len);
int spate_log_to(spate_log_fn fn);

int spate_errno(void);
uint64_t spate_tsc(void);

struct spate_port_info {
	char driver[32];
	uint8_t mac[6];
	uint16_t mtu;
	uint16_t max_rx_queues;
	uint16_t max_tx_queues;
	/* What the driver can do, to fit ring sizes into. */
	uint16_t rx_desc_min, rx_desc_max, rx_desc_align;
	uint16_t tx_desc_min, tx_desc_max, tx_desc_align;
	int numa_node;
	/* Bytes of the key of receive-side scaling; 0 if the device does not hash. */
	uint8_t rss_key_len;
	/* Of SPATE_CAN_*. */
	uint32_t offloads;
};
/* These return 0 or a negative errno. */
int spate_port_info(uint16_t port, struct spate_port_info *info);
/* Several receive queues share packets out by addresses and ports, with this key: its first bytes where the device takes
 * fewer, and 0 behind it where it takes more. The device does of the work on packets what `offloads` says, of what it can.
 * `mtu` is 0 for the driver's own. */
int spate_port_configure(uint16_t port, uint16_t rx_queues, uint16_t tx_queues, const uint8_t *key, uint8_t key_len,
			 uint32_t offloads, uint32_t mtu);

/* A bond by LACP (IEEE 802.1AX), which distributes by addresses and ports. It has no members yet. */
int spate_bond_create(const char *name, uint16_t *port);
/* Adds a port that is neither configured nor started. */
int spate_bond_add(uint16_t bond, uint16_t member);
/* What LACP knows of a member. States are bits of IEEE 802.1AX, 6.4.2.3 (LACP_Activity is the lowest). */
struct spate_lacp {
	uint8_t actor_state;
	uint8_t partner_state;
	uint8_t partner_system[6];
	uint16_t partner_key;
	uint16_t partner_port;
	/* The member that owns the aggregator in use. */
	uint16_t aggregator;
};
/* -EINVAL if the member has no link. */
int spate_bond_lacp(uint16_t bond, uint16_t member, struct spate_lacp *lacp);
/* Sends what LACP has to say, which a bond does only when it is asked to send. To be called from the thread that sends. */
void spate_bond_tend(uint16_t bond, uint16_t queue);
/* Stops and starts a port, from the thread that alone uses its queues. */
int spate_port_restart(uint16_t port);

/* How a started port shares packets out, as read back from its device. */
enum spate_hashes {
	SPATE_HASHES_TCP4 = 1,
	SPATE_HASHES_UDP4 = 2,
	SPATE_HASHES_TCP6 = 4,
	SPATE_HASHES_UDP6 = 8,
};
struct spate_spread {
	/* Of SPATE_HASHES_*: by addresses and ports. */
	uint32_t hashes;
	uint8_t key_len;
	uint8_t key[64];
	/* Queues by the hash's remainder. */
	uint16_t table_len;
	uint16_t table[2048];
};
/* Asks the device for a table of the remainder by `wrap`, dealt to the queues in turn, and reads back what it has. */
int spate_port_spread(uint16_t port, uint16_t rx_queues, uint16_t wrap, struct spate_spread *spread);
/* As many as the virtual functions of Intel's 10G NICs take, the fewest of all. */
#define SPATE_MAX_GROUPS 30
/* Frames to these groups, 6 bytes each, are received, and to no others unless the port is promiscuous. */
int spate_port_hear_groups(uint16_t port, const uint8_t *macs, uint32_t count);
/* Gives the device its own address, of 6 bytes. */
int spate_port_set_mac(uint16_t port, const uint8_t *mac);
int spate_port_setup_rx(uint16_t port, uint16_t queue, uint16_t descriptors, struct rte_mempool *pool);
int spate_port_setup_tx(uint16_t port, uint16_t queue, uint16_t descriptors);
/* Speed in Mbit/s, 0 if unknown. */
int spate_port_link(uint16_t port, bool *up, uint32_t *speed);

struct spate_port_stats {
	uint64_t rx_missed;
	uint64_t rx_errors;
	uint64_t rx_no_buffer;
	uint64_t tx_packets;
	uint64_t tx_errors;
};
int spate_port_stats(uint16_t port, struct spate_port_stats *stats);

/* A counter of the device's own (extended statistics of ethdev). */
struct spate_xstat {
	char name[64];
	uint64_t value;
};
/* Reads up to `room` of them. Returns how many there are, or a negative errno. */
int spate_port_xstats(uint16_t port, struct spate_xstat *xstats, unsigned int room);
/* Stops and closes the port and detaches its device. */
int spate_port_close(uint16_t port);

uint16_t spate_tx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **bufs, uint16_t n);
/* The same for packets that the driver must prepare for its offloads (rte_eth_tx_prepare). `refused`: none was taken,
 * since the first is one that the driver can do nothing with. */
uint16_t spate_tx_prepared_burst(uint16_t port, uint16_t queue, struct rte_mbuf **bufs, uint16_t n, bool *refused);
uint16_t spate_rx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **bufs, uint16_t n);
/* All or nothing: 0 or a negative errno. */
int spate_take_bulk(struct rte_mempool *pool, struct rte_mbuf **bufs, unsigned int n);
/* Back to the pool of all of them, as they were taken: one segment, one user. */
void spate_put_bulk(struct rte_mempool *pool, struct rte_mbuf **bufs, unsigned int n);
void spate_free_bulk(struct rte_mbuf **bufs, unsigned int n);
/* Copies the last `len` bytes of a packet of any number of segments; false if it is shorter. */
bool spate_copy_tail(const struct rte_mbuf *m, uint32_t len, void *out);

/* A pool of packet buffers as one piece of memory without gaps, to be shared with the kernel. Of hugepages, those that cross from
 * a page to the next are withheld: the next need not be the next in physical memory, too. NULL with rte_errno set on failure. */
struct rte_mempool *spate_pool_in_one_piece(const char *name, unsigned int n, unsigned int cache, uint16_t data_room, int socket_id);
bool spate_has_hugepages(void);

/* Adds packets to a ring in order. Returns how many there was room for. */
unsigned int spate_ring_add(struct rte_ring *ring, struct rte_mbuf **bufs, unsigned int n);
/* Packets that there is room for. */
unsigned int spate_ring_room(const struct rte_ring *ring);
/* One user more: a packet is free once every user has freed it. */
void spate_mbuf_share(struct rte_mbuf *m);

/* Frees the packets in a ring, then the ring. */
void spate_ring_free(struct rte_ring *ring);

/* A pool of `n` packets that are written once and sent again and again: freeing one only counts it. Their pointers go to
 * `out`. NULL with rte_errno set on failure. */
struct rte_mempool *spate_prebuilt_create(const char *name, unsigned int n, uint16_t data_room, struct rte_mbuf **out);
/* How often one of its packets was freed since. */
uint64_t spate_prebuilt_returned(const struct rte_mempool *pool);
