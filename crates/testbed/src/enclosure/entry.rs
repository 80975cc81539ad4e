//! Set-up of an enclosure between fork and exec: unshare, map the user, become supervisor, PID 1, program.
//!
//! All of it runs in the copy of a process that may have had more threads. It therefore makes system calls only,
//! without allocations or locks.

use std::ffi::CStr;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Exit status of a supervisor or PID 1 that failed.
const EXIT_FAILED: i32 = 125;
/// Added to the number of the signal that ended the program, as in shells.
const SIGNAL_BASE: i32 = 128;
/// Name of PID 1 in `ps`, by which [`crate::RunningEnclosure`] finds it.
pub(crate) const INIT_NAME: &CStr = c"portolan-init";

/// Makes `command` start in new namespaces.
pub(super) fn prepare(command: &mut Command) {
    let entry = EnclosureEntry {
        parent: rustix::process::getpid().as_raw_nonzero().get(),
        is_root: rustix::process::geteuid().is_root(),
        user_map: format!("0 {} 1\n", rustix::process::geteuid().as_raw()),
        group_map: format!("0 {} 1\n", rustix::process::getegid().as_raw()),
    };
    // SAFETY: `enter` makes system calls only; see the head of this file.
    unsafe {
        command.pre_exec(move || entry.enter());
    }
}

/// Ignores SIGINT.
pub(super) fn ignore_interrupt() {
    // SAFETY: signal with SIG_IGN installs no code.
    unsafe {
        libc::signal(libc::SIGINT, libc::SIG_IGN);
    }
}

/// Process that creates an enclosure, and its mappings.
struct EnclosureEntry {
    parent: i32,
    is_root: bool,
    user_map: String,
    group_map: String,
}

impl EnclosureEntry {
    /// Returns in the process of the program; the supervisor and PID 1 never return.
    fn enter(&self) -> io::Result<()> {
        self.unshare()?;
        die_with_parent()?;
        // SAFETY: getppid takes nothing.
        if unsafe { libc::getppid() } != self.parent {
            exit(EXIT_FAILED);
        }
        let mut ends = [0; 2];
        // SAFETY: `ends` has room for the two descriptors.
        check(unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) })?;
        let [read_end, write_end] = ends;
        // SAFETY: this process is single-threaded; both sides make system calls only until exec.
        match check(unsafe { libc::fork() })? {
            0 => {
                close(write_end);
                become_init(read_end)
            }
            init => supervise(init, write_end),
        }
    }

    fn unshare(&self) -> io::Result<()> {
        let others = libc::CLONE_NEWNET
            | libc::CLONE_NEWNS
            | libc::CLONE_NEWPID
            | libc::CLONE_NEWIPC
            | libc::CLONE_NEWUTS;
        // SAFETY: unshare takes no pointer.
        if self.is_root && unsafe { libc::unshare(others) } == 0 {
            return Ok(());
        }
        // Root of a container may lack CAP_SYS_ADMIN too; a user namespace may still be possible.
        // SAFETY: unshare takes no pointer.
        check(unsafe { libc::unshare(others | libc::CLONE_NEWUSER) })?;
        write(c"/proc/self/setgroups", b"deny")?;
        write(c"/proc/self/uid_map", self.user_map.as_bytes())?;
        write(c"/proc/self/gid_map", self.group_map.as_bytes())
    }
}

/// Pid 1: starts the program's process, which returns, and reaps processes until that has ended.
fn become_init(supervisor_exit: i32) -> io::Result<()> {
    die_with_parent()?;
    // The supervisor may have exited before the line above; then the other end of the pipe is closed.
    let mut poll = libc::pollfd {
        fd: supervisor_exit,
        events: 0,
        revents: 0,
    };
    // SAFETY: one pollfd, which lives through the call.
    check(unsafe { libc::poll(&raw mut poll, 1, 0) })?;
    if poll.revents & libc::POLLHUP != 0 {
        exit(EXIT_FAILED);
    }
    // SAFETY: as in `enter`.
    match check(unsafe { libc::fork() })? {
        0 => {
            close(supervisor_exit);
            Ok(())
        }
        program => {
            // SAFETY: prctl reads a string that ends with a zero.
            unsafe { libc::prctl(libc::PR_SET_NAME, INIT_NAME.as_ptr()) };
            close_from(0);
            exit(wait_for(program))
        }
    }
}

/// Supervises the enclosure: waits for PID 1 and passes on its exit status.
fn supervise(init: i32, write_end: i32) -> ! {
    ignore_interrupt();
    close_range(0, write_end.saturating_sub(1));
    close_from(write_end + 1);
    exit(wait_for(init))
}

/// Reaps all children until `awaited` ends, and returns its exit status.
fn wait_for(awaited: i32) -> i32 {
    loop {
        let mut status = 0;
        // SAFETY: `status` lives through the call.
        let ended = unsafe { libc::waitpid(-1, &raw mut status, 0) };
        if ended == awaited && libc::WIFEXITED(status) {
            return libc::WEXITSTATUS(status);
        }
        if ended == awaited && libc::WIFSIGNALED(status) {
            return SIGNAL_BASE + libc::WTERMSIG(status);
        }
        if ended < 0 && io::Error::last_os_error().raw_os_error() != Some(libc::EINTR) {
            return EXIT_FAILED;
        }
    }
}

fn die_with_parent() -> io::Result<()> {
    // SAFETY: prctl with a number.
    check(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) }).map(drop)
}

fn write(path: &CStr, content: &[u8]) -> io::Result<()> {
    // SAFETY: the path ends with a zero.
    let file = check(unsafe { libc::open(path.as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC) })?;
    // SAFETY: pointer and length are those of `content`.
    let written = unsafe { libc::write(file, content.as_ptr().cast(), content.len()) };
    let result = if written < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    };
    close(file);
    result
}

fn close(descriptor: i32) {
    // SAFETY: only descriptors that this file opened, each once.
    unsafe {
        libc::close(descriptor);
    }
}

fn close_from(first: i32) {
    close_range(first, i32::MAX);
}

fn close_range(first: i32, last: i32) {
    // SAFETY: supervisor and PID 1 use no descriptor from here on except the one left out.
    unsafe {
        libc::syscall(libc::SYS_close_range, first, last, 0);
    }
}

fn exit(status: i32) -> ! {
    // SAFETY: leaves without running anything of the copied process.
    unsafe { libc::_exit(status) }
}

fn check(result: i32) -> io::Result<i32> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}
