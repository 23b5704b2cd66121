// SPDX-License-Identifier: Apache-2.0
//! Does the kernel request PCI functions back? When a function's driver is unbound, or virtual functions are removed, vfio-pci asks the process
//! that has the function to release it (VFIO_PCI_REQ_IRQ_INDEX), and waits, without a limit, until that process ends.
use std::{
    collections::BTreeSet,
    ffi::{CStr, CString, c_char, c_void},
    ptr,
    sync::{Mutex, PoisonError},
};

use spate_dpdk_sys as sys;

use crate::{Eal, Error, log::Mark};

/// Addresses of the functions that the kernel has requested.
static REQUESTED: Mutex<BTreeSet<CString>> = Mutex::new(BTreeSet::new());

/// Starts to report requests for a function to [`requested`].
pub(crate) fn watch(_: &Eal, address: &str) -> Result<(), Error> {
    let mark = Mark::now();
    let name = CString::new(address).expect("a PCI address has no NUL");
    // SAFETY: the environment is up; DPDK copies the name, and the callback has no state of its own.
    match unsafe { sys::rte_dev_event_callback_register(name.as_ptr(), Some(report), ptr::null_mut()) } {
        0 => Ok(()),
        code => Err(Error::from_code("watching for requests to release a device", -code, mark)),
    }
}

/// Whether the kernel has requested a function back.
pub(crate) fn requested(address: &str) -> bool {
    let requested = REQUESTED.lock().unwrap_or_else(PoisonError::into_inner);
    CString::new(address).is_ok_and(|name| requested.contains(&name))
}

/// Called on DPDK's interrupt thread.
unsafe extern "C" fn report(name: *const c_char, event: sys::rte_dev_event_type, _: *mut c_void) {
    if name.is_null() || event != sys::RTE_DEV_EVENT_REMOVE {
        return;
    }
    // SAFETY: DPDK passes the name of the device, which ends with NUL and is valid for the call.
    let name = unsafe { CStr::from_ptr(name) }.to_owned();
    REQUESTED.lock().unwrap_or_else(PoisonError::into_inner).insert(name);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_reported_of_its_function_only() {
        let name = CString::new("0000:ff:1f.7").unwrap();
        // SAFETY: a string that ends with NUL, valid for the call.
        let event = |event| unsafe { report(name.as_ptr(), event, ptr::null_mut()) };
        event(sys::RTE_DEV_EVENT_ADD);
        assert!(!requested("0000:ff:1f.7"));
        event(sys::RTE_DEV_EVENT_REMOVE);
        assert!(requested("0000:ff:1f.7") && !requested("0000:ff:1f.6"));
    }
}
