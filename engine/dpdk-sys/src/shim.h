/* SPDX-License-Identifier: Apache-2.0 */
/* Functions for what DPDK has only as macros and inline functions, or under paths that differ between versions. */
#pragma once
#include <rte_bus_vdev.h>
#include <rte_dev.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_eth_ring.h>
#include <rte_ethdev.h>
#include <rte_lcore.h>
#include <rte_mbuf.h>
#include <rte_mempool.h>
#include <rte_ring.h>
#include <rte_version.h>

uint16_t spate_rx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **packets, uint16_t count);
uint16_t spate_tx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **packets, uint16_t count);
int spate_alloc_bulk(struct rte_mempool *pool, struct rte_mbuf **packets, unsigned int count);
void spate_free_bulk(struct rte_mbuf **packets, unsigned int count);
/* rte_errno of this thread. */
int spate_errno(void);
/* Makes DPDK log to `write` from now on; whole messages, not 0-terminated. */
int spate_log_to(void (*write)(const char *text, size_t length));
