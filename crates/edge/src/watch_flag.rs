//! Waiting until the flag of a watch channel is true.

use tokio::sync::watch;

/// Completes when the flag is true; never if its sender was dropped.
pub(crate) async fn wait_until_true(flag: &mut watch::Receiver<bool>) {
    if flag.wait_for(|is_raised| *is_raised).await.is_err() {
        std::future::pending::<()>().await;
    }
}
