// SPDX-License-Identifier: Apache-2.0
//! Raw bindings of DPDK.
