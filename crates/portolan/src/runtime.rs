//! Tokio runtimes of subcommands, with one thread or several.

use std::io;

use tokio::runtime::{Builder, Runtime};

/// Builds a runtime. Two threads are enough for each component except the API server.
///
/// # Errors
///
/// [`io::Error`] if a thread or the event queue cannot be created.
pub(crate) fn multi_thread(worker_threads: usize) -> io::Result<Runtime> {
    Builder::new_multi_thread()
        .worker_threads(worker_threads)
        .enable_all()
        .build()
}

/// Builds a runtime that runs on the calling thread, which stays in its namespaces.
///
/// # Errors
///
/// [`io::Error`] if the event queue cannot be created.
pub(crate) fn current_thread() -> io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}
