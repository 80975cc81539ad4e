//! Repeated examinations of a cluster: Events about findings that last, and metrics.
//!
//! - [`history`]: findings of the earlier examinations, which decide the Events
//! - [`report`]: metrics of the latest examination

mod history;
mod report;

use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use api::object::ObjectKey;
use clap::Args;
use client::{Client, WallClock};
use explain::{Finding, Options, Scope, ServiceFindings, Severity, examine, examine_services};
use http::StatusCode;
use reconcile::events::{EventBatch, EventRecorder, EventText, ObjectReference};
use telemetry::{Handler, Response};

use self::history::{DueFinding, History};
use self::report::Examinations;
use super::source::Source;
use crate::error::{CommandError, UsageError};
use crate::flags::administrator::AdministratorFlags;
use crate::flags::values::{OptionalAddress, duration, optional_address};
use crate::{runtime, shutdown};

/// Component in the Events.
const COMPONENT: &str = "portolan-doctor";
/// Reason of the Events. The message begins with the code.
const EVENT_REASON: &str = "ServiceFinding";
/// Characters of the message of an Event (limit of the API).
const MESSAGE_CHARACTERS_MAX: usize = 1_024;

/// Shortest time between two examinations.
const INTERVAL_MIN: Duration = Duration::from_secs(1);

/// Flags of repeated examinations.
#[derive(Debug, Args)]
#[command(next_help_heading = "Repeated examinations")]
pub(super) struct RecurringFlags {
    /// Interval between examinations of all Services, such as 1m; runs until SIGTERM and records Events on Services with
    /// lasting findings
    #[arg(long, value_name = "DURATION", value_parser = duration, conflicts_with_all = ["kind", "from_file", "output"])]
    pub interval: Option<Duration>,
    /// Address of /metrics and /healthz; empty disables the server
    #[arg(long, default_value = "127.0.0.1:10269", value_name = "ADDRESS:PORT", value_parser = optional_address, requires = "interval")]
    metrics_bind_address: OptionalAddress,
}

/// Settings of repeated examinations.
#[derive(Clone, Debug)]
struct Settings {
    /// Time between the starts of two examinations.
    interval: Duration,
    /// Address of /metrics and /healthz, if they are served.
    metrics_address: Option<SocketAddr>,
    /// Options of the examinations.
    options: Options,
}

/// Result of one examination.
struct ExaminationResult {
    findings: Vec<Finding>,
    services: Vec<ServiceFindings>,
    /// Kinds that the user must not list.
    forbidden: Vec<&'static str>,
}

/// Examines the cluster until SIGTERM or SIGINT. A failed examination is logged and counted.
///
/// # Errors
///
/// An error if the interval is too short, the kubeconfig is unusable, or the address of the metrics is in use.
pub(super) fn run(
    flags: &RecurringFlags,
    interval: Duration,
    administrator: &AdministratorFlags,
    options: Options,
) -> Result<ExitCode, CommandError> {
    if interval < INTERVAL_MIN {
        return Err(UsageError::new("--interval must be at least 1s").into());
    }
    let settings = Settings {
        interval,
        metrics_address: flags.metrics_bind_address.0,
        options,
    };
    let client = administrator.client()?;
    runtime::multi_thread(1)?.block_on(run_until_signal(client, settings))?;
    Ok(ExitCode::SUCCESS)
}

async fn run_until_signal(client: Client, settings: Settings) -> Result<(), CommandError> {
    let examinations = Arc::new(Mutex::new(Examinations::default()));
    if let Some(address) = settings.metrics_address {
        let listener = telemetry::listen(address)
            .map_err(|error| format!("the metrics server cannot listen on {address}: {error}"))?;
        tokio::spawn(telemetry::serve(listener, handler(Arc::clone(&examinations))));
    }
    tokio::select! {
        () = examine_all(&client, &settings, &examinations) => {}
        () = shutdown::signal_received() => {}
    }
    Ok(())
}

fn handler(examinations: Arc<Mutex<Examinations>>) -> Handler {
    Arc::new(move |uri| match uri.path() {
        "/metrics" => {
            let examinations = examinations.lock().unwrap_or_else(PoisonError::into_inner);
            Response::metrics(examinations.render())
        }
        "/healthz" | "/livez" => Response::text(StatusCode::OK, "ok"),
        _ => Response::not_found(),
    })
}

async fn examine_all(client: &Client, settings: &Settings, examinations: &Mutex<Examinations>) {
    let recorder = EventRecorder::new(client.clone(), WallClock::system());
    let mut history = History::default();
    let mut ticks = tokio::time::interval(settings.interval);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let started = Instant::now();
        let outcome = examine_once(client, &settings.options).await;
        {
            let mut examinations = examinations.lock().unwrap_or_else(PoisonError::into_inner);
            let findings = outcome.as_ref().ok().map(|examined| &examined.findings[..]);
            examinations.record(findings, started.elapsed());
        }
        let examined = match outcome {
            Ok(examined) => examined,
            Err(error) => {
                tracing::warn!(%error, "cluster not examined");
                continue;
            }
        };
        tracing::info!(
            findings = examined.findings.len(),
            forbidden_kinds = examined.forbidden.join(","),
            milliseconds = started.elapsed().as_millis(),
            "cluster examined"
        );
        for due in history.observe(&examined.services, started) {
            record(&recorder, due).await;
        }
    }
}

async fn examine_once(client: &Client, options: &Options) -> Result<ExaminationResult, CommandError> {
    let source = Source::from_api(client).await?;
    let options = options.clone();
    let examined = tokio::task::spawn_blocking(move || {
        let world = source.builder.build();
        ExaminationResult {
            findings: examine(&world, &Scope::All, &options),
            services: examine_services(&world, &options),
            forbidden: source.forbidden,
        }
    });
    Ok(examined.await?)
}

async fn record(recorder: &EventRecorder, due: DueFinding<'_>) {
    let finding = due.finding;
    let text = format!(
        "{}: {}. Remedy: {}",
        finding.code, finding.message, finding.remedy
    );
    let message: String = text.chars().take(MESSAGE_CHARACTERS_MAX).collect();
    let event = match finding.severity {
        Severity::Info => EventText::normal(EVENT_REASON, message),
        Severity::Error | Severity::Warning => EventText::warning(EVENT_REASON, message),
    };
    let key = ObjectKey::new(&due.service.namespace, &due.service.name);
    let batch = EventBatch {
        component: COMPONENT,
        regarding: ObjectReference::service(key, due.service.uid.clone()),
        events: vec![event],
    };
    recorder.record_batch(batch).await;
}
