//! The report for people: what is wrong first, since that is what it is asked for at night.

use std::fmt::Write as _;

use edge::status::{BackendState, BackendStatus, PortStatus};

use super::report::{AddressReport, Report, ServiceReport};
use crate::commands::status::age;

/// Width of the column of names.
const NAME_WIDTH: usize = 18;

/// The report.
pub fn of(report: &Report) -> String {
    let mut text = String::new();
    let well = if report.wrong.is_empty() { "yes" } else { "no" };
    line(&mut text, "Well", well);
    for (number, wrong) in report.wrong.iter().enumerate() {
        line(&mut text, if number == 0 { "Wrong" } else { "" }, wrong);
    }
    if let Some(node) = &report.node {
        line(&mut text, "Node", node);
    }
    line(
        &mut text,
        "Assigned by",
        report.assigner.as_deref().unwrap_or("not known here"),
    );
    members(&mut text, report);
    for why in &report.cannot_lead {
        line(&mut text, "Moves", &format!("lose open connections of {why}"));
    }
    for (number, pool) in report.pools.iter().enumerate() {
        let usage = pool.usage.iter().map(|usage| {
            let note = if usage.assigned >= usage.total {
                ", none is left"
            } else {
                ""
            };
            format!("{} {} of {}{note}", usage.family, usage.assigned, usage.total)
        });
        let usage: Vec<String> = usage.collect();
        let pool = format!("{}: {}", pool.name, usage.join("; "));
        line(&mut text, if number == 0 { "Pools in use" } else { "" }, &pool);
    }
    text.push_str(&services(&report.services));
    text.push_str(&ports(&report.edge));
    text
}

fn line(text: &mut String, name: &str, value: &str) {
    // Writing to a String cannot fail.
    writeln!(text, "{name:<NAME_WIDTH$}{value}").unwrap_or_default();
}

fn members(text: &mut String, report: &Report) {
    let members = report.members.iter().map(|member| {
        let how = match (member.is_this, member.heard_milliseconds_ago) {
            (true, _) => "this one".to_owned(),
            (false, Some(ago)) if member.is_heard => format!("heard {ago} ms ago"),
            (false, Some(ago)) => format!("silent for {}", age(ago / 1_000)),
            (false, None) => "never heard".to_owned(),
        };
        let joining = if member.is_joining { ", joins" } else { "" };
        let leaving = if member.is_leaving { ", leaves" } else { "" };
        format!("{} ({how}{joining}{leaving})", member.node)
    });
    let members: Vec<String> = members.collect();
    if !members.is_empty() {
        line(text, "Members", &members.join(", "));
    }
}

fn services(services: &[ServiceReport]) -> String {
    let mut rows = Vec::new();
    for service in services {
        let row = |ip: &str, address: &AddressReport| {
            let optional = |value: &Option<String>| value.as_deref().unwrap_or("-").to_owned();
            let taken_by = if address.taken_by.is_empty() {
                "-"
            } else {
                address.taken_by
            };
            [
                service.service.clone(),
                ip.to_owned(),
                optional(&address.pool),
                optional(&address.node),
                taken_by.to_owned(),
            ]
        };
        match service.addresses.as_slice() {
            [] => rows.push(row("<pending>", &AddressReport::default())),
            addresses => rows.extend(addresses.iter().map(|address| row(&address.ip, address))),
        }
    }
    let mut text = table(["SERVICE", "ADDRESS", "POOL", "ANNOUNCED BY", "TAKEN BY"], &rows);
    for service in services {
        if let Some(remarks) = &service.remarks {
            text.push_str(&format!("{}: {remarks}\n", service.service));
        }
    }
    text
}

fn ports(ports: &[PortStatus]) -> String {
    let rows = ports.iter().map(|port| {
        let refused = port.refused.iter();
        let refused: Vec<String> = refused.map(|(why, count)| format!("{count} {why}")).collect();
        let lost = match port.lost_log_lines {
            0 => "-".to_owned(),
            lines => lines.to_string(),
        };
        [
            name_of(port),
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
        "PORT OF THE EDGE",
        "OPEN",
        "TAKEN",
        "REFUSED",
        "LOG LINES LOST",
        "BACKENDS",
    ];
    let mut text = table(titles, &rows);
    for port in ports {
        for backend in &port.backends {
            let failed = backend.last_failure.as_ref();
            let why =
                failed.map(|failed| format!(", failed {} ago: {}", age(failed.seconds_ago), failed.reason));
            if backend.state != BackendState::Healthy || why.is_some() {
                text.push_str(&format!(
                    "{} backend {}: {}{}\n",
                    name_of(port),
                    backend.address,
                    state(backend.state),
                    why.unwrap_or_default()
                ));
            }
        }
    }
    text
}

fn name_of(port: &PortStatus) -> String {
    format!(
        "{}/{}:{}/{}",
        port.namespace, port.service, port.port, port.frontend
    )
}

/// How many backends are in which state.
fn summary(backends: &[BackendStatus]) -> String {
    let states = [
        BackendState::Healthy,
        BackendState::Terminating,
        BackendState::Ejected,
        BackendState::Unhealthy,
        BackendState::NotReady,
    ];
    let counted = states.map(|wanted| (wanted, backends.iter().filter(|one| one.state == wanted).count()));
    let counted = counted.iter().filter(|(_, count)| *count > 0);
    let counted: Vec<String> = counted
        .map(|(wanted, count)| format!("{count} {}", state(*wanted)))
        .collect();
    match counted.is_empty() {
        true => "none".to_owned(),
        false => counted.join(", "),
    }
}

fn state(state: BackendState) -> &'static str {
    match state {
        BackendState::Healthy => "healthy",
        BackendState::Terminating => "terminating",
        BackendState::Ejected => "ejected",
        BackendState::Unhealthy => "unhealthy",
        BackendState::NotReady => "not ready",
    }
}

/// A table behind an empty line; nothing if it has no rows.
fn table<const COLUMNS: usize>(titles: [&str; COLUMNS], rows: &[[String; COLUMNS]]) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let widths: [usize; COLUMNS] = std::array::from_fn(|column| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([titles[column].len()]).max().unwrap_or_default()
    });
    let written = |cells: [&str; COLUMNS]| {
        let padded = cells
            .iter()
            .zip(widths)
            .map(|(cell, width)| format!("{cell:<width$}"));
        let padded: Vec<String> = padded.collect();
        padded.join("  ").trim_end().to_owned() + "\n"
    };
    let rows = rows
        .iter()
        .map(|row| written(std::array::from_fn(|column| row[column].as_str())));
    let mut text = format!("\n{}", written(titles));
    text.extend(rows);
    text
}
