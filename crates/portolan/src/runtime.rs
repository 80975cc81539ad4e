//! Tokio runtimes of subcommands, with one thread or several.

use std::io;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::task::spawn_blocking;

use crate::malloc;

/// Time from the start of a component until its caches are complete. The start needs more memory than the component at
/// rest: for the command line, schemas and lists.
const START_DURATION: Duration = Duration::from_secs(10);

/// Builds the runtime of a component, as [`multi_thread`] does. It returns memory that only the start needed to the
/// kernel.
///
/// # Errors
///
/// [`io::Error`] if a thread or the event queue cannot be created.
pub(crate) fn of_component(worker_threads: usize) -> io::Result<Runtime> {
    let runtime = multi_thread(worker_threads)?;
    runtime.spawn(async {
        tokio::time::sleep(START_DURATION).await;
        if let Err(error) = spawn_blocking(malloc::trim).await {
            tracing::debug!(%error, "memory of the start not returned");
        }
    });
    Ok(runtime)
}

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
