//! How much of the Service ranges is in use, what was taken from them, and what was wrong with them (FAM-28, CIDR-20,
//! NP-12).

use super::text::Text;
use crate::service::{DURATION_BOUNDS_US, Registry, Repairs, Taken, Usage};

pub(super) fn render(services: &Registry, out: &mut Text) {
    let usage = services.usage();
    render_addresses(&usage, out);
    render_ports(&usage, out);
    render_repairs("clusterip", "ip", &services.address_faults.read(), out);
    render_repairs("nodeport", "port", &services.port_faults.read(), out);
}

fn render_repairs(pool: &str, unit: &str, repairs: &Repairs, out: &mut Text) {
    let name = format!("kube_apiserver_{pool}_repair_{unit}_errors_total");
    let help = format!("Errors found by the {pool} repair loop, by type.");
    out.head(&name, "counter", &help);
    for (fault, count) in &repairs.faults {
        out.value(&name, &format!("type=\"{fault}\""), count);
    }
    let name = format!("kube_apiserver_{pool}_repair_reconcile_errors_total");
    let help = format!("Passes of the {pool} repair loop that failed.");
    out.head(&name, "counter", &help);
    out.value(&name, "", repairs.failures);
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
    let name = format!("{PREFIX}_allocation_duration_seconds");
    out.head(
        &name,
        "histogram",
        "Duration in seconds to allocate a Cluster IP by ServiceCIDR",
    );
    for range in &usage.ranges {
        let durations = &range.durations;
        let bounds = DURATION_BOUNDS_US.iter().map(|us| *us as f64 / 1e6);
        let buckets = bounds.zip(durations.buckets);
        let (labels, seconds) = (format!("cidr=\"{}\"", range.net), durations.total.as_secs_f64());
        out.histogram(&name, &labels, buckets, durations.count, seconds);
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
