//! One connection for the first requests of a client.
//!
//! The pool of the HTTP library opens a connection for each request that finds none, and keeps one of them if the server has
//! HTTP/2. The watches of a component begin at once: they would cost a TLS handshake each, and the API server limits the
//! handshakes of an address.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::timeout;

/// Maximum time for which a request waits for the connection of another one. A request that the server answers late delays
/// the others by this time once.
const WAIT_MAX: Duration = Duration::from_millis(250);

/// State of the first connection. A request without a response begins anew.
#[derive(Debug, Default)]
pub(crate) struct FirstConnection {
    is_open: AtomicBool,
    /// Held by the request that opens the connection.
    opening: Mutex<()>,
}

impl FirstConnection {
    /// Runs a request. While no request has had a response, the others wait for the first one.
    ///
    /// # Errors
    /// The error of the request.
    pub(crate) async fn wait_for_and_run<T, E>(
        &self,
        exchange: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        let mut exchange = pin!(exchange);
        let result = match self.begin_opening().await {
            Some(opening) => match timeout(WAIT_MAX, exchange.as_mut()).await {
                Ok(result) => result,
                Err(_) => {
                    drop(opening);
                    exchange.await
                }
            },
            None => exchange.await,
        };
        self.is_open.store(result.is_ok(), Ordering::Relaxed);
        result
    }

    /// Waits until this request may open the connection. Returns `None` if the connection is open, or the wait was too long.
    async fn begin_opening(&self) -> Option<tokio::sync::MutexGuard<'_, ()>> {
        if self.is_open.load(Ordering::Relaxed) {
            return None;
        }
        let opening = timeout(WAIT_MAX, self.opening.lock()).await.ok()?;
        (!self.is_open.load(Ordering::Relaxed)).then_some(opening)
    }
}

#[cfg(test)]
mod tests;
