//! Metrics and health endpoints of all components: histograms, the Prometheus text format, and a small HTTP server.
//!
//! ```
//! use telemetry::{Histogram, MetricType, MetricsText};
//!
//! let durations = Histogram::new(&[0.1, 1.0]);
//! durations.observe(0.25);
//!
//! let mut text = MetricsText::default();
//! text.single("syncs_total", MetricType::Counter, "Number of syncs.", 1);
//! text.family("sync_duration_seconds", MetricType::Histogram, "Duration of syncs in seconds.");
//! text.histogram("sync_duration_seconds", "mode=\"full\"", &durations);
//!
//! let text = text.finish();
//! assert!(text.starts_with("# HELP syncs_total Number of syncs.\n# TYPE syncs_total counter\nsyncs_total 1\n"));
//! assert_eq!(telemetry::validate(&text), Ok(()));
//! ```

mod histogram;
mod http;
mod process;
mod text;
mod validation;

pub use crate::http::{CONNECTIONS_MAX, Handler, Response, accept_connections, listen, serve, serve_at_most};
pub use histogram::Histogram;
pub use process::write_process;
pub use text::{MetricType, MetricsText};
pub use validation::{InvalidMetrics, validate};
