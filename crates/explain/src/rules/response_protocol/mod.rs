//! PTL-0059: the response is of another protocol, or of a proxy without a backend.

mod configured;

use super::{
    endpoints_missing, listener_absent, pods_not_ready, pods_not_running, selector_matches_no_pod,
    slice_port_name, target_port_undeclared,
};
use crate::facts::probes::{self, Declared, ObservedProbe};
use crate::finding::{Code, Finding, Severity};
use crate::kubectl;
use crate::observation::{NodeObservation, Outcome, Probe, ProbeKind};
use crate::rule::Rule;
use crate::subject::Subject;
use crate::views::Port;

pub(super) const RULE: Rule = Rule {
    code: CODE,
    documentation: include_str!("../response_protocol.md"),
    explained_by: &[
        selector_matches_no_pod::CODE,
        pods_not_ready::CODE,
        pods_not_running::CODE,
        target_port_undeclared::CODE,
        endpoints_missing::CODE,
        slice_port_name::CODE,
        listener_absent::CODE,
    ],
    service: Some(check),
    cluster: None,
};

pub(super) const CODE: Code = Code(59);
/// Status codes of a proxy that gets no valid response from a backend.
const GATEWAY_ERRORS: [u16; 2] = [502, 504];
/// Status code for a request that the server does not understand.
const BAD_REQUEST: u16 = 400;

fn check(subject: &Subject<'_>) -> Vec<Finding> {
    let found = probes::of_service(subject);
    let each = found.iter().filter_map(|found| {
        other_protocol(subject, *found)
            .or_else(|| certificate(subject, *found))
            .or_else(|| gateway(subject, *found))
    });
    let first = proxy_protocol(subject, &found)
        .or_else(|| each.into_iter().next())
        .or_else(|| other_readiness_probe(subject))
        .or_else(|| configured::ingresses_with_other_protocol(subject))
        .or_else(|| configured::clients_with_other_scheme(subject));
    first.into_iter().collect()
}

/// Reports that a port that declares HTTP answers with TLS, or the reverse.
fn other_protocol(subject: &Subject<'_>, found: ObservedProbe<'_>) -> Option<Finding> {
    let (_, probe) = found;
    if probe.outcome != Outcome::OtherProtocol {
        return None;
    }
    let port = probes::port_of(subject, probe)?;
    let (declared, actual) = match (probe.kind, probes::declared_protocol(subject, port)?) {
        (ProbeKind::Http, Declared::Http) => ("HTTP", "TLS"),
        (ProbeKind::Tls, Declared::Tls) => ("TLS", "a protocol without TLS"),
        _ => return None,
    };
    let message = format!(
        "Port {port} of Service {} declares {declared} by its name or appProtocol, but {} answers with {actual}",
        subject.service.name, probe.target
    );
    let remedy = format!(
        "Correct targetPort, or the name and appProtocol of the port, so that clients and proxies use the protocol of the application: {}",
        kubectl::command("edit", subject.service.0)
    );
    let finding = subject.finding(CODE, Severity::Error, port.field("name"), message, remedy);
    Some(finding.with_evidence(probes::description(found)))
}

/// Reports that `appProtocol` contradicts the readiness probe of a Pod that is ready. The kubelet receives responses
/// in the protocol of the probe.
fn other_readiness_probe(subject: &Subject<'_>) -> Option<Finding> {
    let ports = subject.service.ports();
    ports
        .into_iter()
        .filter(|port| !subject.service.text(&port.pointer("appProtocol")).is_empty())
        .find_map(|port| other_scheme(subject, port))
}

fn other_scheme(subject: &Subject<'_>, port: Port<'_>) -> Option<Finding> {
    let mut ready = subject.active().filter(|pod| pod.is_ready());
    let (pod, scheme) = ready.find_map(|pod| {
        let number = pod.resolve(port.target, port.protocol)?;
        Some((pod, pod.readiness_scheme(number)?))
    })?;
    let actual = match (probes::declared_protocol(subject, port)?, scheme) {
        (Declared::Http, "HTTPS") => "TLS",
        (Declared::Tls, "HTTP") => "HTTP without TLS",
        _ => return None,
    };
    let message = format!(
        "Port {port} of Service {} has the appProtocol {}, but the readiness probe of Pod {}, which is ready, uses {actual} at the target port",
        subject.service.name,
        subject.service.text(&port.pointer("appProtocol")),
        pod.name
    );
    let remedy = format!(
        "Set the appProtocol of the application, so that gateways and load balancers use it, too: {}",
        kubectl::command("edit", subject.service.0)
    );
    Some(subject.finding(
        CODE,
        Severity::Warning,
        port.field("appProtocol"),
        message,
        remedy,
    ))
}

/// Reports that the certificate is not for the requested name, or has expired.
fn certificate(subject: &Subject<'_>, found: ObservedProbe<'_>) -> Option<Finding> {
    let (observation, probe) = found;
    if probe.kind != ProbeKind::Tls || probe.outcome != Outcome::Answered {
        return None;
    }
    let service = &subject.service.name;
    let message = wrong_name(probe)
        .map(|(name, names)| {
            format!(
                "{} of Service {service} answers requests for {name} with a certificate for {names}",
                probe.target
            )
        })
        .or_else(|| {
            let expires = expiry_in_past(observation, probe)?;
            Some(format!(
                "The certificate of {} of Service {service} expired at {expires}",
                probe.target
            ))
        })?;
    let remedy = "Use a certificate for the name that clients request, and renew it before it expires";
    let finding = subject.finding(CODE, Severity::Error, "", message, remedy);
    Some(finding.with_evidence(probes::description(found)))
}

/// Returns the requested name and the names of the certificate if they do not match.
fn wrong_name(probe: &Probe) -> Option<(&str, String)> {
    let name = probe.server_name.as_deref()?;
    let names = probe.answers.as_ref().filter(|names| !names.is_empty())?;
    // A certificate for clients outside of the cluster needs no internal name.
    let is_internal = |name: &str| name.ends_with(".svc") || name.contains(".svc.");
    if is_internal(name) && !names.iter().any(|name| is_internal(name)) {
        return None;
    }
    let is_valid = names.iter().any(|pattern| matches_name(pattern, name));
    (!is_valid).then(|| (name, names.join(", ")))
}

/// A wildcard stands for the first label (RFC 9525, section 6.3).
fn matches_name(pattern: &str, name: &str) -> bool {
    let is_equal = |a: &str, b: &str| a.eq_ignore_ascii_case(b.trim_end_matches('.'));
    match pattern.strip_prefix("*.") {
        Some(domain) => name
            .split_once('.')
            .is_some_and(|(first, rest)| !first.is_empty() && is_equal(domain, rest)),
        None => is_equal(pattern, name),
    }
}

/// Returns the time of expiry if it is before the observation. Times in UTC of equal length are ordered as texts.
fn expiry_in_past<'p>(observation: &NodeObservation, probe: &'p Probe) -> Option<&'p str> {
    let (expires, now) = (probe.expires.as_deref()?, observation.observed_at.as_deref()?);
    let seconds = |time: &str| time.strip_suffix('Z')?.get(..19).map(str::to_owned);
    (seconds(expires)? < seconds(now)?).then_some(expires)
}

/// Reports endpoints that do not respond to a proxy in front of them.
fn gateway(subject: &Subject<'_>, found: ObservedProbe<'_>) -> Option<Finding> {
    let (_, probe) = found;
    let status = probe.status.filter(|status| GATEWAY_ERRORS.contains(status))?;
    if probe.kind != ProbeKind::Http || !probes::is_to_frontend(subject, probe) {
        return None;
    }
    let message = format!(
        "{} of Service {} answers with status {status}: a proxy in front of the backends got no valid response from them in time",
        probe.target, subject.service.name
    );
    let remedy = "Compare protocol, port and timeouts between the proxy and the backends. The access log of the proxy names the backend";
    let finding = subject.finding(CODE, Severity::Error, "", message, remedy);
    Some(finding.with_evidence(probes::description(found)))
}

/// Reports that only one side uses the PROXY protocol.
fn proxy_protocol(subject: &Subject<'_>, found: &[ObservedProbe<'_>]) -> Option<Finding> {
    let http = |has_header: bool, is_to_endpoint: bool| {
        found.iter().copied().filter(move |(_, probe)| {
            probe.kind == ProbeKind::Http
                && (probe.proxy_protocol == Some(true)) == has_header
                && probes::ready_endpoint(subject, probe).is_some() == is_to_endpoint
        })
    };
    let is_accepted = |probe: &Probe| {
        probe.outcome == Outcome::Answered && probe.status.is_none_or(|status| status != BAD_REQUEST)
    };
    let is_rejected = |probe: &Probe| {
        matches!(probe.outcome, Outcome::Closed | Outcome::Reset)
            || (probe.outcome == Outcome::Answered && probe.status == Some(BAD_REQUEST))
    };
    let any = |has_header: bool, is_wanted: &dyn Fn(&Probe) -> bool| {
        http(has_header, true).find(|(_, probe)| is_wanted(probe))
    };
    let annotation = probes::proxy_protocol_annotation(subject);
    let (field, message, remedy, evidence) = if let (Some(accepted), Some(_)) =
        (any(true, &is_accepted), any(false, &is_rejected))
    {
        let fails = http(false, false).any(|(_, probe)| is_rejected(probe));
        if !fails || annotation.is_some() {
            return None;
        }
        let message = format!(
            "The endpoints of Service {} expect a header of the PROXY protocol, and the load balancer sends none",
            subject.service.name
        );
        (
            "metadata.annotations".to_owned(),
            message,
            "Turn on the PROXY protocol at the load balancer, or off in the backend",
            accepted,
        )
    } else {
        let key = annotation?;
        let (Some(rejected), Some(_)) = (any(true, &is_rejected), any(false, &is_accepted)) else {
            return None;
        };
        let message = format!(
            "The load balancer sends a header of the PROXY protocol ({key}), and the endpoints of Service {} do not expect it",
            subject.service.name
        );
        (
            format!("metadata.annotations[{key}]"),
            message,
            "Turn on the PROXY protocol in the backend, or remove the annotation",
            rejected,
        )
    };
    let finding = subject.finding(CODE, Severity::Error, field, message, remedy);
    Some(finding.with_evidence(probes::description(evidence)))
}

#[cfg(test)]
mod tests;
