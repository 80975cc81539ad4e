//! TCP workers: threads that accept connections and relay them to endpoints.
//!
//! All workers wait at each listener, and the kernel notifies one that is idle. The worker that accepts a connection
//! keeps it, so that a short connection wakes no other thread. Only a long-lived connection moves, if its worker has
//! more of these than another one. Each worker waits for all of its sockets at once and never blocks on one of them.

mod congestion;
mod connecting;
mod event_loop;
mod lifetime;
mod listener;
mod outbound_sockets;
mod pump;
mod rebalance;
mod relay;

use std::io;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use event_loop::EventLoop;
use mio::Waker;
use rebalance::{ConnectionId, Round};
use relay::Relay;

use crate::{ServiceEndpoints, ServiceSockets};

pub(super) use congestion::CongestionControl;
pub(super) use lifetime::AgeLimit;
pub(super) use listener::SharedListener;
pub(super) use rebalance::Group;

/// Request to a worker.
#[derive(Debug)]
enum Request {
    /// Accept connections from this listener.
    Listen(usize, Arc<SharedListener>),
    /// Accept the backlog of this listener, then no more.
    Close(usize),
    /// Continue a long-lived connection that another worker accepted.
    Adopt(Box<Relay>),
    /// Reset the connections to these endpoints.
    End(Arc<ServiceEndpoints>),
    /// Reset the connections to these endpoints, whose drain period is over.
    EndDrained(Arc<ServiceSockets>),
    /// Begin or stop the checks of ages.
    CheckAges(bool),
    /// Report the connections for a distribution after a scale-out.
    Report(Arc<Round>),
    /// Reset these connections, because endpoints were added.
    EndExcess(Vec<ConnectionId>),
    /// Stop, and close all connections.
    Stop,
}

/// Reason for which a request resets connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ResetReason {
    /// The endpoint of the connections was lost.
    Lost,
    /// The drain period of the endpoint of the connections was over.
    Drain,
    /// The connections reached their maximum age.
    Age,
    /// Endpoints were added.
    Rebalance,
}

/// Number of reasons.
const END_REASONS: usize = 4;

/// Handle of a worker for the other threads.
#[derive(Debug)]
struct WorkerHandle {
    waker: Waker,
    /// Pending requests, bounded by the number of listeners, of connection permits, of lost nodes and of changes.
    requests: Mutex<Vec<Request>>,
    /// Number of long-lived connections.
    load: AtomicUsize,
    /// Number of connections that were reset, by [`ResetReason`].
    ended: [AtomicU64; END_REASONS],
}

impl WorkerHandle {
    fn send(&self, request: Request) {
        let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        requests.push(request);
        drop(requests);
        if let Err(error) = self.waker.wake() {
            tracing::error!(%error, "userspace worker not woken");
        }
    }

    fn take_requests(&self) -> Vec<Request> {
        std::mem::take(&mut *self.requests.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Counts connections that were reset.
    fn count_ended(&self, reason: ResetReason, count: u64) {
        if let Some(ended) = self.ended.get(reason as usize) {
            ended.fetch_add(count, Ordering::Relaxed);
        }
    }

    fn ended(&self, reason: ResetReason) -> u64 {
        let ended = self.ended.get(reason as usize);
        ended.map_or(0, |ended| ended.load(Ordering::Relaxed))
    }

    fn load(&self) -> usize {
        self.load.load(Ordering::Relaxed)
    }
}

/// The workers. Dropping them closes all connections.
#[derive(Debug)]
pub(super) struct Workers {
    handles: Arc<[WorkerHandle]>,
    /// Number of the next listener.
    next: AtomicUsize,
}

/// Registration of a listener with all workers. Dropping it accepts the backlog, then no more.
#[derive(Debug)]
pub(super) struct ListenerGuard {
    handles: Arc<[WorkerHandle]>,
    number: usize,
}

impl Workers {
    /// Starts `count` workers in the network namespace of the calling thread.
    ///
    /// # Errors
    ///
    /// An error if an epoll instance or a thread cannot be created.
    pub(super) fn start(count: usize) -> io::Result<Self> {
        let mut event_loops = Vec::new();
        let mut handles = Vec::new();
        for index in 0..count {
            let (event_loop, waker) = EventLoop::new(index)?;
            event_loops.push(event_loop);
            handles.push(WorkerHandle {
                waker,
                requests: Mutex::default(),
                load: AtomicUsize::new(0),
                ended: Default::default(),
            });
        }
        let this = Self {
            handles: handles.into(),
            next: AtomicUsize::new(0),
        };
        for event_loop in event_loops {
            let handles = this.handles.clone();
            let thread = std::thread::Builder::new().name("userspace".to_owned());
            thread.spawn(move || event_loop.run(&handles))?;
        }
        Ok(this)
    }

    /// Resets the connections to these endpoints.
    pub(super) fn end_connections(&self, endpoints: &ServiceEndpoints) {
        let endpoints = Arc::new(endpoints.clone());
        for handle in self.handles.iter() {
            handle.send(Request::End(endpoints.clone()));
        }
    }

    /// Resets the connections to endpoints whose drain period is over.
    pub(super) fn end_drained(&self, endpoints: &ServiceSockets) {
        let endpoints = Arc::new(endpoints.clone());
        for handle in self.handles.iter() {
            handle.send(Request::EndDrained(endpoints.clone()));
        }
    }

    /// Starts or stops to reset connections at their maximum age.
    pub(super) fn check_ages(&self, is_needed: bool) {
        for handle in self.handles.iter() {
            handle.send(Request::CheckAges(is_needed));
        }
    }

    /// Resets the oldest connections of the endpoints with more than their share.
    pub(super) fn rebalance(&self, groups: Vec<Group>) {
        let round = Arc::new(Round::new(groups, self.handles.len()));
        for handle in self.handles.iter() {
            handle.send(Request::Report(round.clone()));
        }
    }

    /// Returns the number of connections that were reset for a reason.
    pub(super) fn ended_connections(&self, reason: ResetReason) -> u64 {
        self.handles.iter().map(|handle| handle.ended(reason)).sum()
    }

    /// Accepts connections from a listener until the guard is dropped.
    pub(super) fn listen(&self, listener: SharedListener) -> ListenerGuard {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let listener = Arc::new(listener);
        for handle in self.handles.iter() {
            handle.send(Request::Listen(number, listener.clone()));
        }
        ListenerGuard {
            handles: self.handles.clone(),
            number,
        }
    }
}

#[cfg(test)]
impl Workers {
    /// Returns the number of long-lived connections of each worker.
    pub(super) fn loads(&self) -> Vec<usize> {
        self.handles.iter().map(WorkerHandle::load).collect()
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        for handle in self.handles.iter() {
            handle.send(Request::Stop);
        }
    }
}

impl Drop for ListenerGuard {
    fn drop(&mut self) {
        for handle in self.handles.iter() {
            handle.send(Request::Close(self.number));
        }
    }
}
