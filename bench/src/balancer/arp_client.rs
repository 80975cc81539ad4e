//! Client that sends ARP requests until an expected owner replies.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use testbed::Member;
use testbed::arp_client::EthernetAddress;

use crate::Failure;
use crate::environment::TIMEOUT;

/// Interval between ARP requests; without a pause the client would take CPU time from the measured processes.
pub(super) const REQUEST_PERIOD: Duration = Duration::from_micros(500);

/// ARP client in the namespace of a member.
pub(super) struct ArpClient(testbed::arp_client::ArpClient);

impl ArpClient {
    /// Opens a socket on the link of a member.
    pub(super) fn new(member: &Member) -> Result<Self, Failure> {
        Ok(Self(testbed::arp_client::ArpClient::new(member)?))
    }

    /// Sends requests for `target` until an expected owner replies.
    pub(super) fn wait_for_owner(
        &self,
        target: Ipv4Addr,
        is_expected: impl Fn(&EthernetAddress) -> bool,
    ) -> Result<EthernetAddress, Failure> {
        let deadline = Instant::now() + TIMEOUT;
        while Instant::now() < deadline {
            self.0.send_request(target)?;
            std::thread::sleep(REQUEST_PERIOD);
            if let Some(owner) = self.0.claimants_of(target)?.pop()
                && is_expected(&owner)
            {
                return Ok(owner);
            }
        }
        Err(format!("no reply for {target} from an expected owner").into())
    }
}
