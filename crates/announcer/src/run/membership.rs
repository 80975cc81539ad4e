//! The list of members, as the API tells it.

use api::object::Lease;
use client::Event;
use netlink::clock::since_boot;

use super::Announcer;
use crate::election::membership_store::{self, Outcome};

impl Announcer {
    pub(crate) fn take_outcome(&mut self, outcome: Outcome) {
        if let Some(lease) = &outcome.lease {
            self.tell_record(lease);
        }
        self.core.written(since_boot(), outcome.written);
    }

    pub(crate) fn take_lease(&mut self, event: Event<Lease>) {
        match event {
            Event::Applied(lease) => self.tell_record(&lease),
            Event::Deleted(_) => {
                tracing::warn!("the list of members was deleted, and is made anew");
                self.core.tell_record(since_boot(), None);
                self.keyring.follow(None);
            }
            Event::Synced if self.core.record().is_none() => self.core.tell_record(since_boot(), None),
            Event::Synced => {}
            Event::Malformed { key, error } => {
                tracing::error!(lease = %key, error, "the list of members cannot be read");
            }
        }
    }

    fn tell_record(&mut self, lease: &Lease) {
        match membership_store::read(lease) {
            Ok((version, record)) => {
                self.core.tell_record(since_boot(), Some((version, record)));
                self.keyring.follow(self.core.record());
            }
            Err(error) => tracing::error!(
                lease = %lease.metadata.key(), %error,
                "the list of members cannot be used and stays as it was; delete the Lease to have it made anew"
            ),
        }
    }
}
