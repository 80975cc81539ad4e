//! A client that asks until the one who is awaited says that he has an address.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use testbed::Member;
use testbed::asker::Hardware;

use crate::Failure;
use crate::setting::PATIENCE;

/// Pause between two questions: whoever asks without rest takes the processor from who is measured.
pub const QUESTION_PERIOD: Duration = Duration::from_micros(500);

/// A member that asks.
pub struct Asker(testbed::asker::Asker);

impl Asker {
    /// Asks by the member's link to the others.
    pub fn new(member: &Member) -> Result<Self, Failure> {
        Ok(Self(testbed::asker::Asker::new(member)?))
    }

    /// Asks until somebody says that he has `target`, and is who is awaited.
    pub fn until(
        &self,
        target: Ipv4Addr,
        is_awaited: impl Fn(&Hardware) -> bool,
    ) -> Result<Hardware, Failure> {
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            self.0.ask(target)?;
            std::thread::sleep(QUESTION_PERIOD);
            if let Some(owner) = self.0.hear(target)?.pop()
                && is_awaited(&owner)
            {
                return Ok(owner);
            }
        }
        Err(format!("nobody awaited answers for {target}").into())
    }
}
