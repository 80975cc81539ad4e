//! Health checks of backends. Defaults are those of AWS (LBC-04).

use std::time::Duration;

use edge::settings::{HealthCheck, HealthProbe};

use crate::annotations::AnnotationError;
use crate::annotations::values::{CheckProtocol, HealthCheckValues};

const INTERVAL: Duration = Duration::from_secs(10);
const TIMEOUT: Duration = Duration::from_secs(5);
const HEALTHY_THRESHOLD: u32 = 2;
const UNHEALTHY_THRESHOLD: u32 = 6;
/// HTTP statuses of healthy backends, first and last.
const EXPECTED_STATUSES: (u16, u16) = (200, 399);

/// Returns the health check, if an annotation enables it or selects one of its settings. The timeout is limited to
/// the interval.
pub(super) fn resolve(values: &HealthCheckValues, errors: &mut Vec<AnnotationError>) -> Option<HealthCheck> {
    if !values.is_enabled.get_or(values.has_any()) {
        return None;
    }
    let interval = values.interval.get_or(INTERVAL);
    let timeout = values.timeout.get_or(TIMEOUT.min(interval));
    if timeout > interval {
        errors.push(AnnotationError::Incomplete(format!(
            "annotation {} selects a timeout of {timeout:?} for health checks, longer than their interval of {interval:?}: \
             the interval is used as timeout",
            values.timeout.source().unwrap_or_default()
        )));
    }
    Some(HealthCheck {
        probe: probe(values),
        port: values.port.get_or(None),
        interval,
        timeout: timeout.min(interval),
        healthy_threshold: values.healthy_threshold.get_or(HEALTHY_THRESHOLD),
        unhealthy_threshold: values.unhealthy_threshold.get_or(UNHEALTHY_THRESHOLD),
    })
}

fn probe(values: &HealthCheckValues) -> HealthProbe {
    let get_request = |is_https| HealthProbe::Http {
        is_https,
        path: values.path.get().cloned().unwrap_or_else(|| "/".into()),
        host: values.host.get().cloned(),
        expected_statuses: values
            .expected_statuses
            .get()
            .cloned()
            .unwrap_or_else(|| vec![EXPECTED_STATUSES]),
    };
    // A path without a protocol selects HTTP: a TCP check has no path.
    let default = if values.path.get().is_some() {
        CheckProtocol::Http
    } else {
        CheckProtocol::Tcp
    };
    match values.protocol.get_or(default) {
        CheckProtocol::Tcp => HealthProbe::Tcp,
        CheckProtocol::Ssl => HealthProbe::Ssl,
        CheckProtocol::Http => get_request(false),
        CheckProtocol::Https => get_request(true),
    }
}
