//! A thread that reads the source repeatedly, for a screen that stays responsive.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use explain::traffic::ClusterTraffic;

use super::source::Source;

/// Results that wait for the screen: it shows the newest one, so more are of no use.
const RESULTS_MAX: usize = 1;
/// Pause after a failure.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// Traffic of an interval, or the reason why it is unknown.
pub(crate) type TrafficReading = Result<ClusterTraffic, String>;

/// Thread that reads traffic until it is dropped.
#[derive(Debug)]
pub(crate) struct Watcher {
    stop: Arc<AtomicBool>,
    readings: Receiver<TrafficReading>,
    thread: Option<JoinHandle<()>>,
}

impl Watcher {
    /// Starts the thread.
    ///
    /// # Errors
    ///
    /// The error of the system if there is no thread.
    pub(crate) fn start(mut source: Source) -> std::io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let (sender, readings) = sync_channel(RESULTS_MAX);
        let is_stopped = stop.clone();
        let thread = std::thread::Builder::new()
            .name("traffic".to_owned())
            .spawn(move || read_until(&mut source, &is_stopped, &sender))?;
        Ok(Self {
            stop,
            readings,
            thread: Some(thread),
        })
    }

    /// Returns the newest reading that was not yet returned.
    pub(crate) fn newest(&self) -> Option<TrafficReading> {
        let mut newest = None;
        loop {
            match self.readings.try_recv() {
                Ok(reading) => newest = Some(reading),
                Err(TryRecvError::Empty) => return newest,
                Err(TryRecvError::Disconnected) => {
                    return newest
                        .or_else(|| Some(Err("the thread that reads traffic has exited".to_owned())));
                }
            }
        }
    }
}

fn read_until(source: &mut Source, stop: &AtomicBool, sender: &SyncSender<TrafficReading>) {
    while !stop.load(Ordering::Relaxed) {
        let reading = source.next(stop).map_err(|error| error.to_string());
        let has_failed = reading.is_err();
        if sender.send(reading).is_err() {
            return;
        }
        if has_failed {
            std::thread::sleep(RETRY_PAUSE);
        }
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // A full queue would block the thread.
        while self.readings.try_recv().is_ok() {}
        if let Some(thread) = self.thread.take()
            && thread.is_finished()
            && thread.join().is_err()
        {
            tracing::error!("thread that reads traffic panicked");
        }
    }
}
