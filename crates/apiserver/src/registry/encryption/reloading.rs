//! `--encryption-provider-config-automatic-reload`: the file is read anew when it changes.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use sha2::{Digest, Sha256};
use store::Store;
use zeroize::Zeroizing;

use super::Encryption;
use crate::shutdown::Shutdown;

/// Interval between checks of the file (upstream: a minute).
const LOOK_PERIOD: Duration = Duration::from_secs(10);

/// Puts each new content of the file in force, until the server ends. What cannot be used is reported, and the
/// configuration before stays in force.
pub(crate) async fn keep_up(encryption: Arc<Encryption>, store: Arc<dyn Store>, mut shutdown: Shutdown) {
    let mut seen = digest(&encryption).await;
    loop {
        tokio::select! {
            () = shutdown.requested() => return,
            () = tokio::time::sleep(LOOK_PERIOD) => {}
        }
        let now = digest(&encryption).await;
        if now == seen {
            continue;
        }
        seen = now;
        let reloading = (encryption.clone(), store.clone());
        let reloaded = tokio::task::spawn_blocking(move || reloading.0.reload(reloading.1.index())).await;
        match reloaded {
            Ok(Ok(())) => {
                encryption.counts.reloaded(true);
                tracing::info!(path = %encryption.path.display(), "encryption configuration reloaded");
            }
            Ok(Err(error)) => {
                encryption.counts.reloaded(false);
                tracing::error!(%error, "encryption configuration not reloaded; the one before stays in force");
            }
            Err(error) => tracing::error!(%error, "reloading the encryption configuration ended badly"),
        }
    }
}

/// The digest of the file's content; `None` if it cannot be read now.
async fn digest(encryption: &Encryption) -> Option<[u8; 32]> {
    let path = encryption.path.clone();
    let read = tokio::task::spawn_blocking(move || fs::read(path).ok().map(Zeroizing::new));
    let content = read.await.ok()??;
    Some(Sha256::digest(&*content).into())
}
