//! bpf(2) with its attributes (`union bpf_attr` of `linux/bpf.h`). Attributes end with zeros, so older kernels accept
//! them.

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use super::error::BpfError;

/// Commands of bpf(2).
#[derive(Clone, Copy, Debug)]
#[repr(i32)]
pub(super) enum Command {
    MapCreate = 0,
    MapLookup = 1,
    MapNextKey = 4,
    ProgramLoad = 5,
    Pin = 6,
    Get = 7,
    TestRun = 10,
    Info = 15,
    MapLookupBatch = 24,
    MapUpdateBatch = 26,
    MapDeleteBatch = 27,
    LinkCreate = 28,
    LinkUpdate = 29,
}

/// Calls bpf(2). `attributes` is the part of `union bpf_attr` for the command.
///
/// # Safety
///
/// Pointers in the attributes are valid for the bytes that the command reads and writes through them.
pub(super) unsafe fn bpf<T>(
    command: Command,
    operation: &'static str,
    attributes: &mut T,
) -> Result<i32, BpfError> {
    // SAFETY: `attributes` is a `repr(C)` structure of the given size; the caller vouches for the pointers in it.
    let result = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            command as libc::c_long,
            std::ptr::from_mut(attributes),
            mem::size_of::<T>(),
        )
    };
    if result < 0 {
        Err(BpfError::of(operation, io::Error::last_os_error()))
    } else {
        // A descriptor or zero.
        Ok(result as i32)
    }
}

/// Calls bpf(2) with a command that returns a new descriptor.
///
/// # Safety
///
/// As [`bpf`]; the command returns a descriptor.
pub(super) unsafe fn bpf_descriptor<T>(
    command: Command,
    operation: &'static str,
    attributes: &mut T,
) -> Result<OwnedFd, BpfError> {
    // SAFETY: as the caller's. The kernel sets close-on-exec.
    let descriptor = unsafe { bpf(command, operation, attributes) }?;
    // SAFETY: the kernel has just returned this descriptor, and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor as RawFd) })
}

/// Attributes of `BPF_OBJ_PIN` and `BPF_OBJ_GET`.
#[repr(C)]
#[derive(Default)]
struct ObjectAttributes {
    path: u64,
    descriptor: u32,
    flags: u32,
}

/// Pins an object at a path of a bpf file system.
pub(super) fn pin(object: BorrowedFd<'_>, path: &std::ffi::CStr) -> Result<(), BpfError> {
    let mut attributes = ObjectAttributes {
        path: path.as_ptr() as u64,
        descriptor: object.as_raw_fd() as u32,
        flags: 0,
    };
    // SAFETY: the path ends with zero and outlives the call.
    unsafe { bpf(Command::Pin, "pinning an eBPF object", &mut attributes) }.map(drop)
}

/// Opens the object that is pinned at a path; `None` if no object is pinned there.
pub(super) fn get(path: &std::ffi::CStr) -> Result<Option<OwnedFd>, BpfError> {
    let mut attributes = ObjectAttributes {
        path: path.as_ptr() as u64,
        ..ObjectAttributes::default()
    };
    // SAFETY: the path ends with zero and outlives the call, which returns a descriptor.
    match unsafe { bpf_descriptor(Command::Get, "opening a pinned eBPF object", &mut attributes) } {
        Ok(descriptor) => Ok(Some(descriptor)),
        Err(error) if error.is_absent() => Ok(None),
        Err(error) => Err(error),
    }
}

/// Attributes of `BPF_OBJ_GET_INFO_BY_FD`.
#[repr(C)]
struct InfoAttributes {
    descriptor: u32,
    info_bytes: u32,
    info: u64,
}

/// Reads the first 32-bit words of an object's information (`struct bpf_map_info`, `struct bpf_link_info`).
pub(super) fn info<const WORDS: usize>(object: BorrowedFd<'_>) -> Result<[u32; WORDS], BpfError> {
    let mut words = [0_u32; WORDS];
    let mut attributes = InfoAttributes {
        descriptor: object.as_raw_fd() as u32,
        info_bytes: mem::size_of_val(&words) as u32,
        info: words.as_mut_ptr() as u64,
    };
    // SAFETY: the kernel writes at most `info_bytes` bytes to `words`, which outlives the call.
    unsafe { bpf(Command::Info, "reading an eBPF object", &mut attributes) }?;
    Ok(words)
}

/// Returns the cookie of the network namespace of the calling thread (`SO_NETNS_COOKIE`, Linux 5.14).
///
/// # Errors
///
/// The error of the system calls.
pub fn namespace_cookie() -> io::Result<u64> {
    const SO_NETNS_COOKIE: libc::c_int = 71;
    let socket = rustix::net::socket(
        rustix::net::AddressFamily::INET,
        rustix::net::SocketType::DGRAM,
        None,
    )?;
    let mut cookie = 0_u64;
    let mut length = mem::size_of::<u64>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes to `cookie`, which outlives the call.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            SO_NETNS_COOKIE,
            (&raw mut cookie).cast(),
            &raw mut length,
        )
    };
    if result == 0 {
        Ok(cookie)
    } else {
        Err(io::Error::last_os_error())
    }
}
