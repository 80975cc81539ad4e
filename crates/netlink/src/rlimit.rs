//! Resource limits of this process.

use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the soft limit of open files (`RLIMIT_NOFILE`) to the hard limit, and returns it; `u64::MAX` means unlimited.
///
/// The usual soft limit of 1,024 is meant for programs that call `select`; a server would reject connections at that
/// limit. A process that starts other programs should not call this, because they inherit the limit.
///
/// # Errors
///
/// The error of `setrlimit(2)`. The limit is unchanged then.
pub fn raise_open_files() -> io::Result<u64> {
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        let raised = Rlimit {
            current: limit.maximum,
            ..limit
        };
        setrlimit(Resource::Nofile, raised)?;
    }
    Ok(limit.maximum.unwrap_or(u64::MAX))
}

/// Returns the soft limit of open files; `u64::MAX` means unlimited.
pub fn open_files() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
