//! Reload of the configuration file.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::sync::watch;

use super::file::{FileError, load};
use super::validation::{InvalidConfiguration, validate};
use crate::config::Config;

/// Pause between two reads of the configuration file.
const READ_PERIOD: Duration = Duration::from_secs(2);

/// Reasons why a changed configuration file is not applied. A change of the file helps.
#[derive(Debug, thiserror::Error)]
pub enum ReloadError {
    /// The file is unreadable or malformed.
    #[error(transparent)]
    File(#[from] FileError),
    /// The file has invalid values.
    #[error(transparent)]
    Invalid(#[from] InvalidConfiguration),
}

/// Reads the file periodically and sends each new valid configuration. An invalid file is logged once, and the previous
/// configuration stays applied. Runs until it is dropped.
///
/// `hostname_override` is the flag, which takes precedence over the file; `hostname` is the name of the host.
pub async fn watch_file(
    path: PathBuf,
    hostname_override: Option<String>,
    hostname: String,
    configs: watch::Sender<Config>,
) {
    // The first read is always applied, since the file may have changed after the start of the process.
    let mut previous = None;
    loop {
        tokio::time::sleep(READ_PERIOD).await;
        let current = std::fs::read(&path).ok();
        if current == previous {
            continue;
        }
        previous = current;
        let running_mode = configs.borrow().proxy_mode.clone();
        match reload(&path, hostname_override.as_deref(), &hostname, &running_mode) {
            Ok(config) => send_if_changed(&configs, config),
            Err(error) => {
                tracing::error!(%error, "changed configuration file rejected; the previous configuration stays applied");
            }
        }
    }
}

/// Returns the settings in the file. A changed mode applies after a restart, and so do the defaults that depend on
/// it. Until then, the other settings are those of the running mode.
fn reload(
    path: &Path,
    hostname_override: Option<&str>,
    hostname: &str,
    running_mode: &str,
) -> Result<Config, ReloadError> {
    let (mut configuration, warnings) = load(path)?;
    for warning in warnings {
        tracing::warn!(path = %path.display(), "{warning}");
    }
    if let Some(name) = hostname_override {
        name.clone_into(&mut configuration.hostname_override);
    }
    let (mode, config) = validate(&configuration, hostname)?;
    if mode.name() == running_mode {
        return Ok(config);
    }
    running_mode.clone_into(&mut configuration.mode);
    let (_, of_running_mode) = validate(&configuration, hostname)?;
    Ok(Config {
        proxy_mode: config.proxy_mode,
        configuration: config.configuration,
        ..of_running_mode
    })
}

fn send_if_changed(configs: &watch::Sender<Config>, config: Config) {
    configs.send_if_modified(|before| {
        // A reload does not change these settings: takeover from kube-proxy, answers to echo requests, interface of the
        // XDP program, debug pages.
        let config = Config {
            leftovers: before.leftovers,
            answers_ping: before.answers_ping,
            xdp_interface: before.xdp_interface.clone(),
            pages: before.pages.clone(),
            ..config
        };
        let is_changed = *before != config;
        *before = config;
        is_changed
    });
}

#[cfg(test)]
mod tests;
