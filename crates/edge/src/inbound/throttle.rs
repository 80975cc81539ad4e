//! A connection's part of the bandwidth of its Service.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::time::{Instant, Sleep, sleep_until};

use crate::admission::bandwidth::BandwidthReservation;

/// Directions of a client's connection that have a bandwidth limit.
#[derive(Debug)]
pub(super) struct ConnectionBandwidth {
    /// Bytes from the client.
    pub received: Option<Throttle>,
    /// Bytes to the client.
    pub sent: Option<Throttle>,
}

/// Direction with a bandwidth limit.
#[derive(Debug)]
pub(super) struct Throttle {
    reservation: BandwidthReservation,
    /// Instant from which the times of the reservation count.
    epoch: Instant,
    /// Present while the direction waits for its reservation.
    timer: Option<Pin<Box<Sleep>>>,
}

impl ConnectionBandwidth {
    /// Returns true while one of the directions waits.
    pub(super) fn is_waiting(&self) -> bool {
        let directions = [&self.received, &self.sent];
        directions
            .into_iter()
            .flatten()
            .any(|throttle| throttle.timer.is_some())
    }
}

impl Throttle {
    /// Creates the throttle of a new connection.
    pub(super) fn new(reservation: BandwidthReservation, epoch: Instant) -> Self {
        Self {
            reservation,
            epoch,
            timer: None,
        }
    }

    /// Returns the maximum number of bytes of one reservation.
    pub(super) fn chunk_bytes_max(&self) -> usize {
        self.reservation.chunk_bytes_max()
    }

    /// Completes when some of `bytes` may pass. Returns their number.
    pub(super) fn poll_reserve(&mut self, cx: &mut Context<'_>, bytes: usize) -> Poll<usize> {
        let (count, due) = self.reservation.reserve(bytes, self.epoch.elapsed());
        if self.timer.is_none() && due <= self.epoch.elapsed() {
            return Poll::Ready(count);
        }
        let epoch = self.epoch;
        let timer = self
            .timer
            .get_or_insert_with(|| Box::pin(sleep_until(epoch + due)));
        ready!(timer.as_mut().poll(cx));
        self.timer = None;
        Poll::Ready(count)
    }

    /// Subtracts bytes that have passed from the reservation.
    pub(super) fn consume(&mut self, bytes: usize) {
        self.reservation.consume(bytes);
    }
}
