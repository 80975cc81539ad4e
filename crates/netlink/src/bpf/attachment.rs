//! Attachments of eBPF programs to control groups (`bpf_link`). An attachment ends with its last descriptor and pin.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

use super::error::BpfError;
use super::file_system::path_text;
use super::program::{Hook, Program};
use super::system_call::{Command, bpf, get, info, pin};

/// Type of links to control groups (`BPF_LINK_TYPE_CGROUP`).
const CONTROL_GROUP_LINK: u32 = 3;

/// Attachment of a program to a control group.
#[derive(Debug)]
pub struct Attachment {
    descriptor: OwnedFd,
}

/// Attributes of `BPF_LINK_UPDATE`.
#[repr(C)]
struct UpdateAttributes {
    link: u32,
    program: u32,
    flags: u32,
    former_program: u32,
}

impl Attachment {
    /// Attaches a program to a control group and its descendants, beside the programs of others.
    ///
    /// # Errors
    ///
    /// [`BpfError`] without capabilities or kernel support (Linux 5.7).
    pub fn create(program: &Program, control_group: BorrowedFd<'_>) -> Result<Self, BpfError> {
        let descriptor = program.attach(control_group)?;
        Ok(Self { descriptor })
    }

    /// Opens the attachment that is pinned at a path; `None` if no attachment is pinned there.
    ///
    /// # Errors
    ///
    /// [`BpfError`] if the path exists and cannot be opened.
    pub fn pinned(path: &Path) -> Result<Option<Self>, BpfError> {
        Ok(get(&path_text(path)?)?.map(|descriptor| Self { descriptor }))
    }

    /// Pins the attachment at a path of a bpf file system, so that it outlives this process.
    ///
    /// # Errors
    ///
    /// [`BpfError`] if the path exists, or is not in a bpf file system.
    pub fn pin(&self, path: &Path) -> Result<(), BpfError> {
        pin(self.descriptor.as_fd(), &path_text(path)?)
    }

    /// Returns true if this attaches a program of a hook to the control group with this inode number. An attachment
    /// whose control group was deleted leads to none.
    ///
    /// # Errors
    ///
    /// [`BpfError`] of the system call.
    pub fn is_at(&self, hook: Hook, control_group_inode: u64) -> Result<bool, BpfError> {
        // struct bpf_link_info: type, id, prog_id, padding, cgroup_id (64 bits), attach_type.
        let [kind, _, _, _, first, second, attach_type, _] = info::<8>(self.descriptor.as_fd())?;
        let [a, b, c, d] = first.to_ne_bytes();
        let [e, f, g, h] = second.to_ne_bytes();
        let inode = u64::from_ne_bytes([a, b, c, d, e, f, g, h]);
        Ok(kind == CONTROL_GROUP_LINK && attach_type == hook.attach_type() && inode == control_group_inode)
    }

    /// Replaces the program, without a moment in between.
    ///
    /// # Errors
    ///
    /// [`BpfError`] of the system call. The former program stays then.
    pub fn replace(&self, program: &Program) -> Result<(), BpfError> {
        let mut attributes = UpdateAttributes {
            link: self.descriptor.as_raw_fd() as u32,
            program: program.as_fd().as_raw_fd() as u32,
            flags: 0,
            former_program: 0,
        };
        // SAFETY: the attributes contain no pointer.
        unsafe { bpf(Command::LinkUpdate, "replacing an eBPF program", &mut attributes) }.map(drop)
    }
}
