//! Signal of the server's shutdown.

use tokio::sync::watch;

/// Signal that the server shuts down: watches end, and background tasks stop.
#[derive(Clone, Debug)]
pub(crate) struct Shutdown(watch::Receiver<bool>);

/// Sender of the signal. Dropping it requests the shutdown, too.
pub(crate) struct ShutdownTrigger(watch::Sender<bool>);

impl ShutdownTrigger {
    /// Requests the shutdown.
    pub(crate) fn request(&self) {
        self.0.send_replace(true);
    }
}

impl Shutdown {
    /// Returns the signal and its sender.
    pub(crate) fn channel() -> (ShutdownTrigger, Shutdown) {
        let (sender, receiver) = watch::channel(false);
        (ShutdownTrigger(sender), Shutdown(receiver))
    }

    /// Returns true if the server shuts down.
    pub(crate) fn is_requested(&self) -> bool {
        *self.0.borrow()
    }

    /// Resolves when the server shuts down.
    pub(crate) async fn requested(&mut self) {
        // An error means that the trigger was dropped.
        self.0.wait_for(|is_requested| *is_requested).await.ok();
    }
}
