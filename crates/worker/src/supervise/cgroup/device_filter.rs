//! The device filter of the unified hierarchy: an eBPF program attached to a cgroup, which the kernel runs before any process
//! inside opens or creates a device node. Ours denies a list of devices and allows all others.
#![expect(unsafe_code, reason = "the bpf system call has no wrapper in our dependencies")]

use std::{
    fs::File,
    io,
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
    path::Path,
};

use super::DeviceNode;

/// An instruction of eBPF.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Instruction {
    code: u8,
    /// The destination register in the lower, the source in the upper four bits.
    registers: u8,
    offset: i16,
    immediate: i32,
}

const fn instruction(code: u8, registers: u8, offset: i16, immediate: i32) -> Instruction {
    Instruction { code, registers, offset, immediate }
}

/// `BPF_LDX | BPF_MEM | BPF_W`: loads a word.
const LOAD: u8 = 0x61;
/// `BPF_JMP | BPF_JNE | BPF_K`: jumps unless equal.
const JUMP_UNLESS: u8 = 0x55;
/// `BPF_ALU64 | BPF_MOV | BPF_K`: sets a register.
const SET: u8 = 0xb7;
/// `BPF_JMP | BPF_EXIT`: returns register 0.
const EXIT: u8 = 0x95;

/// `BPF_DEVCG_DEV_CHAR`, in the lower half of the access type.
const CHARACTER: i32 = 2;

/// The program: `struct bpf_cgroup_dev_ctx { u32 access_type, major, minor }` is behind register 1.
fn program(denied: &[DeviceNode]) -> Vec<Instruction> {
    /// `BPF_ALU64 | BPF_AND | BPF_K`
    const AND: u8 = 0x57;
    let mut code = vec![
        instruction(LOAD, 0x12, 0, 0),     // r2 = access_type
        instruction(AND, 0x02, 0, 0xffff), // r2 = type
        instruction(LOAD, 0x13, 4, 0),     // r3 = major
        instruction(LOAD, 0x14, 8, 0),     // r4 = minor
    ];
    for node in denied {
        code.extend([
            instruction(JUMP_UNLESS, 0x02, 4, CHARACTER),
            instruction(JUMP_UNLESS, 0x03, 3, node.major as i32),
            instruction(JUMP_UNLESS, 0x04, 2, node.minor as i32),
            instruction(SET, 0x00, 0, 0), // deny
            instruction(EXIT, 0, 0, 0),
        ]);
    }
    code.extend([instruction(SET, 0x00, 0, 1), instruction(EXIT, 0, 0, 0)]);
    code
}

/// `union bpf_attr` for `BPF_PROG_LOAD`, as far as it is used; the kernel takes the rest as zeroes.
#[repr(C)]
#[derive(Default)]
struct Load {
    kind: u32,
    instructions: u32,
    code: u64,
    licence: u64,
    log_level: u32,
    log_size: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
}

/// The same for `BPF_PROG_ATTACH`.
#[repr(C)]
#[derive(Default)]
struct Attach {
    target: u32,
    program: u32,
    kind: u32,
    flags: u32,
}

const PROG_LOAD: i32 = 5;
const PROG_ATTACH: i32 = 8;
const PROG_TYPE_CGROUP_DEVICE: u32 = 15;
const CGROUP_DEVICE: u32 = 6;
/// In addition to programs already attached, here or to ancestors: all must allow the access.
const ALLOW_MULTI: u32 = 2;

/// Denies these devices to the processes in a cgroup.
pub(super) fn attach(cgroup: &Path, denied: &[DeviceNode]) -> io::Result<()> {
    let code = program(denied);
    let licence = c"MIT";
    let load = Load {
        kind: PROG_TYPE_CGROUP_DEVICE,
        instructions: code.len() as u32,
        code: code.as_ptr() as u64,
        licence: licence.as_ptr() as u64,
        ..Load::default()
    };
    let program = bpf(PROG_LOAD, &load)?;
    // SAFETY: the descriptor was just made and belongs to nobody else.
    let program = unsafe { OwnedFd::from_raw_fd(program) };
    let cgroup = File::open(cgroup)?;
    let attach = Attach {
        target: cgroup.as_raw_fd() as u32,
        program: program.as_raw_fd() as u32,
        kind: CGROUP_DEVICE,
        flags: ALLOW_MULTI,
    };
    bpf(PROG_ATTACH, &attach).map(drop)
}

fn bpf<T>(command: i32, attributes: &T) -> io::Result<i32> {
    // SAFETY: the attributes, and what they point to, outlive the call; the kernel is told their size.
    let result =
        unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_ref(attributes), size_of::<T>()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as i32) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::supervise::cgroup::{AttemptCgroup, CgroupParent, Hierarchy, Limit};
    use crate::supervise::freeze::own_group;
    use std::os::unix::process::CommandExt;
    use std::process::Command;

    /// What the program answers, by the few instructions it has.
    fn allows(code: &[Instruction], access: u32, major: u32, minor: u32) -> bool {
        let context = [access, major, minor];
        let (mut registers, mut at) = ([0i64; 11], 0);
        loop {
            let Instruction { code: operation, registers: which, offset, immediate } = code[at];
            let register = &mut registers[usize::from(which & 0xf)];
            at += 1;
            match operation {
                LOAD => *register = i64::from(context[offset as usize / 4]),
                SET => *register = i64::from(immediate),
                0x57 => *register &= i64::from(immediate),
                JUMP_UNLESS if *register != i64::from(immediate) => at += offset as usize,
                JUMP_UNLESS => {}
                EXIT => return registers[0] != 0,
                other => panic!("no such instruction: {other:#x}"),
            }
        }
    }

    #[test]
    fn the_program_denies_what_is_listed_and_nothing_else() {
        const BLOCK: u32 = 1;
        let denied = [DeviceNode { major: 195, minor: 0 }, DeviceNode { major: 226, minor: 128 }];
        let code = program(&denied);
        // Making a node, reading and writing are bits of the upper half.
        for access in [0x1_0000, 0x2_0000, 0x4_0000, 0x6_0000] {
            let char_device = access | CHARACTER as u32;
            for node in denied {
                assert!(!allows(&code, char_device, node.major, node.minor), "{node:?}");
                assert!(
                    allows(&code, access | BLOCK, node.major, node.minor),
                    "a block device of these numbers"
                );
            }
            for (major, minor) in [(195, 1), (195, 255), (226, 0), (1, 3), (128, 226)] {
                assert!(allows(&code, char_device, major, minor), "{major}:{minor}");
            }
        }
        assert!(allows(&program(&[]), 0x2_0000 | CHARACTER as u32, 195, 0));
    }

    #[test]
    fn the_kernel_asks_the_program_before_a_process_inside_opens_a_device() {
        let own = own_group(None).expect("a process is in a cgroup");
        let parent = CgroupParent { hierarchy: Hierarchy::Unified, parent: own };
        let zero = Limit::Devices(vec![DeviceNode { major: 1, minor: 5 }]);
        let name = format!("filter-{}", std::process::id());
        let cgroup = match AttemptCgroup::make(&[parent.limit(zero)], &name) {
            Ok(cgroup) => cgroup,
            Err(e) => return eprintln!("SKIPPED: no device filter can be attached here: {e}"),
        };
        let fds = cgroup.fds().expect("it was just made");
        let mut inside = Command::new("sh");
        inside.args([
            "-c",
            "for device in null zero; do (: </dev/$device) 2>/dev/null && echo $device; done; true",
        ]);
        let join = move || if fds.join(false) { Ok(()) } else { Err(io::Error::last_os_error()) };
        // SAFETY: between fork and exec a byte is written to an open descriptor.
        let inside = unsafe { inside.pre_exec(join) }.output();
        cgroup.remove();
        let inside = inside.expect("a shell runs");
        assert_eq!(String::from_utf8_lossy(&inside.stdout), "null\n", "{inside:?}");
        assert!(File::open("/dev/zero").is_ok(), "nobody else is asked");
    }
}
