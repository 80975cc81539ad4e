//! Making the kernel forget connections beside the loop: one look at its table at a time, for all addresses that came back
//! until then.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use netlink::clock::since_boot;
use netlink::conntrack::ConntrackError;
use netlink::route::LinkIndex;
use tokio::task::JoinSet;

use super::Announcer;
use crate::handoff::conntrack_flush::{self, Found};
use crate::handoff::ownership_history::Forgotten;
use crate::{Metrics, Time};

/// How long an address is not announced at most because connections to it are looked for: longer than reading a large table
/// takes.
const LOOKING_PATIENCE: Duration = Duration::from_secs(1);
/// What was found is forgotten beside further looks, so much of it at the same time.
const FORGETTING_MAX: usize = 4;

/// What is being forgotten.
#[derive(Debug, Default)]
pub(crate) struct Forgetting {
    /// For the next look.
    wanted: BTreeMap<IpAddr, Forgotten>,
    /// Addresses that are not announced before connections to them are found, and until when at most.
    awaited: BTreeMap<IpAddr, Time>,
    /// One at a time.
    look: JoinSet<Step>,
    forgetting: JoinSet<Step>,
}

/// What was done.
#[derive(Debug)]
pub(crate) enum Step {
    /// Connections to these addresses were looked for.
    Looked(Vec<IpAddr>, Result<Found, ConntrackError>),
    /// So many were forgotten, and some perhaps not.
    Forgotten(u64, Option<ConntrackError>),
}

impl Forgetting {
    /// Connections to an address are to be forgotten.
    fn want(&mut self, now: Time, address: IpAddr, forgotten: Forgotten) {
        let wanted = self.wanted.entry(address).or_insert(forgotten);
        *wanted = forgotten.max(*wanted);
        if forgotten != Forgotten::Ended {
            self.awaited.insert(address, now + LOOKING_PATIENCE);
        }
    }

    /// The next step that is done; `None` if there is none.
    pub(crate) async fn next(&mut self) -> Option<Step> {
        let step = tokio::select! {
            Some(step) = self.look.join_next() => step,
            Some(step) = self.forgetting.join_next() => step,
            else => return None,
        };
        step.ok()
    }

    /// The same, without waiting.
    pub(crate) fn done(&mut self) -> Option<Step> {
        let step = self
            .look
            .try_join_next()
            .or_else(|| self.forgetting.try_join_next());
        step.and_then(Result::ok)
    }

    /// Whether an address is not to be announced yet: connections that are opened from then on would be forgotten with those
    /// of before.
    pub(crate) fn is_awaited(&self, address: IpAddr) -> bool {
        let until = self.awaited.get(&address);
        until.is_some_and(|until| since_boot() < *until)
    }

    fn look(&mut self, links: BTreeSet<LinkIndex>) {
        if self.wanted.is_empty() || !self.look.is_empty() || self.forgetting.len() >= FORGETTING_MAX {
            return;
        }
        let wanted = std::mem::take(&mut self.wanted);
        self.look.spawn_blocking(move || {
            let found = conntrack_flush::find(&wanted, &links);
            Step::Looked(wanted.into_keys().collect(), found)
        });
    }

    /// Connections to addresses were looked for. The addresses that are announced now, since that was awaited, and those that
    /// were announced before, since it took too long. Those that are to be looked for again stay awaited.
    fn looked_for(&mut self, addresses: &[IpAddr]) -> (Vec<IpAddr>, Vec<IpAddr>) {
        let now = since_boot();
        let awaited = addresses
            .iter()
            .filter(|address| !self.wanted.contains_key(address))
            .filter_map(|address| Some((*address, self.awaited.remove(address)?)));
        let (in_time, late): (Vec<_>, Vec<_>) = awaited.partition(|(_, until)| now < *until);
        let address = |(address, _)| address;
        (
            in_time.into_iter().map(address).collect(),
            late.into_iter().map(address).collect(),
        )
    }

    /// Connections were found. Those to addresses that are `late`, and so are answered for since, are kept if they go on.
    fn forget(&mut self, mut found: Found, late: &[IpAddr]) {
        found.keep_open(late);
        self.forgetting.spawn_blocking(|| {
            let (count, failure) = found.forget();
            Step::Forgotten(count, failure)
        });
    }
}

impl Announcer {
    /// Connections to an address are to be forgotten.
    pub(crate) fn want_forgotten(&mut self, address: IpAddr, forgotten: Forgotten) {
        self.forgetting.want(since_boot(), address, forgotten);
    }

    /// Begins to look, if nothing else is under way.
    pub(crate) fn look_for_forgotten(&mut self) {
        self.forgetting.look(self.ports.links());
    }

    /// Goes on after a step.
    pub(crate) fn take_forgetting(&mut self, step: Step) {
        match step {
            Step::Looked(addresses, looked) => {
                let (in_time, late) = self.forgetting.looked_for(&addresses);
                match looked {
                    Ok(found) => self.forgetting.forget(found, &late),
                    Err(error) => cannot_forget(&error),
                }
                for address in in_time {
                    if self.may_answer(address) {
                        self.announce(address);
                    }
                }
            }
            Step::Forgotten(count, failure) => {
                Metrics::add(&self.metrics.forgotten, count);
                if let Some(error) = failure {
                    cannot_forget(&error);
                }
            }
        }
        self.look_for_forgotten();
    }
}

fn cannot_forget(error: &ConntrackError) {
    tracing::warn!(
        %error,
        "connections to addresses that came back may hang if their clients' ports were used before"
    );
}
