//! Threads of lower priority, for connections without a client certificate.
//!
//! Administrators, nodes and components authenticate by certificate. Clients with tokens, and clients without credentials, may
//! be Pods. Their requests run on threads of their own with a higher nice value, so that the kernel runs the others first,
//! and requests that need much CPU time delay only their own kind.

use std::io;
use std::thread::available_parallelism;

use rustix::process::setpriority_process;
use rustix::thread::gettid;
use tokio::runtime::{Builder, Handle, Runtime};

/// Nice value of the threads. Under contention, they get about a third of the CPU time of a thread with nice value 0.
const NICE: i32 = 5;

/// Runtime of the threads. Dropping it cancels its tasks.
pub(crate) struct BackgroundThreads {
    /// `None` only in `drop`.
    runtime: Option<Runtime>,
    handle: Handle,
}

impl BackgroundThreads {
    /// Starts one thread for each CPU.
    ///
    /// # Errors
    /// The system starts no thread.
    pub(crate) fn start() -> io::Result<Self> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(available_parallelism()?.get())
            .thread_name("api-background")
            .on_thread_start(lower_priority)
            .enable_all()
            .build()?;
        Ok(Self {
            handle: runtime.handle().clone(),
            runtime: Some(runtime),
        })
    }

    /// Handle for tasks on these threads.
    pub(super) fn handle(&self) -> &Handle {
        &self.handle
    }
}

impl Drop for BackgroundThreads {
    fn drop(&mut self) {
        // A runtime must not wait for its threads within a task of another one.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Linux gives each thread a nice value of its own (setpriority(2), "C library/kernel differences").
fn lower_priority() {
    if let Err(error) = setpriority_process(Some(gettid()), NICE) {
        tracing::warn!(%error, "priority of a thread not lowered");
    }
}

#[cfg(test)]
mod tests;
