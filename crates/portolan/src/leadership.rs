//! Components that work only on the leader.

use std::pin::Pin;

use client::election::{self, RequestCompletion, Settings};
use client::{Client, WallClock};
use tokio::sync::watch;

use crate::shutdown;

/// Future that resolves when a component is to stop.
pub(crate) type Shutdown = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Runs a component: whenever this process is the leader, or always without an election. `is_leader`
/// publishes the leadership.
pub(crate) async fn run<F>(
    client: Client,
    election: Option<Settings>,
    is_leader: watch::Sender<bool>,
    shutdown: Shutdown,
    mut work: impl FnMut(Client, Shutdown) -> F,
) where
    F: Future<Output = RequestCompletion>,
{
    let Some(settings) = election else {
        work(client, shutdown).await;
        return;
    };
    let work_as_leader =
        |client, is_over: watch::Receiver<bool>| work(client, Box::pin(shutdown::wait_for_request(is_over)));
    let clock = WallClock::system();
    election::run_as_leader(client, settings, clock, is_leader, shutdown, work_as_leader).await;
}
