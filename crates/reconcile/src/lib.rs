//! Building blocks of control loops.
//!
//! - [`queue`]: a work queue of keys with deduplication and back-off, as client-go's `workqueue`.
//! - [`Reconciler`] and [`run`]: the driver of a controller with caches of its own. The reconciler is a state machine
//!   without clock or I/O; the driver waits for changes and runs the jobs as tasks.
//! - [`events`]: the Event recorder of `client`, and the Events that are written already.
//! - [`metrics`]: the `workqueue_*` metrics of client-go.
//! - [`rewrites`]: the bytes of large objects that a job rewrites. The queue pauses their keys.
//! - [`watches`]: watches that send their events to a reconciler.
//!
//! # Example
//!
//! A worker takes a key, reports its result, and the queue delays the next attempt after a failure.
//!
//! ```
//! use std::time::{Duration, Instant};
//!
//! use reconcile::queue::{BackOff, Queue};
//!
//! let back_off = BackOff { first: Duration::from_millis(5), max: Duration::from_secs(60) };
//! let mut queue = Queue::new(back_off);
//! let start = Instant::now();
//! queue.add("default/web", start);
//!
//! let (key, _) = queue.take(start).expect("a key is ready");
//! let delay = queue.failed(&key, start);
//! assert_eq!(delay, Duration::from_millis(5));
//! assert_eq!(queue.take(start), None);
//!
//! queue.wake(start + delay);
//! assert_eq!(queue.take(start + delay), Some(("default/web", start + delay)));
//! ```

mod announced_retries;
mod clock;
mod driver;
pub mod events;
pub mod metrics;
mod pace;
pub mod queue;
mod ready_keys;
mod reconciler;
pub mod rewrites;
pub mod watches;

pub use clock::{now, sleep_until};
pub use driver::run;
pub use reconciler::{Action, Reconciler};
