//! Threads of lower priority, for connections of clients without reserved capacity.
//!
//! Administrators, nodes and components have reserved capacity if they authenticate by certificate. Clients with
//! tokens, and clients without credentials, may be Pods. Their requests, and those of other users, run on separate
//! threads with a higher nice value, so the kernel prefers the other threads. Requests of such clients that need much
//! CPU time therefore delay other requests less.

use std::io;
use std::sync::{Mutex, PoisonError};
use std::thread::available_parallelism;

use rustix::process::setpriority_process;
use rustix::thread::gettid;
use tokio::runtime::{Builder, Handle, Runtime};

/// Nice value of the threads. Under contention, they get about a third of the CPU time of a thread with nice value 0.
const NICE: i32 = 5;

/// Runtime of the threads, which starts with the first connection that needs it. Dropping it cancels its tasks.
#[derive(Default)]
pub(crate) struct BackgroundThreads {
    runtime: Mutex<Option<Runtime>>,
}

impl BackgroundThreads {
    /// Returns the handle for tasks on these threads. The first call starts one thread for each CPU.
    ///
    /// # Errors
    /// The number of CPUs or the event queue of the threads is unavailable. A later call may succeed.
    pub(super) fn handle(&self) -> io::Result<Handle> {
        let mut runtime = self.runtime.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(runtime) = &*runtime {
            return Ok(runtime.handle().clone());
        }
        let started = Builder::new_multi_thread()
            .worker_threads(available_parallelism()?.get())
            .thread_name("api-background")
            .on_thread_start(lower_priority)
            .enable_all()
            .build()?;
        Ok(runtime.insert(started).handle().clone())
    }
}

impl Drop for BackgroundThreads {
    fn drop(&mut self) {
        let runtime = self.runtime.get_mut().unwrap_or_else(PoisonError::into_inner);
        // A runtime must not wait for its threads within a task of another one.
        if let Some(runtime) = runtime.take() {
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
