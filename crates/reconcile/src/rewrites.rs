//! Bytes of large objects that a job rewrites.
//!
//! A job runs in [`measured`]. Its requests count the objects that they rewrite ([`count`]), and the queue delays the next
//! work on the key ([`crate::queue::Queue::count_rewritten`]).

use std::cell::Cell;
use std::future::Future;

/// Size from which an object counts. Usual workloads and slices of 100 endpoints are smaller.
const LARGE_BYTES: usize = 64 << 10;

tokio::task_local! {
    /// Bytes that the current job has rewritten.
    static REWRITTEN_BYTES: Cell<usize>;
}

/// Counts an object of this size that the current job has rewritten. Small objects do not count, and outside of [`measured`]
/// no object does.
pub fn count(bytes: usize) {
    if bytes >= LARGE_BYTES {
        let add = |total: &Cell<usize>| total.set(total.get().saturating_add(bytes));
        REWRITTEN_BYTES.try_with(add).ok();
    }
}

/// Runs a job. Returns its output, and the bytes of the large objects that it has rewritten.
pub async fn measured<T>(job: impl Future<Output = T>) -> (T, usize) {
    let counted = async {
        let output = job.await;
        (output, REWRITTEN_BYTES.with(Cell::get))
    };
    REWRITTEN_BYTES.scope(Cell::new(0), counted).await
}

#[cfg(test)]
mod tests;
