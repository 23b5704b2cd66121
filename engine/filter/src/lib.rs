// SPDX-License-Identifier: Apache-2.0
//! The machine that packet filters are compiled for: classic BPF (McCanne and Jacobson, "The BSD Packet Filter", 1993, §3).
//!
//! A program is verified when it is made: jumps lead forward and stay inside, scratch memory exists, constants divide. So
//! it always ends, and running it needs no check but that of packet bounds.
//!
//! ```
//! use spate_filter::{Instruction, Program};
//!
//! // What libpcap makes of "ip": load the EtherType, compare it, return a length or 0.
//! let of = |code, jt, jf, k| Instruction { code, jt, jf, k };
//! let ip = Program::new(&[of(0x28, 0, 0, 12), of(0x15, 0, 1, 0x0800), of(6, 0, 0, 65_535), of(6, 0, 0, 0)])?;
//! let mut frame = [0; 60];
//! assert!(!ip.matches(&frame, frame.len()));
//! frame[12] = 8;
//! assert!(ip.matches(&frame, frame.len()));
//! # Ok::<(), spate_filter::ProgramError>(())
//! ```

/// Words of scratch memory.
const MEMORY: usize = 16;
/// Longest program (Linux's BPF_MAXINSNS).
const MAX_INSTRUCTIONS: usize = 4096;

/// An instruction as compilers write it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// Operation code.
    pub code: u16,
    /// Instructions to skip if a comparison holds,
    pub jt: u8,
    /// and if it does not.
    pub jf: u8,
    /// Operand.
    pub k: u32,
}

/// Why a program is not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProgramError {
    /// The program has not 1 to 4096 instructions.
    #[error("it has {0} instructions; possible are 1 to {MAX_INSTRUCTIONS}")]
    Length(usize),
    /// Execution can pass the program's end.
    #[error("its last instruction does not return")]
    NoReturn,
    /// An instruction that does not exist or would go wrong.
    #[error("instruction {0} is not valid")]
    Instruction(usize),
}

/// A verified program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    steps: Box<[Step]>,
}

/// An instruction, decoded. Jumps name the distance to the instruction after the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    LoadConstant(u32),
    LoadLength,
    LoadMemory(u8),
    LoadWord(u32),
    LoadHalf(u32),
    LoadByte(u32),
    LoadWordAtX(u32),
    LoadHalfAtX(u32),
    LoadByteAtX(u32),
    XConstant(u32),
    XLength,
    XMemory(u8),
    /// The length of an IPv4 header at an offset.
    XHeaderLength(u32),
    Store(u8),
    StoreX(u8),
    Calculate(Operation, Operand),
    Negate,
    Jump(u32),
    JumpIf(Comparison, Operand, u8, u8),
    Return(u32),
    ReturnA,
    AToX,
    XToA,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operand {
    Constant(u32),
    X,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
    Or,
    And,
    Xor,
    ShiftLeft,
    ShiftRight,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    Equal,
    Greater,
    GreaterOrEqual,
    AnyBit,
}

impl Program {
    /// Verifies a program.
    pub fn new(instructions: &[Instruction]) -> Result<Self, ProgramError> {
        let count = instructions.len();
        if !(1..=MAX_INSTRUCTIONS).contains(&count) {
            return Err(ProgramError::Length(count));
        }
        let mut steps = Vec::with_capacity(count);
        for (at, instruction) in instructions.iter().enumerate() {
            let step = decode(*instruction).ok_or(ProgramError::Instruction(at))?;
            let left = count - at - 1;
            let inside = match step {
                Step::Jump(distance) => (distance as usize) < left,
                Step::JumpIf(_, _, yes, no) => usize::from(yes.max(no)) < left,
                _ => true,
            };
            if !inside {
                return Err(ProgramError::Instruction(at));
            }
            steps.push(step);
        }
        match steps.last() {
            Some(Step::Return(_) | Step::ReturnA) => Ok(Self { steps: steps.into() }),
            _ => Err(ProgramError::NoReturn),
        }
    }

    /// Whether the filter takes a packet. A packet that is too short for what the filter looks at is not taken.
    ///
    /// `bytes` are the packet's first ones, and `len` is how many it has.
    #[inline]
    pub fn matches(&self, bytes: &[u8], len: usize) -> bool {
        self.run(bytes, len as u32) != 0
    }

    /// Bytes of the packet to keep, 0 for none.
    pub fn run(&self, bytes: &[u8], len: u32) -> u32 {
        let (mut a, mut x, mut memory) = (0u32, 0u32, [0u32; MEMORY]);
        let mut at = 0;
        loop {
            let step = self.steps[at];
            at += 1;
            match step {
                Step::LoadConstant(k) => a = k,
                Step::LoadLength => a = len,
                Step::LoadMemory(m) => a = memory[usize::from(m)],
                Step::LoadWord(k) => match word(bytes, Some(k)) {
                    Some(value) => a = value,
                    None => return 0,
                },
                Step::LoadHalf(k) => match half(bytes, Some(k)) {
                    Some(value) => a = value,
                    None => return 0,
                },
                Step::LoadByte(k) => match byte(bytes, Some(k)) {
                    Some(value) => a = value,
                    None => return 0,
                },
                Step::LoadWordAtX(k) => match word(bytes, x.checked_add(k)) {
                    Some(value) => a = value,
                    None => return 0,
                },
                Step::LoadHalfAtX(k) => match half(bytes, x.checked_add(k)) {
                    Some(value) => a = value,
                    None => return 0,
                },
                Step::LoadByteAtX(k) => match byte(bytes, x.checked_add(k)) {
                    Some(value) => a = value,
                    None => return 0,
                },
                Step::XConstant(k) => x = k,
                Step::XLength => x = len,
                Step::XMemory(m) => x = memory[usize::from(m)],
                Step::XHeaderLength(k) => match byte(bytes, Some(k)) {
                    Some(value) => x = (value & 15) * 4,
                    None => return 0,
                },
                Step::Store(m) => memory[usize::from(m)] = a,
                Step::StoreX(m) => memory[usize::from(m)] = x,
                Step::Calculate(operation, operand) => match operation.of(a, operand.value(x)) {
                    Some(value) => a = value,
                    None => return 0,
                },
                Step::Negate => a = a.wrapping_neg(),
                Step::Jump(distance) => at += distance as usize,
                Step::JumpIf(comparison, operand, yes, no) => {
                    at += usize::from(if comparison.holds(a, operand.value(x)) { yes } else { no });
                }
                Step::Return(k) => return k,
                Step::ReturnA => return a,
                Step::AToX => x = a,
                Step::XToA => a = x,
            }
        }
    }
}

impl Operand {
    fn value(self, x: u32) -> u32 {
        match self {
            Self::Constant(k) => k,
            Self::X => x,
        }
    }
}

impl Operation {
    /// The result; none for a division by zero, which ends the program.
    fn of(self, a: u32, b: u32) -> Option<u32> {
        Some(match self {
            Self::Add => a.wrapping_add(b),
            Self::Subtract => a.wrapping_sub(b),
            Self::Multiply => a.wrapping_mul(b),
            Self::Divide => return a.checked_div(b),
            Self::Modulo => return a.checked_rem(b),
            Self::Or => a | b,
            Self::And => a & b,
            Self::Xor => a ^ b,
            Self::ShiftLeft => a.checked_shl(b).unwrap_or(0),
            Self::ShiftRight => a.checked_shr(b).unwrap_or(0),
        })
    }
}

impl Comparison {
    fn holds(self, a: u32, b: u32) -> bool {
        match self {
            Self::Equal => a == b,
            Self::Greater => a > b,
            Self::GreaterOrEqual => a >= b,
            Self::AnyBit => a & b != 0,
        }
    }
}

/// The numbers of instructions (net/bpf.h).
fn decode(Instruction { code, jt, jf, k }: Instruction) -> Option<Step> {
    let memory = || u8::try_from(k).ok().filter(|m| usize::from(*m) < MEMORY);
    Some(match code {
        0x00 => Step::LoadConstant(k),
        0x80 => Step::LoadLength,
        0x60 => Step::LoadMemory(memory()?),
        0x20 => Step::LoadWord(k),
        0x28 => Step::LoadHalf(k),
        0x30 => Step::LoadByte(k),
        0x40 => Step::LoadWordAtX(k),
        0x48 => Step::LoadHalfAtX(k),
        0x50 => Step::LoadByteAtX(k),
        0x01 => Step::XConstant(k),
        0x81 => Step::XLength,
        0x61 => Step::XMemory(memory()?),
        0xb1 => Step::XHeaderLength(k),
        0x02 => Step::Store(memory()?),
        0x03 => Step::StoreX(memory()?),
        0x84 => Step::Negate,
        0x05 => Step::Jump(k),
        0x06 => Step::Return(k),
        0x16 => Step::ReturnA,
        0x07 => Step::AToX,
        0x87 => Step::XToA,
        _ => {
            let operand = if code & 0x08 == 0 { Operand::Constant(k) } else { Operand::X };
            match code & !0x08 {
                0x04 => Step::Calculate(Operation::Add, operand),
                0x14 => Step::Calculate(Operation::Subtract, operand),
                0x24 => Step::Calculate(Operation::Multiply, operand),
                0x34 | 0x94 if operand == Operand::Constant(0) => return None,
                0x34 => Step::Calculate(Operation::Divide, operand),
                0x94 => Step::Calculate(Operation::Modulo, operand),
                0x44 => Step::Calculate(Operation::Or, operand),
                0x54 => Step::Calculate(Operation::And, operand),
                0xa4 => Step::Calculate(Operation::Xor, operand),
                0x64 => Step::Calculate(Operation::ShiftLeft, operand),
                0x74 => Step::Calculate(Operation::ShiftRight, operand),
                0x15 => Step::JumpIf(Comparison::Equal, operand, jt, jf),
                0x25 => Step::JumpIf(Comparison::Greater, operand, jt, jf),
                0x35 => Step::JumpIf(Comparison::GreaterOrEqual, operand, jt, jf),
                0x45 => Step::JumpIf(Comparison::AnyBit, operand, jt, jf),
                _ => return None,
            }
        }
    })
}

fn word(bytes: &[u8], at: Option<u32>) -> Option<u32> {
    bytes.get(at? as usize..)?.first_chunk().map(|b| u32::from_be_bytes(*b))
}

fn half(bytes: &[u8], at: Option<u32>) -> Option<u32> {
    bytes.get(at? as usize..)?.first_chunk().map(|b| u16::from_be_bytes(*b).into())
}

fn byte(bytes: &[u8], at: Option<u32>) -> Option<u32> {
    bytes.get(at? as usize).map(|b| u32::from(*b))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const fn i(code: u16, jt: u8, jf: u8, k: u32) -> Instruction {
        Instruction { code, jt, jf, k }
    }

    /// `tcpdump -d -y EN10MB 'udp port 53'` for IPv4, by hand.
    #[test]
    fn a_filter_for_a_udp_port_takes_what_it_should() {
        let program = Program::new(&[
            i(0x28, 0, 0, 12),
            i(0x15, 0, 10, 0x800),
            i(0x30, 0, 0, 23),
            i(0x15, 0, 8, 17),
            i(0x28, 0, 0, 20),
            i(0x45, 6, 0, 0x1fff),
            i(0xb1, 0, 0, 14),
            i(0x48, 0, 0, 14),
            i(0x15, 2, 0, 53),
            i(0x48, 0, 0, 16),
            i(0x15, 0, 1, 53),
            i(0x06, 0, 0, 0xffff),
            i(0x06, 0, 0, 0),
        ])
        .unwrap();
        let mut packet = vec![0; 60];
        packet[12] = 8;
        packet[14] = 0x46;
        packet[23] = 17;
        packet[41] = 53;
        assert!(program.matches(&packet, 60));
        packet[41] = 54;
        assert!(!program.matches(&packet, 60));
        packet[41] = 53;
        assert!(!program.matches(&packet[..40], 60), "too short to match");
        packet[20] = 1;
        assert!(!program.matches(&packet, 60), "a fragment");
    }

    #[test]
    fn programs_that_could_go_astray_are_refused() {
        let refused = |instructions: &[Instruction]| Program::new(instructions).unwrap_err();
        assert_eq!(refused(&[]), ProgramError::Length(0));
        assert_eq!(refused(&[i(0, 0, 0, 0)]), ProgramError::NoReturn);
        let end = i(6, 0, 0, 0);
        for wrong in [
            i(0x05, 0, 0, 1),
            i(0x05, 0, 0, u32::MAX),
            i(0x15, 1, 0, 0),
            i(0x15, 0, 1, 0),
            i(0x34, 0, 0, 0),
            i(0x94, 0, 0, 0),
            i(0x60, 0, 0, 16),
            i(0x02, 0, 0, u32::MAX),
            i(0xffff, 0, 0, 0),
        ] {
            assert_eq!(refused(&[wrong, end]), ProgramError::Instruction(0), "{wrong:?}");
        }
    }

    fn instruction() -> impl Strategy<Value = Instruction> {
        let codes: Vec<u16> = (0..0x100).filter(|&code| decode(i(code, 0, 0, 1)).is_some()).collect();
        (prop::sample::select(codes), 0u8..4, 0u8..4, prop_oneof![0u32..70, any::<u32>()])
            .prop_map(|(code, jt, jf, k)| i(code, jt, jf, k))
    }

    proptest! {
        #[test]
        fn whatever_is_verified_ends_without_a_panic(
            mut instructions in prop::collection::vec(instruction(), 0..40),
            bytes in prop::collection::vec(any::<u8>(), 0..80),
        ) {
            instructions.push(i(0x16, 0, 0, 0));
            if let Ok(program) = Program::new(&instructions) {
                program.run(&bytes, bytes.len() as u32);
            }
        }
    }
}
