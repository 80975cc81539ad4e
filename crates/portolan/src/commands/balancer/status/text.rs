//! Human-readable form of the report, with the problems first.

use std::fmt::Write as _;

use edge::status::{BackendState, BackendStatus, PortStatus};

use super::report::{AddressReport, Report, ServiceReport};
use crate::output::age;

/// Width of the column of names in characters.
const NAME_WIDTH: usize = 18;

/// Renders the report.
pub(super) fn render(report: &Report) -> String {
    let mut text = String::new();
    let is_healthy = if report.problems.is_empty() { "yes" } else { "no" };
    append_line(&mut text, "Healthy", is_healthy);
    for (number, problem) in report.problems.iter().enumerate() {
        append_line(&mut text, if number == 0 { "Problems" } else { "" }, problem);
    }
    if let Some(reason) = &report.api_not_queried {
        append_line(&mut text, "This node only", reason);
    }
    if let Some(node) = &report.node {
        append_line(&mut text, "Node", node);
    }
    append_line(
        &mut text,
        "Assigned by",
        report.assigner.as_deref().unwrap_or("unknown"),
    );
    members(&mut text, report);
    for reason in &report.forwarding_unavailable {
        append_line(
            &mut text,
            "Planned moves",
            &format!("reset connections of {reason}"),
        );
    }
    for (number, pool) in report.pools.iter().enumerate() {
        let usage = pool.usage.iter().map(|usage| {
            let note = if usage.assigned >= usage.total {
                ", exhausted"
            } else {
                ""
            };
            format!("{} {} of {}{note}", usage.family, usage.assigned, usage.total)
        });
        let usage: Vec<String> = usage.collect();
        let pool = format!("{}: {}", pool.name, usage.join("; "));
        append_line(&mut text, if number == 0 { "Pools in use" } else { "" }, &pool);
    }
    text.push_str(&services(&report.services));
    text.push_str(&sessions(report.bgp.as_ref()));
    text.push_str(&ports(&report.edge));
    text
}

fn append_line(text: &mut String, name: &str, value: &str) {
    // Writing to a String cannot fail.
    writeln!(text, "{name:<NAME_WIDTH$}{value}").unwrap_or_default();
}

fn members(text: &mut String, report: &Report) {
    let members = report.members.iter().map(|member| {
        let probe = match (member.is_this, member.probe_age_milliseconds) {
            (true, _) => "this node".to_owned(),
            (false, Some(ago)) if member.is_reachable => format!("responded {ago} ms ago"),
            (false, Some(ago)) => format!("no response for {}", age(ago / 1_000)),
            (false, None) => "no response yet".to_owned(),
        };
        let joining = if member.is_joining { ", joining" } else { "" };
        let leaving = if member.is_leaving { ", leaving" } else { "" };
        format!("{} ({probe}{joining}{leaving})", member.node)
    });
    let members: Vec<String> = members.collect();
    if !members.is_empty() {
        append_line(text, "Members", &members.join(", "));
    }
}

fn services(services: &[ServiceReport]) -> String {
    let mut rows = Vec::new();
    for service in services {
        let row = |ip: &str, address: &AddressReport| {
            let optional = |value: &Option<String>| value.as_deref().unwrap_or("-").to_owned();
            let accepted_by = if address.accepted_by.is_empty() {
                "-"
            } else {
                address.accepted_by
            };
            [
                service.service.clone(),
                ip.to_owned(),
                optional(&address.pool),
                optional(&address.node),
                accepted_by.to_owned(),
            ]
        };
        match service.addresses.as_slice() {
            [] => rows.push(row("<pending>", &AddressReport::default())),
            addresses => rows.extend(addresses.iter().map(|address| row(&address.ip, address))),
        }
    }
    let mut text = table(
        ["SERVICE", "ADDRESS", "POOL", "ANNOUNCED BY", "ACCEPTED BY"],
        &rows,
    );
    for service in services {
        if let Some(remarks) = &service.remarks {
            text.push_str(&format!("{}: {remarks}\n", service.service));
        }
    }
    text
}

/// Renders the BGP sessions of this node.
pub(super) fn sessions(bgp: Option<&speaker::Status>) -> String {
    let Some(bgp) = bgp else { return String::new() };
    let rows = bgp.sessions.iter().map(|session| {
        let optional = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
        [
            session.peer.clone(),
            session.address.clone(),
            optional(session.peer_as.map(|number| number.to_string())),
            session.state.clone(),
            optional(session.established_seconds.map(age)),
            format!("{} of {}", session.announced_routes, session.desired_routes),
            optional(session.bfd.clone()),
        ]
    });
    let rows: Vec<[String; 7]> = rows.collect();
    let titles = ["BGP PEER", "ADDRESS", "AS", "STATE", "SINCE", "ROUTES", "BFD"];
    let mut text = table(titles, &rows);
    if let Some(drain) = &bgp.drain {
        text.push_str(&format!("{drain}\n"));
    }
    text
}

/// Formats the ports of the edge as a table, and the backends that are unhealthy or have failed.
fn ports(ports: &[PortStatus]) -> String {
    let rows = ports.iter().map(|port| {
        let refused = port.refused.iter();
        let refused: Vec<String> = refused
            .map(|(reason, count)| format!("{count} {reason}"))
            .collect();
        let lost = match port.lost_log_lines {
            0 => "-".to_owned(),
            lines => lines.to_string(),
        };
        [
            port_name(port),
            port.open_connections.to_string(),
            port.connections.to_string(),
            if refused.is_empty() {
                "-".to_owned()
            } else {
                refused.join(", ")
            },
            lost,
            summary(&port.backends),
        ]
    });
    let rows: Vec<[String; 6]> = rows.collect();
    let titles = [
        "EDGE PORT",
        "OPEN",
        "ACCEPTED",
        "REFUSED",
        "LOG LINES LOST",
        "BACKENDS",
    ];
    let mut text = table(titles, &rows);
    for port in ports {
        for backend in &port.backends {
            let failed = backend.last_failure.as_ref();
            let failure =
                failed.map(|failed| format!(", failed {} ago: {}", age(failed.seconds_ago), failed.reason));
            if backend.state != BackendState::Healthy || failure.is_some() {
                text.push_str(&format!(
                    "{} backend {}: {}{}\n",
                    port_name(port),
                    backend.address,
                    state_name(backend.state),
                    failure.unwrap_or_default()
                ));
            }
        }
    }
    text
}

fn port_name(port: &PortStatus) -> String {
    format!(
        "{}/{}:{}/{}",
        port.namespace, port.service, port.port, port.frontend
    )
}

/// Returns the number of backends in each state.
fn summary(backends: &[BackendStatus]) -> String {
    let states = [
        BackendState::Healthy,
        BackendState::Terminating,
        BackendState::Ejected,
        BackendState::Unhealthy,
        BackendState::NotReady,
    ];
    let counted = states.map(|state| {
        let backends = backends.iter().filter(|backend| backend.state == state);
        (state, backends.count())
    });
    let counted = counted.iter().filter(|(_, count)| *count > 0);
    let counted: Vec<String> = counted
        .map(|(state, count)| format!("{count} {}", state_name(*state)))
        .collect();
    if counted.is_empty() {
        return "none".to_owned();
    }
    counted.join(", ")
}

fn state_name(state: BackendState) -> &'static str {
    match state {
        BackendState::Healthy => "healthy",
        BackendState::Terminating => "terminating",
        BackendState::Ejected => "ejected",
        BackendState::Unhealthy => "unhealthy",
        BackendState::NotReady => "not ready",
    }
}

/// Renders a table after an empty line; an empty text if there are no rows.
fn table<const COLUMNS: usize>(titles: [&str; COLUMNS], rows: &[[String; COLUMNS]]) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let widths: [usize; COLUMNS] = std::array::from_fn(|column| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([titles[column].len()]).max().unwrap_or_default()
    });
    let render_row = |cells: [&str; COLUMNS]| {
        let padded = cells
            .iter()
            .zip(widths)
            .map(|(cell, width)| format!("{cell:<width$}"));
        let padded: Vec<String> = padded.collect();
        padded.join("  ").trim_end().to_owned() + "\n"
    };
    let rows = rows
        .iter()
        .map(|row| render_row(std::array::from_fn(|column| row[column].as_str())));
    let mut text = format!("\n{}", render_row(titles));
    text.extend(rows);
    text
}
