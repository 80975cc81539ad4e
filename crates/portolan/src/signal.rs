//! The end: SIGTERM or SIGINT ask for it.

use tokio::signal::unix::{SignalKind, signal};

/// Resolves when the process is asked to end; says so in the log.
pub async fn asked_to_end() {
    let (Ok(mut terminate), Ok(mut interrupt)) =
        (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        tracing::error!("signals cannot be received; end with SIGKILL");
        return std::future::pending().await;
    };
    tokio::select! {
        _ = terminate.recv() => tracing::info!("SIGTERM received, ending"),
        _ = interrupt.recv() => tracing::info!("SIGINT received, ending"),
    }
}
