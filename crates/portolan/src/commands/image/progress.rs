//! Progress of a pull on standard error.

use std::collections::BTreeMap;
use std::io::IsTerminal as _;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use images::{Digest, Progress, Reference};

use super::size;

/// Time between two reports.
const PERIOD: Duration = Duration::from_secs(1);

/// Progress of the pull of one image. Prints to a terminal only, and about every second.
pub(super) struct PullProgress {
    name: String,
    is_shown: bool,
    state: Mutex<State>,
}

/// Progress of a download.
struct State {
    reported_at: Instant,
    layers: usize,
    ready: usize,
    total_bytes: u64,
    downloaded: BTreeMap<Digest, u64>,
}

impl PullProgress {
    pub(super) fn new(name: &Reference) -> Self {
        Self {
            name: name.to_string(),
            is_shown: std::io::stderr().is_terminal(),
            state: Mutex::new(State {
                reported_at: Instant::now(),
                layers: 0,
                ready: 0,
                total_bytes: 0,
                downloaded: BTreeMap::new(),
            }),
        }
    }

    /// Takes a step of the pull into account.
    pub(super) fn report(&self, step: Progress) {
        let Ok(mut state) = self.state.lock() else {
            return;
        };
        match step {
            Progress::Resolved { layers, bytes, .. } => {
                (state.layers, state.total_bytes) = (layers, bytes);
            }
            Progress::Layer {
                digest,
                downloaded_bytes,
                ..
            } => {
                state.downloaded.insert(digest, downloaded_bytes);
            }
            Progress::LayerReady { .. } => state.ready += 1,
        }
        if self.is_shown && state.reported_at.elapsed() >= PERIOD {
            state.reported_at = Instant::now();
            let downloaded = state
                .downloaded
                .values()
                .fold(0, |sum: u64, bytes| sum.saturating_add(*bytes));
            eprintln!(
                "{}: {} of {} layers ready, {} of {} downloaded",
                self.name,
                state.ready,
                state.layers,
                size(downloaded),
                size(state.total_bytes)
            );
        }
    }
}
