// SPDX-License-Identifier: Apache-2.0
//! What packets look like: the Internet checksum and the measurement trailer.
