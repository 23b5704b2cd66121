// SPDX-License-Identifier: Apache-2.0
//! What workers do, instruction by instruction: how many instructions a packet takes, and how often a cache line is written that
//! another worker reads or writes. The workers of another process are stopped, and each executes one instruction at a time
//! (ptrace(2)), a burst's worth in turn; the addresses that an instruction reads and writes follow from it and the registers before it. That
//! is exact, needs no counter of a CPU, which virtual machines often do not have, and takes 5 to 30 us an instruction.
#![allow(unsafe_code, reason = "system calls")]
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, ensure};
use iced_x86::{Decoder, DecoderOptions, InstructionInfoFactory, OpAccess, Register, UsedMemory};
use rustix::thread::{CpuSet, Pid, sched_setaffinity};
use spate_engine::datapath::WORKER_THREAD;

use crate::cases::Case;
use crate::measure::Device;
use crate::rig::{Cpus, MEMORY, pin, prefer};
use crate::steady::Packets;

/// Bytes of a cache line, as a power of two.
const LINE_BITS: u32 = 6;
/// Instructions of a worker before another one runs: no multiple of what a burst takes.
const SLICE: u64 = 1_009;
/// Longest instruction in bytes.
const LONGEST: usize = 15;

/// What was counted for each packet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Counted {
    pub instructions: f64,
    /// Stores to lines of packet memory (packets, their pools, a loopback's rings) that another worker accessed too.
    pub shared_in_packets: f64,
    /// Accesses to shared lines of all other memory: the engine's own.
    pub shared_in_engine: f64,
}

/// Counts about this many instructions of all workers together, of an engine that sends a case.
pub fn count(case: &Case, device: Device, workers: usize, cpus: Cpus, instructions: u64) -> anyhow::Result<Counted> {
    let mut engine = Running::start(case, device, workers, cpus)?;
    pin(cpus.worker_cpu)?;
    let packet_memory = engine.packet_memory()?;
    prefer(0)?;
    let mut stepped =
        engine.threads()?.into_iter().map(|tid| Stepped::stop(tid, cpus)).collect::<Result<Vec<_>, _>>()?;
    ensure!(stepped.len() == workers, "the engine has {} workers, not {workers}", stepped.len());
    let memory = File::open(format!("/proc/{}/mem", engine.child.id()))?;
    let mut code = Code { memory, known: HashMap::new(), factory: InstructionInfoFactory::new() };
    let mut lines = Lines::default();
    let before = engine.packets()?;
    let mut passes: Vec<_> = before.counted_at.iter().map(|at| Passes::new(*at as u64)).collect();
    for _ in 0..instructions / SLICE / workers as u64 {
        for (index, (worker, passes)) in stepped.iter_mut().zip(&mut passes).enumerate() {
            for _ in 0..SLICE {
                let ends =
                    worker.step(&mut code, passes.counted_at, |line, access| lines.access(index, line, access))?;
                passes.step(ends, &code)?;
            }
        }
    }
    let after = engine.packets()?;
    drop(stepped);
    engine.end()?;
    let packets = (after.sent - before.sent) as f64;
    ensure!(after.fewest_sent > before.fewest_sent, "a worker of {workers} sent nothing while it was looked at");
    let whole = passes.iter().map(Passes::whole).fold((0, 0), |sum, whole| (sum.0 + whole.0, sum.1 + whole.1));
    ensure!(
        whole.1 > 0,
        "no worker of {workers} sent anything in a pass that was followed whole: follow more instructions"
    );
    let shared = |inside: bool| -> f64 {
        let within = |address: u64| packet_memory.iter().any(|range| range.contains(&address));
        let shared = lines.0.iter().filter(|(line, seen)| seen.is_shared() && within(**line << LINE_BITS) == inside);
        shared.map(|(_, seen)| seen.stores).sum::<u64>() as f64 / packets
    };
    Ok(Counted {
        instructions: whole.0 as f64 / whole.1 as f64,
        shared_in_packets: shared(true),
        shared_in_engine: shared(false),
    })
}

/// The passes of a worker's loop: what is counted begins and ends with one.
struct Passes {
    /// Where it counts packets sent, at the end of a pass.
    counted_at: u64,
    instructions: u64,
    /// Instructions and packets at the end of the first pass that was seen to end, and of the last.
    first: Option<(u64, u64)>,
    last: (u64, u64),
}

impl Passes {
    fn new(counted_at: u64) -> Self {
        Self { counted_at, instructions: 0, first: None, last: (0, 0) }
    }

    /// An instruction was executed, which may have ended a pass.
    fn step(&mut self, ends: bool, code: &Code) -> anyhow::Result<()> {
        self.instructions += 1;
        if ends {
            let mut packets = [0; 8];
            code.memory.read_exact_at(&mut packets, self.counted_at)?;
            self.last = (self.instructions, u64::from_ne_bytes(packets));
            self.first.get_or_insert(self.last);
        }
        Ok(())
    }

    /// Instructions and packets of whole passes.
    fn whole(&self) -> (u64, u64) {
        self.first.map_or((0, 0), |first| (self.last.0 - first.0, self.last.1 - first.1))
    }
}

/// An engine in another process.
struct Running {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Running {
    fn start(case: &Case, device: Device, workers: usize, cpus: Cpus) -> anyhow::Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["steady", "--case", case.name, "--port", device.name(), "--workers", &workers.to_string()])
            .args(["--worker-cpu", &cpus.worker_cpu.to_string(), "--control-cpu", &cpus.control_cpu.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let input = child.stdin.take().context("its input is a pipe")?;
        let output = BufReader::new(child.stdout.take().context("its output is a pipe")?);
        let mut running = Self { child, input, output };
        running.packets().context("the engine did not start")?;
        Ok(running)
    }

    fn packets(&mut self) -> anyhow::Result<Packets> {
        self.input.write_all(b"\n")?;
        let mut line = String::new();
        ensure!(self.output.read_line(&mut line)? > 0, "it has ended: {}", self.child.wait()?);
        Ok(serde_json::from_str(&line)?)
    }

    /// The workers' threads, in their order.
    fn threads(&self) -> anyhow::Result<Vec<i32>> {
        let mut workers = Vec::new();
        for entry in fs::read_dir(format!("/proc/{}/task", self.child.id()))? {
            let path = entry?.path();
            let name = fs::read_to_string(path.join("comm"))?;
            if let Some(number) = name.trim().strip_prefix(WORKER_THREAD)
                && let Some(tid) = path.file_name().and_then(|id| id.to_str())
            {
                workers.push((number.parse::<usize>()?, tid.parse()?));
            }
        }
        workers.sort_unstable();
        Ok(workers.into_iter().map(|(_, tid)| tid).collect())
    }

    /// Where packet memory is: nothing else is mapped in one piece that large.
    fn packet_memory(&self) -> anyhow::Result<Vec<std::ops::Range<u64>>> {
        let mut ranges = Vec::new();
        for line in fs::read_to_string(format!("/proc/{}/maps", self.child.id()))?.lines() {
            let range = line.split_once(' ').and_then(|(range, _)| range.split_once('-'));
            let (start, end) = range.with_context(|| format!("a line of maps: {line}"))?;
            let (start, end) = (u64::from_str_radix(start, 16)?, u64::from_str_radix(end, 16)?);
            if end - start >= MEMORY {
                ranges.push(start..end);
            }
        }
        ensure!(!ranges.is_empty(), "the engine has no packet memory");
        Ok(ranges)
    }

    fn end(self) -> anyhow::Result<()> {
        let Self { mut child, input, output } = self;
        drop((input, output));
        let status = child.wait()?;
        ensure!(status.success(), "the engine ended with {status}");
        Ok(())
    }
}

/// What an instruction does to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Access {
    Reads,
    Writes,
}

/// Instructions that were seen, by address: what of memory each uses.
struct Code {
    memory: File,
    known: HashMap<u64, Box<[UsedMemory]>>,
    factory: InstructionInfoFactory,
}

impl Code {
    /// The memory that the instruction at an address uses.
    fn at(&mut self, address: u64) -> anyhow::Result<&[UsedMemory]> {
        if !self.known.contains_key(&address) {
            let mut bytes = [0; LONGEST];
            let len = self.memory.read_at(&mut bytes, address)?;
            let instruction = Decoder::with_ip(64, &bytes[..len], address, DecoderOptions::NONE).decode();
            ensure!(!instruction.is_invalid(), "no instruction at {address:#x}");
            let used = self.factory.info(&instruction).used_memory();
            self.known
                .insert(address, used.iter().copied().filter(|used| used.access() != OpAccess::NoMemAccess).collect());
        }
        Ok(&self.known[&address])
    }
}

/// A thread that executes one instruction at a time. It goes on by itself when this is dropped.
struct Stepped {
    tid: i32,
}

impl Stepped {
    fn stop(tid: i32, cpus: Cpus) -> anyhow::Result<Self> {
        let mut set = CpuSet::new();
        set.set(cpus.worker_cpu);
        sched_setaffinity(Pid::from_raw(tid), &set)?;
        prefer(tid)?;
        request(libc::PTRACE_SEIZE, tid, 0)?;
        let stepped = Self { tid };
        request(libc::PTRACE_INTERRUPT, tid, 0)?;
        stepped.wait()?;
        Ok(stepped)
    }

    fn wait(&self) -> anyhow::Result<()> {
        let mut status = 0;
        // SAFETY: the pointer is valid for the call.
        let code = unsafe { libc::waitpid(self.tid, &raw mut status, libc::__WALL) };
        if code != self.tid {
            return Err(std::io::Error::last_os_error()).context("waiting for a thread");
        }
        ensure!(libc::WIFSTOPPED(status), "a worker has ended");
        Ok(())
    }

    /// Executes an instruction, and says which lines it accesses. Returns whether it stores at an address.
    fn step(&mut self, code: &mut Code, at: u64, mut accessed: impl FnMut(u64, Access)) -> anyhow::Result<bool> {
        let mut stores = false;
        let mut registers = std::mem::MaybeUninit::<libc::user_regs_struct>::uninit();
        request(libc::PTRACE_GETREGS, self.tid, registers.as_mut_ptr() as usize)?;
        // SAFETY: the call has written all of it.
        let registers = unsafe { registers.assume_init() };
        for used in code.at(registers.rip)? {
            let address = used.virtual_address(0, |register, _, _| value(&registers, register));
            let Some(address) = address else { continue };
            let size = (used.memory_size().size() as u64).max(1);
            let writes = matches!(
                used.access(),
                OpAccess::Write | OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite
            );
            stores |= writes && (address..address + size).contains(&at);
            for line in address >> LINE_BITS..=address.wrapping_add(size - 1) >> LINE_BITS {
                accessed(line, if writes { Access::Writes } else { Access::Reads });
            }
        }
        request(libc::PTRACE_SINGLESTEP, self.tid, 0)?;
        self.wait()?;
        Ok(stores)
    }
}

impl Drop for Stepped {
    fn drop(&mut self) {
        // A thread that has ended needs no more.
        let _ = request(libc::PTRACE_DETACH, self.tid, 0);
    }
}

fn request(what: libc::c_uint, tid: i32, data: usize) -> anyhow::Result<()> {
    // SAFETY: ptrace(2) writes to `data` for PTRACE_GETREGS alone, which is then the address of room for the registers.
    let code = unsafe { libc::ptrace(what, tid, 0, data) };
    if code == -1 {
        return Err(std::io::Error::last_os_error())
            .with_context(|| format!("ptrace request {what:#x} of thread {tid}"));
    }
    Ok(())
}

/// What is in a register that an address is made of; none of vectors, by which only reads are gathered.
fn value(registers: &libc::user_regs_struct, register: Register) -> Option<u64> {
    Some(match register.full_register() {
        Register::RAX => registers.rax,
        Register::RBX => registers.rbx,
        Register::RCX => registers.rcx,
        Register::RDX => registers.rdx,
        Register::RSI => registers.rsi,
        Register::RDI => registers.rdi,
        Register::RBP => registers.rbp,
        Register::RSP => registers.rsp,
        Register::R8 => registers.r8,
        Register::R9 => registers.r9,
        Register::R10 => registers.r10,
        Register::R11 => registers.r11,
        Register::R12 => registers.r12,
        Register::R13 => registers.r13,
        Register::R14 => registers.r14,
        Register::R15 => registers.r15,
        Register::FS => registers.fs_base,
        Register::GS => registers.gs_base,
        Register::CS | Register::DS | Register::ES | Register::SS => 0,
        _ => return None,
    })
}

/// What workers did with lines of memory, by number.
#[derive(Debug, Default)]
struct Lines(HashMap<u64, Line>);

/// What workers did with one line: a bit a worker.
#[derive(Clone, Copy, Debug, Default)]
struct Line {
    written_by: u64,
    read_by: u64,
    stores: u64,
}

impl Line {
    /// Whether one thread writes the line and another accesses it.
    fn is_shared(&self) -> bool {
        self.written_by != 0 && (self.written_by | self.read_by).count_ones() > 1
    }
}

impl Lines {
    fn access(&mut self, worker: usize, line: u64, access: Access) {
        let line = self.0.entry(line).or_default();
        match access {
            Access::Reads => line.read_by |= 1 << worker,
            Access::Writes => {
                line.written_by |= 1 << worker;
                line.stores += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_shared_if_a_worker_writes_it_and_another_accesses_it() {
        let mut lines = Lines::default();
        for (worker, line, access) in [
            (0, 1, Access::Writes),
            (0, 1, Access::Reads),
            (0, 2, Access::Reads),
            (5, 2, Access::Reads),
            (0, 3, Access::Writes),
            (63, 3, Access::Writes),
            (7, 4, Access::Writes),
            (7, 4, Access::Writes),
            (8, 4, Access::Reads),
        ] {
            lines.access(worker, line, access);
        }
        let mut shared: Vec<_> =
            lines.0.iter().filter(|(_, line)| line.is_shared()).map(|(number, line)| (*number, line.stores)).collect();
        shared.sort_unstable();
        assert_eq!(shared, [(3, 2), (4, 2)]);
    }

    /// What an instruction uses of memory: (address, bytes, whether it writes).
    fn used(bytes: &[u8], registers: &libc::user_regs_struct) -> Vec<(u64, usize, bool)> {
        let instruction = Decoder::with_ip(64, bytes, registers.rip, DecoderOptions::NONE).decode();
        let mut factory = InstructionInfoFactory::new();
        let used = factory.info(&instruction).used_memory();
        let address = |used: &UsedMemory| used.virtual_address(0, |register, _, _| value(registers, register));
        let writes = |used: &UsedMemory| matches!(used.access(), OpAccess::Write | OpAccess::ReadWrite);
        used.iter().filter_map(|used| Some((address(used)?, used.memory_size().size(), writes(used)))).collect()
    }

    #[test]
    fn addresses_follow_from_instructions_and_registers() {
        // SAFETY: numbers, of which zeros are some.
        let mut registers: libc::user_regs_struct = unsafe { std::mem::zeroed() };
        (registers.rip, registers.rbx, registers.r12) = (0x1000, 0x500, 3);
        (registers.rsp, registers.fs_base) = (0x8000, 0x9000);
        // mov [rbx + r12*8 + 0x10], eax
        assert_eq!(used(&[0x42, 0x89, 0x44, 0xe3, 0x10], &registers), [(0x528, 4, true)]);
        // lock xadd [rbx], rax
        assert_eq!(used(&[0xf0, 0x48, 0x0f, 0xc1, 0x03], &registers), [(0x500, 8, true)]);
        // vmovdqu ymm0, [rip + 4]
        assert_eq!(used(&[0xc5, 0xfe, 0x6f, 0x05, 4, 0, 0, 0], &registers), [(0x100c, 32, false)]);
        // push rax
        assert_eq!(used(&[0x50], &registers), [(0x7ff8, 8, true)]);
        // mov rax, fs:[0x28]
        assert_eq!(used(&[0x64, 0x48, 0x8b, 0x04, 0x25, 0x28, 0, 0, 0], &registers), [(0x9028, 8, false)]);
    }
}
