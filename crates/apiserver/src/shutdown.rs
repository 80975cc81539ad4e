//! Signal of the server's shutdown.

use tokio::sync::watch;

/// Signal that the server shuts down: watches end, and background tasks stop.
#[derive(Clone, Debug)]
pub(crate) struct Shutdown(pub(crate) watch::Receiver<bool>);

impl Shutdown {
    /// True if the server shuts down.
    pub(crate) fn is_requested(&self) -> bool {
        *self.0.borrow()
    }

    /// Resolves when the server shuts down.
    pub(crate) async fn requested(&mut self) {
        // An error means that the server's handle was dropped, which ends it too.
        self.0.wait_for(|is_requested| *is_requested).await.ok();
    }
}
