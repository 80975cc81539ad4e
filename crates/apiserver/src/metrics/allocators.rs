//! How much of the Service ranges is in use, and what was taken from them (FAM-28, NP-12).

use super::text::Text;
use crate::service::{Taken, Usage};

pub(super) fn render(usage: &Usage, out: &mut Text) {
    render_addresses(usage, out);
    render_ports(usage, out);
}

fn render_addresses(usage: &Usage, out: &mut Text) {
    const PREFIX: &str = "kube_apiserver_clusterip_allocator";
    let name = format!("{PREFIX}_allocated_ips");
    out.head(
        &name,
        "gauge",
        "Gauge measuring the number of allocated IPs for Services",
    );
    for range in &usage.ranges {
        out.value(&name, &format!("cidr=\"{}\"", range.net), range.allocated);
    }
    let name = format!("{PREFIX}_available_ips");
    out.head(
        &name,
        "gauge",
        "Gauge measuring the number of available IPs for Services",
    );
    for range in &usage.ranges {
        out.value(&name, &format!("cidr=\"{}\"", range.net), range.available);
    }
    let counters: [(&str, &str, fn(&Taken) -> u64); 2] = [
        ("allocation_total", "Number of Cluster IPs allocations", |taken| {
            taken.allocations
        }),
        (
            "allocation_errors_total",
            "Number of errors trying to allocate Cluster IPs",
            |taken| taken.errors,
        ),
    ];
    for (counter, help, read) in counters {
        let name = format!("{PREFIX}_{counter}");
        out.head(&name, "counter", help);
        for range in &usage.ranges {
            for (scope, taken) in [("dynamic", &range.dynamic), ("static", &range.requested)] {
                let labels = format!("cidr=\"{}\",scope=\"{scope}\"", range.net);
                out.value(&name, &labels, read(taken));
            }
        }
    }
}

fn render_ports(usage: &Usage, out: &mut Text) {
    const PREFIX: &str = "kube_apiserver_nodeport_allocator";
    let name = format!("{PREFIX}_allocated_ports");
    out.head(
        &name,
        "gauge",
        "Gauge measuring the number of allocated NodePorts for Services",
    );
    out.value(&name, "", usage.allocated_ports);
    let name = format!("{PREFIX}_available_ports");
    out.head(
        &name,
        "gauge",
        "Gauge measuring the number of available NodePorts for Services",
    );
    out.value(&name, "", usage.available_ports);
    let counters: [(&str, &str, fn(&Taken) -> u64); 2] = [
        ("allocation_total", "Number of NodePort allocations", |taken| {
            taken.allocations
        }),
        (
            "allocation_errors_total",
            "Number of errors trying to allocate NodePort",
            |taken| taken.errors,
        ),
    ];
    for (counter, help, read) in counters {
        let name = format!("{PREFIX}_{counter}");
        out.head(&name, "counter", help);
        for (scope, taken) in [
            ("dynamic", &usage.dynamic_ports),
            ("static", &usage.requested_ports),
        ] {
            out.value(&name, &format!("scope=\"{scope}\""), read(taken));
        }
    }
}
