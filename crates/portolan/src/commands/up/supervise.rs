//! Starting a part anew when it has failed, after pauses that grow.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::super::Failure;
use super::board::Board;

#[cfg(test)]
mod tests;

/// The pause before the first restart; it doubles up to the maximum.
const PAUSE_MIN: Duration = Duration::from_millis(500);
const PAUSE_MAX: Duration = Duration::from_secs(60);
/// A part that ran this long has proven itself: the pauses begin anew.
const PROVEN_AFTER: Duration = Duration::from_secs(120);

/// The pauses of one part. Pure.
#[derive(Debug, Default)]
pub struct Pauses {
    last: Option<Duration>,
}

impl Pauses {
    /// The pause after a run of that length.
    pub fn after(&mut self, ran: Duration) -> Duration {
        let last = self.last.filter(|_| ran < PROVEN_AFTER);
        let pause = last.map_or(PAUSE_MIN, |last| (last * 2).min(PAUSE_MAX));
        self.last = Some(pause);
        pause
    }
}

/// Runs a part until the end is told. `start` makes one run of it, which is to end by itself when the end is told.
pub async fn supervise<F>(
    board: Arc<Board>,
    name: &'static str,
    mut ended: watch::Receiver<bool>,
    start: impl Fn() -> F,
) where
    F: Future<Output = Result<(), Failure>> + Send + 'static,
{
    let mut pauses = Pauses::default();
    loop {
        board.started(name);
        let begun = Instant::now();
        // A task of its own: a panic ends the part and nothing else.
        let mut run = JoinSet::new();
        run.spawn(start());
        let outcome = run.join_next().await;
        if *ended.borrow() {
            if let Some(Ok(Err(error))) = outcome {
                tracing::error!(part = name, %error, "a part did not end well");
            }
            return;
        }
        let reason = match outcome {
            Some(Ok(Err(error))) => error.to_string(),
            Some(Err(error)) => error.to_string(),
            Some(Ok(Ok(()))) | None => "it ended by itself".to_owned(),
        };
        let pause = pauses.after(begun.elapsed());
        tracing::error!(
            part = name,
            reason,
            ?pause,
            "a part has failed and will be started anew"
        );
        board.ended(name, &reason);
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            _ = ended.wait_for(|ended| *ended) => return,
        }
    }
}
