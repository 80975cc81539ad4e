//! End of the `portolan up` or `portolan join` that runs with a data directory.

use std::path::Path;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::time::Instant;

use super::status_file::{self, StatusFileError};

/// Time between two checks for the end of the process.
const POLL_PERIOD: Duration = Duration::from_millis(200);
/// Time for the process to exit.
const EXIT_TIMEOUT: Duration = Duration::from_secs(30);

/// Reason why the process still runs.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RunningProcessError {
    /// The state of the process is unknown.
    #[error(transparent)]
    Status(#[from] StatusFileError),
    /// The process has not written its ID yet. A retry helps.
    #[error("portolan has just started; try again")]
    Starting,
    /// The process belongs to another user.
    #[error("signal to process {pid} not sent: {source}")]
    Signal {
        /// Process ID.
        pid: u32,
        /// Error of the system call.
        source: rustix::io::Errno,
    },
    /// The process ignores SIGTERM.
    #[error("portolan, process {0}, did not exit within {EXIT_TIMEOUT:?}")]
    NotExited(u32),
}

/// Sends SIGTERM to the process if it runs, and waits for its exit.
///
/// # Errors
///
/// See [`RunningProcessError`].
pub(crate) async fn stop(data_directory: &Path) -> Result<(), RunningProcessError> {
    let Some(status) = status_file::read(data_directory)? else {
        return Ok(());
    };
    let process = i32::try_from(status.pid).ok().and_then(Pid::from_raw);
    let process = process.ok_or(RunningProcessError::Starting)?;
    kill_process(process, Signal::TERM).map_err(|source| RunningProcessError::Signal {
        pid: status.pid,
        source,
    })?;
    let deadline = Instant::now() + EXIT_TIMEOUT;
    // A service manager may have started a new process, which has another ID.
    while status_file::read(data_directory)?.is_some_and(|current| current.pid == status.pid) {
        if Instant::now() > deadline {
            return Err(RunningProcessError::NotExited(status.pid));
        }
        tokio::time::sleep(POLL_PERIOD).await;
    }
    Ok(())
}
