//! `--encryption-provider-config-automatic-reload`: reloads the configuration file when its content changes.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use sha2::{Digest, Sha256};
use store::Store;
use zeroize::Zeroizing;

use super::Encryption;
use crate::shutdown::Shutdown;

/// Interval between checks of the file (upstream: one minute).
const CHECK_INTERVAL: Duration = Duration::from_secs(10);

/// Watches the configuration file until shutdown. An invalid file is logged, and the previous configuration
/// stays.
pub(crate) async fn watch(encryption: Arc<Encryption>, store: Arc<dyn Store>, mut shutdown: Shutdown) {
    let mut loaded = digest(&encryption).await;
    loop {
        tokio::select! {
            () = shutdown.requested() => return,
            () = tokio::time::sleep(CHECK_INTERVAL) => {}
        }
        let current = digest(&encryption).await;
        if current == loaded {
            continue;
        }
        loaded = current;
        let (reloaded, index_store) = (encryption.clone(), store.clone());
        let result = tokio::task::spawn_blocking(move || reloaded.reload(index_store.index())).await;
        match result {
            Ok(Ok(())) => {
                encryption.counts.count_reload(true);
                tracing::info!(path = %encryption.path.display(), "encryption configuration reloaded");
            }
            Ok(Err(error)) => {
                encryption.counts.count_reload(false);
                tracing::error!(%error, "invalid encryption configuration; the previous one applies");
            }
            Err(error) => tracing::error!(%error, "reload of the encryption configuration panicked"),
        }
    }
}

/// Returns the SHA-256 of the file; `None` if it cannot be read.
async fn digest(encryption: &Encryption) -> Option<[u8; 32]> {
    let path = encryption.path.clone();
    let read = tokio::task::spawn_blocking(move || fs::read(path).ok().map(Zeroizing::new));
    let content = read.await.ok()??;
    Some(Sha256::digest(&*content).into())
}
