//! Shutdown by signals, and futures that complete when it is requested.

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

/// Resolves at SIGTERM, SIGINT or SIGHUP, and logs the signal.
pub(crate) async fn signal_received() {
    let (Ok(mut terminate), Ok(mut interrupt), Ok(mut hangup)) = (
        signal(SignalKind::terminate()),
        signal(SignalKind::interrupt()),
        signal(SignalKind::hangup()),
    ) else {
        tracing::error!("no signal handlers installed; stop this process with SIGKILL");
        return std::future::pending().await;
    };
    tokio::select! {
        _ = terminate.recv() => tracing::info!("SIGTERM received; shutting down"),
        _ = hangup.recv() => tracing::info!("SIGHUP received, as when a terminal closes; shutting down"),
        _ = interrupt.recv() => tracing::info!("SIGINT received; shutting down"),
    }
}

/// Resolves when the channel contains `true` or its sender is dropped.
pub(crate) async fn wait_for_request(mut shutdown: watch::Receiver<bool>) {
    drop(shutdown.wait_for(|is_requested| *is_requested).await);
}
