//! Metrics of the Service allocators: use, allocations, and faults found by the repair loop (FAM-28, CIDR-20, NP-12).

use telemetry::{MetricType, MetricsText};

use crate::registry::service::{
    AllocationCounts, Allocators, DURATION_BOUNDS_MICROSECONDS, RepairCounts, Usage,
};

/// Writes the metrics of the allocators.
pub(super) fn write(services: &Allocators, out: &mut MetricsText) {
    let usage = services.usage();
    write_addresses(&usage, out);
    write_ports(&usage, out);
    write_repairs(
        "clusterip",
        "ip",
        "clusterips by the repair loop broken down by type of error: leak, repair, full, outOfRange, duplicate, unknown, \
         invalid",
        &services.address_faults.read(),
        out,
    );
    write_repairs(
        "nodeport",
        "port",
        "ports by the repair loop broken down by type of error: leak, repair, full, outOfRange, duplicate, unknown",
        &services.port_faults.read(),
        out,
    );
}

fn write_repairs(pool: &str, unit: &str, errors: &str, repairs: &RepairCounts, out: &mut MetricsText) {
    let name = format!("kube_apiserver_{pool}_repair_{unit}_errors_total");
    let help = format!("Number of errors detected on {errors}");
    out.family(&name, MetricType::Counter, &help);
    for (fault, count) in &repairs.faults {
        out.sample(&name, &format!("type=\"{fault}\""), count);
    }
    let name = format!("kube_apiserver_{pool}_repair_reconcile_errors_total");
    let help = format!("Number of reconciliation failures on the {pool} repair reconcile loop");
    out.family(&name, MetricType::Counter, &help);
    out.sample(&name, "", repairs.failures);
}

/// Writes the metrics of cluster IPs.
fn write_addresses(usage: &Usage, out: &mut MetricsText) {
    const PREFIX: &str = "kube_apiserver_clusterip_allocator";
    let name = format!("{PREFIX}_allocated_ips");
    out.family(
        &name,
        MetricType::Gauge,
        "Gauge measuring the number of allocated IPs for Services",
    );
    for range in &usage.ranges {
        out.sample(&name, &format!("cidr=\"{}\"", range.net), range.allocated);
    }
    let name = format!("{PREFIX}_available_ips");
    out.family(
        &name,
        MetricType::Gauge,
        "Gauge measuring the number of available IPs for Services",
    );
    for range in &usage.ranges {
        out.sample(&name, &format!("cidr=\"{}\"", range.net), range.available);
    }
    let counters: [(&str, &str, fn(&AllocationCounts) -> u64); 2] = [
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
        out.family(&name, MetricType::Counter, help);
        for range in &usage.ranges {
            for (scope, taken) in [("dynamic", &range.dynamic), ("static", &range.requested)] {
                let labels = format!("cidr=\"{}\",scope=\"{scope}\"", range.net);
                out.sample(&name, &labels, read(taken));
            }
        }
    }
    let name = format!("{PREFIX}_allocation_duration_seconds");
    out.family(
        &name,
        MetricType::Histogram,
        "Duration in seconds to allocate a Cluster IP by ServiceCIDR",
    );
    for range in &usage.ranges {
        let durations = &range.durations;
        let bounds = DURATION_BOUNDS_MICROSECONDS.map(|bound| bound as f64 / 1e6);
        let (labels, seconds) = (format!("cidr=\"{}\"", range.net), durations.total.as_secs_f64());
        out.buckets(&name, &labels, &bounds, &durations.counts, seconds);
    }
}

fn write_ports(usage: &Usage, out: &mut MetricsText) {
    const PREFIX: &str = "kube_apiserver_nodeport_allocator";
    let name = format!("{PREFIX}_allocated_ports");
    out.family(
        &name,
        MetricType::Gauge,
        "Gauge measuring the number of allocated NodePorts for Services",
    );
    out.sample(&name, "", usage.allocated_ports);
    let name = format!("{PREFIX}_available_ports");
    out.family(
        &name,
        MetricType::Gauge,
        "Gauge measuring the number of available NodePorts for Services",
    );
    out.sample(&name, "", usage.available_ports);
    let counters: [(&str, &str, fn(&AllocationCounts) -> u64); 2] = [
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
        out.family(&name, MetricType::Counter, help);
        for (scope, taken) in [
            ("dynamic", &usage.dynamic_ports),
            ("static", &usage.requested_ports),
        ] {
            out.sample(&name, &format!("scope=\"{scope}\""), read(taken));
        }
    }
}
