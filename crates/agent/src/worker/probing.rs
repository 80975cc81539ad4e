//! One run of a container beside the worker: its `postStart` handler, then its probes by the clock.

use std::time::Duration;

use probe::{Answer, ProbeKind, ProbeReport, Probing, Verdict};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::asker::Asker;
use super::runs::{What, Word};
use crate::events::PodEvents;

/// How long a `postStart` handler may take: upstream has no limit, but a task of ours must end some time.
const POST_START_LIMIT: Duration = Duration::from_secs(3600);

/// What the task works with.
pub(super) struct Run {
    /// Which run of the Pod's containers it is: words of earlier ones are not heard.
    pub number: u64,
    /// The way to the container.
    pub asker: Asker,
    /// How long the container has run already.
    pub ran: Duration,
    /// The agent found it running.
    pub is_adopted: bool,
    /// It counted as started when it was found.
    pub was_started: bool,
    /// Tells what people should see.
    pub events: PodEvents,
    /// To the worker.
    pub words: mpsc::Sender<Word>,
    /// Whether the Pod is ending.
    pub is_ending: watch::Receiver<bool>,
}

/// Whether there is anything to do.
pub(super) fn is_needed(container: &crate::object::Container) -> bool {
    let post_start = container.lifecycle.as_ref().and_then(|l| l.post_start.as_ref());
    post_start.is_some() || !Probing::new(container.probes()).is_idle()
}

impl Run {
    /// Works until there is nothing more to ask, or the worker hears no more.
    pub(super) async fn follow(mut self) {
        let container = self.asker.container.clone();
        let begun = Instant::now();
        if !self.is_adopted && !self.post_start().await {
            return;
        }
        let mut probing = Probing::new(container.probes());
        if self.was_started {
            probing = probing.already_started();
        }
        self.say(&probing).await;
        let mut asked: JoinSet<(ProbeKind, ProbeReport)> = JoinSet::new();
        while !probing.is_idle() {
            if *self.is_ending.borrow_and_update() {
                probing.end_begins();
            }
            let now = self.ran + begun.elapsed();
            for kind in probing.begin(now) {
                let (asker, container) = (self.asker.clone(), container.clone());
                asked.spawn(async move {
                    let asked = match container.probes().of(kind) {
                        Some(probe) => asker.probe(probe).await,
                        None => ProbeReport::new(Answer::Unknown, "the container has no such probe"),
                    };
                    (kind, asked)
                });
            }
            let pause = probing.next_due().map(|due| due.saturating_sub(now));
            tokio::select! {
                Some(Ok((kind, answer))) = asked.join_next() => {
                    self.tell(kind, &answer);
                    match probing.count(kind, answer.answer, self.ran + begun.elapsed()) {
                        None => {}
                        Some(Verdict::Changed) => self.say(&probing).await,
                        Some(Verdict::End(kind)) => return self.ask_for_end(kind).await,
                    }
                }
                () = sleep(pause.unwrap_or_default()), if pause.is_some() => {}
                changed = self.is_ending.changed() => if changed.is_err() { return },
            }
        }
    }

    /// Runs the handler; `false` if it failed, for which the container has to end.
    async fn post_start(&mut self) -> bool {
        let lifecycle = self.asker.container.lifecycle.as_ref();
        let Some(handler) = lifecycle.and_then(|l| l.post_start.as_ref()) else {
            return true;
        };
        let Err(why) = self.asker.handle(handler, POST_START_LIMIT).await else {
            return true;
        };
        self.events
            .warning("FailedPostStartHook", format!("PostStartHook failed: {why}"));
        self.word(What::End {
            grace: None,
            why: "FailedPostStartHook".to_owned(),
        })
        .await;
        false
    }

    fn tell(&self, kind: ProbeKind, asked: &ProbeReport) {
        let (word, message) = (kind.word(), &asked.message);
        match asked.answer {
            Answer::Success if asked.is_odd => {
                self.events
                    .warning("ProbeWarning", format!("{word} probe warning: {message}"));
            }
            Answer::Success => {}
            Answer::Failure => self
                .events
                .warning("Unhealthy", format!("{word} probe failed: {message}")),
            Answer::Unknown => self.events.warning(
                "Unhealthy",
                format!("{word} probe errored and resulted in unknown state: {message}"),
            ),
        }
    }

    async fn say(&self, probing: &Probing) {
        self.word(What::Probed {
            is_started: probing.is_started(),
            is_ready: probing.is_ready(),
        })
        .await;
    }

    async fn ask_for_end(&self, kind: ProbeKind) {
        let (container, word) = (&self.asker.container, kind.word().to_lowercase());
        let grace = container
            .probes()
            .of(kind)
            .and_then(|probe| probe.termination_grace_period_seconds);
        self.word(What::End {
            grace: grace.map(Duration::from_secs),
            why: format!(
                "Container {} failed {word} probe, will be restarted",
                container.name
            ),
        })
        .await;
    }

    async fn word(&self, what: What) {
        let word = Word {
            container: self.asker.container.name.clone(),
            run: self.number,
            what,
        };
        if self.words.send(word).await.is_err() {
            tracing::debug!("a Pod's worker ended before its probes");
        }
    }
}
