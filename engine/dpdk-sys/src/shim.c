/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "shim.h"

#include <rte_log.h>
#include <stdio.h>

uint16_t spate_rx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **packets, uint16_t count)
{
	return rte_eth_rx_burst(port, queue, packets, count);
}

uint16_t spate_tx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **packets, uint16_t count)
{
	return rte_eth_tx_burst(port, queue, packets, count);
}

int spate_alloc_bulk(struct rte_mempool *pool, struct rte_mbuf **packets, unsigned int count)
{
	return rte_pktmbuf_alloc_bulk(pool, packets, count);
}

void spate_free_bulk(struct rte_mbuf **packets, unsigned int count)
{
	rte_pktmbuf_free_bulk(packets, count);
}

int spate_errno(void)
{
	return rte_errno;
}

static void (*log_write)(const char *text, size_t length);

static ssize_t write_cookie(void *cookie, const char *text, size_t length)
{
	(void)cookie;
	log_write(text, length);
	return (ssize_t)length;
}

int spate_log_to(void (*write)(const char *text, size_t length))
{
	static const cookie_io_functions_t functions = { .write = write_cookie };
	FILE *stream;

	log_write = write;
	stream = fopencookie(NULL, "w", functions);
	if (stream == NULL)
		return -1;
	setlinebuf(stream);
	return rte_openlog_stream(stream);
}
