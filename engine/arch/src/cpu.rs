// SPDX-License-Identifier: Apache-2.0
//! Does this CPU have the instructions that the engine was built for?

/// What is missing of x86-64-v3, for which the engine is built (see .cargo/config.toml); none if nothing is.
///
/// Asked of the CPU itself: the standard library takes for granted what the compiler was set to use. To be called before
/// anything else, and never inlined, so that no such instruction comes before it.
#[cfg(target_arch = "x86_64")]
#[inline(never)]
pub fn missing() -> Option<&'static str> {
    use core::arch::x86_64::{__cpuid, __cpuid_count};
    const OSXSAVE_AND_AVX: u32 = 1 << 27 | 1 << 28;
    /// FMA, MOVBE, F16C.
    const BESIDE_AVX: u32 = 1 << 12 | 1 << 22 | 1 << 29;
    /// BMI1, AVX2, BMI2.
    const SECOND: u32 = 1 << 3 | 1 << 5 | 1 << 8;
    const LZCNT: u32 = 1 << 5;
    let all = |bits: u32, wanted: u32| bits & wanted == wanted;
    let basic = __cpuid(1).ecx;
    if __cpuid(0).eax < 7 || !all(basic, OSXSAVE_AND_AVX) || !registers_are_kept() {
        return Some("AVX");
    }
    if !all(__cpuid_count(7, 0).ebx, SECOND) {
        return Some("AVX2, BMI1 or BMI2");
    }
    if !all(basic, BESIDE_AVX) || !all(__cpuid(0x8000_0001).ecx, LZCNT) {
        return Some("FMA, MOVBE, F16C or LZCNT");
    }
    None
}

/// Whether the operating system keeps the registers of AVX (XCR0, bits 1 and 2).
#[cfg(target_arch = "x86_64")]
fn registers_are_kept() -> bool {
    let low: u32;
    // SAFETY: OSXSAVE says that the instruction is there; it only writes the two registers named.
    unsafe { core::arch::asm!("xgetbv", in("ecx") 0, out("eax") low, out("edx") _, options(nomem, nostack)) };
    low & 6 == 6
}

/// No feature of the CPU is missing: the engine uses only what every CPU of this architecture has.
#[cfg(not(target_arch = "x86_64"))]
pub fn missing() -> Option<&'static str> {
    None
}
