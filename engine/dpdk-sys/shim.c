/* SPDX-License-Identifier: Apache-2.0 */
/* See shim.h. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <rte_cycles.h>
#include <rte_malloc.h>
#include <rte_mbuf_dyn.h>
#include <rte_mbuf_pool_ops.h>
#include <rte_memory.h>
#include "shim.h"

/* Rust writes these four as one number. */
_Static_assert(offsetof(struct rte_mbuf, refcnt) == offsetof(struct rte_mbuf, data_off) + 2, "mbuf layout");
_Static_assert(offsetof(struct rte_mbuf, nb_segs) == offsetof(struct rte_mbuf, data_off) + 4, "mbuf layout");
_Static_assert(offsetof(struct rte_mbuf, port) == offsetof(struct rte_mbuf, data_off) + 6, "mbuf layout");
_Static_assert(RTE_ETH_XSTATS_NAME_SIZE == sizeof(((struct spate_xstat *)0)->name), "xstats layout");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "little endian");

static spate_log_fn log_fn;

static ssize_t
log_write(void *cookie, const char *buf, size_t size)
{
	RTE_SET_USED(cookie);
	log_fn(rte_log_cur_msg_loglevel(), buf, size);
	return size;
}

int
spate_log_to(spate_log_fn fn)
{
	FILE *stream = fopencookie(NULL, "w", (cookie_io_functions_t){ .write = log_write });

	if (stream == NULL)
		return -ENOMEM;
	setvbuf(stream, NULL, _IOLBF, 1024);
	log_fn = fn;
	return rte_openlog_stream(stream);
}

int
spate_errno(void)
{
	return rte_errno;
}

uint64_t
spate_tsc(void)
{
	return rte_rdtsc();
}

int
spate_note_offset(void)
{
	static const struct rte_mbuf_dynfield note = { .name = "spate_note", .size = sizeof(uint64_t), .align = sizeof(uint64_t) };
	int offset = rte_mbuf_dynfield_register(&note);

	return offset < 0 ? -rte_errno : offset;
}

int
spate_stamp_field(int *offset, uint64_t *flag)
{
	return rte_mbuf_dyn_rx_timestamp_register(offset, flag) != 0 ? -rte_errno : 0;
}

#define TX_CHECKSUM (RTE_ETH_TX_OFFLOAD_IPV4_CKSUM | RTE_ETH_TX_OFFLOAD_TCP_CKSUM | RTE_ETH_TX_OFFLOAD_UDP_CKSUM)

int
spate_port_info(uint16_t port, struct spate_port_info *info)
{
	struct rte_eth_dev_info dev;
	struct rte_ether_addr mac;
	int rc;

	memset(info, 0, sizeof(*info));
	rc = rte_eth_dev_info_get(port, &dev);
	if (rc != 0)
		return rc;
	rc = rte_eth_macaddr_get(port, &mac);
	if (rc != 0)
		return rc;
	rc = rte_eth_dev_get_mtu(port, &info->mtu);
	if (rc != 0)
		return rc;
	snprintf(info->driver, sizeof(info->driver), "%s", dev.driver_name);
	memcpy(info->mac, mac.addr_bytes, sizeof(info->mac));
	info->max_rx_queues = dev.max_rx_queues;
	info->max_tx_queues = dev.max_tx_queues;
	info->rx_desc_min = dev.rx_desc_lim.nb_min;
	info->rx_desc_max = dev.rx_desc_lim.nb_max;
	info->rx_desc_align = dev.rx_desc_lim.nb_align;
	info->tx_desc_min = dev.tx_desc_lim.nb_min;
	info->tx_desc_max = dev.tx_desc_lim.nb_max;
	info->tx_desc_align = dev.tx_desc_lim.nb_align;
	info->numa_node = rte_eth_dev_socket_id(port);
	if ((dev.tx_offload_capa & TX_CHECKSUM) == TX_CHECKSUM)
		info->offloads |= SPATE_CAN_TX_CHECKSUM;
	if ((dev.tx_offload_capa & RTE_ETH_TX_OFFLOAD_TCP_TSO) != 0)
		info->offloads |= SPATE_CAN_TSO;
	if ((dev.rx_offload_capa & RTE_ETH_RX_OFFLOAD_CHECKSUM) == RTE_ETH_RX_OFFLOAD_CHECKSUM)
		info->offloads |= SPATE_CAN_RX_CHECKSUM;
	if ((dev.rx_offload_capa & RTE_ETH_RX_OFFLOAD_TIMESTAMP) != 0)
		info->offloads |= SPATE_CAN_RX_TIMESTAMP;
	info->rss_key_len = (dev.flow_type_rss_offloads & RTE_ETH_RSS_IP) != 0 ? dev.hash_key_size : 0;
	return 0;
}

int
spate_port_configure(uint16_t port, uint16_t rx_queues, uint16_t tx_queues, const uint8_t *key, uint8_t key_len,
		     uint32_t offloads, uint32_t mtu)
{
	struct rte_eth_conf conf;
	struct rte_eth_dev_info dev;
	uint8_t fitted[UINT8_MAX] = { 0 };
	int rc;

	memset(&conf, 0, sizeof(conf));
	conf.rxmode.mtu = mtu;
	rc = rte_eth_dev_info_get(port, &dev);
	if (rc != 0)
		return rc;
	if (rx_queues > 1 && dev.flow_type_rss_offloads != 0) {
		struct rte_eth_rss_conf *rss = &conf.rx_adv_conf.rss_conf;

		conf.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
		rss->rss_hf = dev.flow_type_rss_offloads &
			(RTE_ETH_RSS_IP | RTE_ETH_RSS_TCP | RTE_ETH_RSS_UDP | RTE_ETH_RSS_SCTP);
		memcpy(fitted, key, key_len);
		if (dev.hash_key_size != 0) {
			rss->rss_key = fitted;
			rss->rss_key_len = dev.hash_key_size;
		}
	}
	if ((offloads & SPATE_CAN_TX_CHECKSUM) != 0)
		conf.txmode.offloads |= TX_CHECKSUM;
	if ((offloads & SPATE_CAN_TSO) != 0)
		conf.txmode.offloads |= RTE_ETH_TX_OFFLOAD_TCP_TSO;
	if ((offloads & SPATE_CAN_RX_CHECKSUM) != 0)
		conf.rxmode.offloads |= RTE_ETH_RX_OFFLOAD_CHECKSUM;
	if ((offloads & SPATE_CAN_RX_TIMESTAMP) != 0)
		conf.rxmode.offloads |= RTE_ETH_RX_OFFLOAD_TIMESTAMP;
	return rte_eth_dev_configure(port, rx_queues, tx_queues, &conf);
}

/* DPDK 23.11 has another word for members. */
#if RTE_VERSION < RTE_VERSION_NUM(23, 11, 0, 0)
#define rte_eth_bond_member_add rte_eth_bond_slave_add
#define rte_eth_bond_8023ad_member_info rte_eth_bond_8023ad_slave_info
#endif

/* A NUMA node that has memory of this process: a kubelet may give a pod pages of one node only, which need not be the first. */
static int
socket_with_memory(void)
{
	void *any = rte_malloc(NULL, 1, 0);
	const struct rte_memseg *segment = any == NULL ? NULL : rte_mem_virt2memseg(any, NULL);
	int socket = segment == NULL || segment->socket_id < 0 ? 0 : segment->socket_id;

	rte_free(any);
	return socket;
}

int
spate_bond_create(const char *name, uint16_t *port)
{
	int rc = rte_eth_bond_create(name, BONDING_MODE_8023AD, socket_with_memory());

	if (rc < 0)
		return rc;
	*port = rc;
	return rte_eth_bond_xmit_policy_set(*port, BALANCE_XMIT_POLICY_LAYER34);
}

int
spate_bond_add(uint16_t bond, uint16_t member)
{
	return rte_eth_bond_member_add(bond, member);
}

int
spate_bond_lacp(uint16_t bond, uint16_t member, struct spate_lacp *lacp)
{
	struct rte_eth_bond_8023ad_member_info info;
	int rc = rte_eth_bond_8023ad_member_info(bond, member, &info);

	if (rc != 0)
		return rc;
	lacp->actor_state = info.actor_state;
	lacp->partner_state = info.partner_state;
	memcpy(lacp->partner_system, info.partner.system.addr_bytes, sizeof(lacp->partner_system));
	lacp->partner_key = rte_be_to_cpu_16(info.partner.key);
	lacp->partner_port = rte_be_to_cpu_16(info.partner.port_number);
	lacp->aggregator = info.agg_port_id;
	return 0;
}

void
spate_bond_tend(uint16_t bond, uint16_t queue)
{
	struct rte_mbuf *none;

	(void)rte_eth_tx_burst(bond, queue, &none, 0);
}

int
spate_port_restart(uint16_t port)
{
	int rc = rte_eth_dev_stop(port);

	return rc != 0 ? rc : rte_eth_dev_start(port);
}

static uint32_t
hashes(uint64_t kinds)
{
	return ((kinds & RTE_ETH_RSS_NONFRAG_IPV4_TCP) != 0 ? SPATE_HASHES_TCP4 : 0) |
		((kinds & RTE_ETH_RSS_NONFRAG_IPV4_UDP) != 0 ? SPATE_HASHES_UDP4 : 0) |
		((kinds & RTE_ETH_RSS_NONFRAG_IPV6_TCP) != 0 ? SPATE_HASHES_TCP6 : 0) |
		((kinds & RTE_ETH_RSS_NONFRAG_IPV6_UDP) != 0 ? SPATE_HASHES_UDP6 : 0);
}

int
spate_port_spread(uint16_t port, uint16_t rx_queues, uint16_t wrap, struct spate_spread *spread)
{
	struct rte_eth_rss_reta_entry64 table[RTE_DIM(spread->table) / RTE_ETH_RETA_GROUP_SIZE];
	struct rte_eth_rss_conf conf = { .rss_key = spread->key };
	struct rte_eth_dev_info dev;
	uint16_t i;
	int rc;

	memset(spread, 0, sizeof(*spread));
	rc = rte_eth_dev_info_get(port, &dev);
	if (rc != 0)
		return rc;
	if (dev.reta_size == 0 || dev.reta_size > RTE_DIM(spread->table) || dev.hash_key_size > sizeof(spread->key))
		return -ENOTSUP;
	memset(table, 0, sizeof(table));
	for (i = 0; i < dev.reta_size; i++) {
		table[i / RTE_ETH_RETA_GROUP_SIZE].mask = UINT64_MAX;
		table[i / RTE_ETH_RETA_GROUP_SIZE].reta[i % RTE_ETH_RETA_GROUP_SIZE] = i % wrap % rx_queues;
	}
	/* What it has is what counts, whether it took this or not. */
	(void)rte_eth_dev_rss_reta_update(port, table, dev.reta_size);
	rc = rte_eth_dev_rss_reta_query(port, table, dev.reta_size);
	if (rc != 0)
		return rc;
	/* Drivers that do not tell have one of 40. */
	spread->key_len = dev.hash_key_size != 0 ? dev.hash_key_size : 40;
	conf.rss_key_len = spread->key_len;
	rc = rte_eth_dev_rss_hash_conf_get(port, &conf);
	if (rc != 0)
		return rc;
	spread->hashes = hashes(conf.rss_hf);
	spread->table_len = dev.reta_size;
	for (i = 0; i < dev.reta_size; i++)
		spread->table[i] = table[i / RTE_ETH_RETA_GROUP_SIZE].reta[i % RTE_ETH_RETA_GROUP_SIZE];
	return 0;
}

int
spate_port_hear_groups(uint16_t port, const uint8_t *macs, uint32_t count)
{
	struct rte_ether_addr groups[SPATE_MAX_GROUPS];

	if (count > SPATE_MAX_GROUPS)
		return -EINVAL;
	memcpy(groups, macs, count * sizeof(groups[0]));
	return rte_eth_dev_set_mc_addr_list(port, groups, count);
}

int
spate_port_set_mac(uint16_t port, const uint8_t *mac)
{
	struct rte_ether_addr address;

	memcpy(&address, mac, sizeof(address));
	return rte_eth_dev_default_mac_addr_set(port, &address);
}

int
spate_port_setup_rx(uint16_t port, uint16_t queue, uint16_t descriptors, struct rte_mempool *pool)
{
	return rte_eth_rx_queue_setup(port, queue, descriptors, rte_eth_dev_socket_id(port), NULL, pool);
}

int
spate_port_setup_tx(uint16_t port, uint16_t queue, uint16_t descriptors)
{
	return rte_eth_tx_queue_setup(port, queue, descriptors, rte_eth_dev_socket_id(port), NULL);
}

int
spate_port_link(uint16_t port, bool *up, uint32_t *speed)
{
	struct rte_eth_link link;
	int rc = rte_eth_link_get_nowait(port, &link);

	if (rc != 0)
		return rc;
	*up = link.link_status == RTE_ETH_LINK_UP;
	*speed = link.link_speed == RTE_ETH_SPEED_NUM_UNKNOWN ? 0 : link.link_speed;
	return 0;
}

int
spate_port_stats(uint16_t port, struct spate_port_stats *stats)
{
	struct rte_eth_stats s;
	int rc = rte_eth_stats_get(port, &s);

	if (rc != 0)
		return rc;
	stats->rx_missed = s.imissed;
	stats->rx_errors = s.ierrors;
	stats->rx_no_buffer = s.rx_nombuf;
	stats->tx_packets = s.opackets;
	stats->tx_errors = s.oerrors;
	return 0;
}

int
spate_port_xstats(uint16_t port, struct spate_xstat *xstats, unsigned int room)
{
	struct rte_eth_xstat_name *names = NULL;
	struct rte_eth_xstat *values = NULL;
	int count = rte_eth_xstats_get(port, NULL, 0);

	if (count <= 0 || (unsigned int)count > room)
		return count;
	names = calloc(count, sizeof(*names));
	values = calloc(count, sizeof(*values));
	if (names == NULL || values == NULL) {
		count = -ENOMEM;
		goto out;
	}
	count = rte_eth_xstats_get_names(port, names, count);
	if (count > 0 && (unsigned int)count <= room) {
		int read = rte_eth_xstats_get(port, values, count);

		/* A driver that has more of them now is read at the next call. */
		if (read < count)
			count = read;
		for (int i = 0; i < count; i++) {
			uint64_t id = values[i].id;

			if (id < (uint64_t)count)
				memcpy(xstats[i].name, names[id].name, sizeof(xstats[i].name));
			else
				xstats[i].name[0] = '\0';
			xstats[i].value = values[i].value;
		}
	}
out:
	free(names);
	free(values);
	return count;
}

int
spate_port_close(uint16_t port)
{
	struct rte_eth_dev_info dev;
	int rc = rte_eth_dev_info_get(port, &dev);

	if (rc != 0)
		return rc;
	rc = rte_eth_dev_stop(port);
	if (rc != 0)
		return rc;
	rc = rte_eth_dev_close(port);
	if (rc != 0)
		return rc;
	return rte_dev_remove(dev.device);
}

uint16_t
spate_tx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **bufs, uint16_t n)
{
	return rte_eth_tx_burst(port, queue, bufs, n);
}

uint16_t
spate_tx_prepared_burst(uint16_t port, uint16_t queue, struct rte_mbuf **bufs, uint16_t n, bool *refused)
{
	uint16_t ready = rte_eth_tx_prepare(port, queue, bufs, n);

	*refused = ready == 0 && n > 0;
	return rte_eth_tx_burst(port, queue, bufs, ready);
}

uint16_t
spate_rx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **bufs, uint16_t n)
{
	return rte_eth_rx_burst(port, queue, bufs, n);
}

int
spate_take_bulk(struct rte_mempool *pool, struct rte_mbuf **bufs, unsigned int n)
{
	return rte_mempool_get_bulk(pool, (void **)bufs, n);
}

void
spate_put_bulk(struct rte_mempool *pool, struct rte_mbuf **bufs, unsigned int n)
{
	rte_mempool_put_bulk(pool, (void *const *)bufs, n);
}

void
spate_free_bulk(struct rte_mbuf **bufs, unsigned int n)
{
	/* `refcnt` and `nb_segs` of the four that lie together, and both of them 1. */
	const uint64_t mask = UINT64_C(0x0000ffffffff0000), plain = UINT64_C(0x0000000100010000);
	uintptr_t any_pool = 0, all_pools = UINTPTR_MAX;
	uint64_t any = 0, all = UINT64_MAX, flags = 0;
	unsigned int first = 0, i;

	/* Nearly always all are plain buffers of one pool, with one user: bits that all have, and that any has, are the same. */
	for (i = 0; i < n; i++) {
		const struct rte_mbuf *m = bufs[i];
		uint64_t rearm;

		memcpy(&rearm, (const char *)m + offsetof(struct rte_mbuf, data_off), sizeof(rearm));
		any |= rearm;
		all &= rearm;
		any_pool |= (uintptr_t)m->pool;
		all_pools &= (uintptr_t)m->pool;
		flags |= m->ol_flags;
	}
	if (likely((any & mask) == plain && (all & mask) == plain && any_pool == all_pools &&
		   (flags & (RTE_MBUF_F_INDIRECT | RTE_MBUF_F_EXTERNAL)) == 0)) {
		rte_mempool_put_bulk((struct rte_mempool *)any_pool, (void *const *)bufs, n);
		return;
	}
	for (i = 0; i < n; i++) {
		const struct rte_mbuf *m = bufs[i];

		if (likely(m->pool == bufs[first]->pool && m->nb_segs == 1 && RTE_MBUF_DIRECT(m) &&
			   rte_mbuf_refcnt_read(m) == 1))
			continue;
		if (i > first)
			rte_mempool_put_bulk(bufs[first]->pool, (void *const *)&bufs[first], i - first);
		rte_pktmbuf_free(bufs[i]);
		first = i + 1;
		if (first == n)
			return;
	}
	if (n > first)
		rte_mempool_put_bulk(bufs[first]->pool, (void *const *)&bufs[first], n - first);
}

bool
spate_copy_tail(const struct rte_mbuf *m, uint32_t len, void *out)
{
	const void *tail;

	if (m->pkt_len < len)
		return false;
	tail = rte_pktmbuf_read(m, m->pkt_len - len, len, out);
	if (tail == NULL)
		return false;
	if (tail != out)
		memcpy(out, tail, len);
	return true;
}

bool
spate_has_hugepages(void)
{
	return rte_eal_has_hugepages() != 0;
}

/* Takes the buffers out of a pool for good that lie on two pages. */
static int
withhold_crossing(struct rte_mempool *mp)
{
	size_t size = mp->header_size + mp->elt_size + mp->trailer_size;
	unsigned int i, kept = 0, n = mp->populated_size;
	void **all = calloc(n, sizeof(*all));

	if (all == NULL)
		return -ENOMEM;
	if (rte_mempool_generic_get(mp, all, n, NULL) != 0) {
		free(all);
		return -ENOENT;
	}
	for (i = 0; i < n; i++) {
		uintptr_t start = (uintptr_t)all[i] - mp->header_size;
		const struct rte_memseg *page = rte_mem_virt2memseg((void *)start, NULL);

		if (page != NULL && start / page->hugepage_sz == (start + size - 1) / page->hugepage_sz)
			all[kept++] = all[i];
	}
	rte_mempool_generic_put(mp, all, kept, NULL);
	free(all);
	return 0;
}

struct rte_mempool *
spate_pool_in_one_piece(const char *name, unsigned int n, unsigned int cache, uint16_t data_room, int socket_id)
{
	struct rte_pktmbuf_pool_private private = { .mbuf_data_room_size = data_room };
	/* Elements follow each other wherever pages end: no address of the bus is taken of them. */
	struct rte_mempool *mp = rte_mempool_create_empty(name, n, sizeof(struct rte_mbuf) + data_room, cache, sizeof(private),
							  socket_id, RTE_MEMPOOL_F_NO_IOVA_CONTIG);
	int rc;

	if (mp == NULL)
		return NULL;
	rc = rte_mempool_set_ops_byname(mp, rte_mbuf_best_mempool_ops(), NULL);
	if (rc == 0) {
		rte_pktmbuf_pool_init(mp, &private);
		rc = rte_mempool_populate_default(mp);
	}
	if (rc >= 0) {
		rte_mempool_obj_iter(mp, rte_pktmbuf_init, NULL);
		rc = mp->nb_mem_chunks == 1 ? 0 : -ENOMEM;
	}
	if (rc == 0 && rte_eal_has_hugepages())
		rc = withhold_crossing(mp);
	if (rc < 0) {
		rte_mempool_free(mp);
		rte_errno = -rc;
		return NULL;
	}
	return mp;
}

unsigned int
spate_ring_add(struct rte_ring *ring, struct rte_mbuf **bufs, unsigned int n)
{
	return rte_ring_enqueue_burst(ring, (void *const *)bufs, n, NULL);
}

unsigned int
spate_ring_room(const struct rte_ring *ring)
{
	return rte_ring_free_count(ring);
}

void
spate_mbuf_share(struct rte_mbuf *m)
{
	rte_mbuf_refcnt_update(m, 1);
}

void
spate_ring_free(struct rte_ring *ring)
{
	void *m;

	while (rte_ring_dequeue(ring, &m) == 0)
		rte_pktmbuf_free(m);
	rte_ring_free(ring);
}

/* Mempool operations of prebuilt packets. There is nothing to take from such a pool, and what is freed stays where it is. */
static int
prebuilt_alloc(struct rte_mempool *mp)
{
	mp->pool_data = calloc(1, sizeof(uint64_t));
	return mp->pool_data == NULL ? -ENOMEM : 0;
}

static void
prebuilt_free(struct rte_mempool *mp)
{
	free(mp->pool_data);
}

static int
prebuilt_enqueue(struct rte_mempool *mp, void *const *objects, unsigned int n)
{
	uint64_t *returned = mp->pool_data;

	RTE_SET_USED(objects);
	/* Several workers may receive from a loopback, and so free one worker's packets. */
	__atomic_fetch_add(returned, n, __ATOMIC_RELAXED);
	return 0;
}

static int
prebuilt_dequeue(struct rte_mempool *mp, void **objects, unsigned int n)
{
	RTE_SET_USED(mp);
	RTE_SET_USED(objects);
	RTE_SET_USED(n);
	return -ENOBUFS;
}

static unsigned int
prebuilt_count(const struct rte_mempool *mp)
{
	return mp->size;
}

static const struct rte_mempool_ops prebuilt_ops = {
	.name = "spate_prebuilt",
	.alloc = prebuilt_alloc,
	.free = prebuilt_free,
	.enqueue = prebuilt_enqueue,
	.dequeue = prebuilt_dequeue,
	.get_count = prebuilt_count,
};

RTE_MEMPOOL_REGISTER_OPS(prebuilt_ops);

struct collected {
	struct rte_mbuf **out;
	unsigned int count;
};

static void
collect(struct rte_mempool *mp, void *arg, void *object, unsigned int index)
{
	struct collected *all = arg;
	struct rte_mbuf *m = object;

	RTE_SET_USED(mp);
	RTE_SET_USED(index);
	rte_pktmbuf_reset(m);
	all->out[all->count++] = m;
}

struct rte_mempool *
spate_prebuilt_create(const char *name, unsigned int n, uint16_t data_room, struct rte_mbuf **out)
{
	struct rte_mempool *mp =
		rte_pktmbuf_pool_create_by_ops(name, n, 0, 0, data_room, SOCKET_ID_ANY, prebuilt_ops.name);
	struct collected all = { .out = out };

	if (mp == NULL)
		return NULL;
	rte_mempool_obj_iter(mp, collect, &all);
	*(uint64_t *)mp->pool_data = 0;
	return mp;
}

uint64_t
spate_prebuilt_returned(const struct rte_mempool *pool)
{
	return __atomic_load_n((const uint64_t *)pool->pool_data, __ATOMIC_RELAXED);
}
