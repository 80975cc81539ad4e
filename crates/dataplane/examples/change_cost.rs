//! Cost of changes: loads Services into the nftables of a separate network namespace, then changes them one by one.
//! As root: `change_cost [SERVICES [ENDPOINTS]]`; the defaults are 10000 Services with 10 endpoints each. `--list`
//! prints the table as the `nft` program shows it. `--ranges` then adds port ranges to 100 Services, and measures
//! changes of these and of endpoints beside them.

use std::error::Error;
use std::process::Command;
use std::time::{Duration, Instant};

use api::object::{EndpointSlice, ObjectKey, Service};
use dataplane::Dataplane;
use dataplane::nftables::{NftablesDataplane, Options};
use netlink::route::NetworkNamespace;
use plan::{Plan, Settings};
use serde_json::json;

/// Measured changes of each kind.
const CHANGES: usize = 500;
/// Services that get a port range.
const RANGES: usize = 100;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut numbers = arguments.iter().filter_map(|word| word.parse::<usize>().ok());
    let services = numbers.next().unwrap_or(10_000);
    let endpoints = numbers.next().unwrap_or(10);
    let is_listed = arguments.iter().any(|word| word == "--list");
    let has_ranges = arguments.iter().any(|word| word == "--ranges");
    let namespace = NetworkNamespace::create()?;
    let outcome = namespace.enter(|| {
        let measured = measure(services, endpoints, is_listed, has_ranges);
        measured.map_err(|error| error.to_string())
    })?;
    Ok(outcome?)
}

fn measure(
    services: usize,
    endpoints: usize,
    is_listed: bool,
    has_ranges: bool,
) -> Result<(), Box<dyn Error>> {
    let mut plan = plan(services, endpoints)?;
    let changes = plan.take_changes();
    let before = resident_kilobytes();
    let mut dataplane = NftablesDataplane::open(Options::default())?;
    let (applied, time) = timed(|| dataplane.apply(&plan, &changes))?;
    println!(
        "load of {services} x {endpoints}: {time:?}, {} elements",
        applied.elements
    );
    println!(
        "memory: plan {before} kB, with dataplane {} kB, peak {} kB",
        resident_kilobytes(),
        status("VmHWM")
    );

    let count = CHANGES.min(services);
    for (subject, endpoints) in [
        ("one endpoint replaced", endpoints),
        ("one endpoint fewer", endpoints - 1),
        ("one endpoint more", endpoints),
    ] {
        change(subject, &mut dataplane, &mut plan, count, |plan, number| {
            plan.apply_slice(&slice(number, endpoints, 1)?);
            Ok(())
        })?;
    }
    change(
        "Service removed",
        &mut dataplane,
        &mut plan,
        count,
        |plan, number| {
            plan.remove_service(&ObjectKey::new("default", &name(number)));
            Ok(())
        },
    )?;
    change("Service new", &mut dataplane, &mut plan, count, |plan, number| {
        plan.apply_service(&service(number)?);
        Ok(())
    })?;

    if has_ranges {
        measure_ranges(&mut dataplane, &mut plan, RANGES.min(services), endpoints)?;
    }
    let (drift, time) = timed(|| dataplane.repair(&plan))?;
    println!(
        "read back and compare: {time:?}, drift {drift}, peak {} kB",
        status("VmHWM")
    );
    let mut next = NftablesDataplane::open(Options::default())?;
    plan.mark_everything();
    let changes = plan.take_changes();
    let (applied, time) = timed(|| next.apply(&plan, &changes))?;
    println!(
        "takeover by a new process: {time:?}, {} elements",
        applied.elements
    );
    if is_listed {
        Command::new("nft")
            .args(["list", "table", "inet", "portolan"])
            .status()?;
    }
    Ok(())
}

fn measure_ranges(
    dataplane: &mut NftablesDataplane,
    plan: &mut Plan,
    count: usize,
    endpoints: usize,
) -> Result<(), Box<dyn Error>> {
    for (subject, first) in [("port range new", 10_000), ("port range changed", 20_000)] {
        change(subject, dataplane, plan, count, |plan, number| {
            let mut ranged = service(number)?;
            let annotations = &mut ranged.metadata.annotations;
            let ranges = format!("{first}-{}/UDP", first + 9_999);
            annotations.insert(plan::PORT_RANGES_ANNOTATION.into(), ranges);
            plan.apply_service(&ranged);
            Ok(())
        })?;
    }
    for (subject, version) in [("endpoint of a range replaced", 2), ("and once more", 3)] {
        change(subject, dataplane, plan, count, |plan, number| {
            plan.apply_slice(&slice(number, endpoints, version)?);
            Ok(())
        })?;
    }
    Ok(())
}

fn change(
    subject: &str,
    dataplane: &mut NftablesDataplane,
    plan: &mut Plan,
    count: usize,
    mut edit: impl FnMut(&mut Plan, usize) -> Result<(), Box<dyn Error>>,
) -> Result<(), Box<dyn Error>> {
    let mut times: Vec<Duration> = Vec::new();
    for number in 0..count {
        edit(plan, number)?;
        let changes = plan.take_changes();
        let (_, time) = timed(|| dataplane.apply(plan, &changes))?;
        times.push(time);
    }
    times.sort_unstable();
    let at = |part: usize| times.get(times.len() * part / 100).copied().unwrap_or_default();
    println!("{subject}: median {:?}, p99 {:?}", at(50), at(99));
    Ok(())
}

fn timed<T, E>(work: impl FnOnce() -> Result<T, E>) -> Result<(T, Duration), E> {
    let start = Instant::now();
    let result = work()?;
    Ok((result, start.elapsed()))
}

fn plan(services: usize, endpoints: usize) -> Result<Plan, Box<dyn Error>> {
    let mut plan = Plan::new(Settings {
        node_name: "node-a".to_owned(),
        pods: plan::PodDetection::Ranges(vec!["10.128.0.0/9".parse()?]),
        service_cidrs: vec!["10.96.0.0/16".parse()?],
        ..Settings::default()
    });
    for number in 0..services {
        plan.apply_service(&service(number)?);
        plan.apply_slice(&slice(number, endpoints, 0)?);
    }
    Ok(plan)
}

fn name(number: usize) -> String {
    format!("service-{number}")
}

fn service(number: usize) -> Result<Service, serde_json::Error> {
    let ip = format!("10.96.{}.{}", number / 256, number % 256);
    serde_json::from_value(json!({
        "metadata": {"namespace": "default", "name": name(number)},
        "spec": {"type": "ClusterIP", "clusterIP": ip, "clusterIPs": [ip], "ports": [{"name": "http", "port": 80}]},
    }))
}

/// Returns a slice whose last endpoint differs between versions.
fn slice(number: usize, endpoints: usize, version: usize) -> Result<EndpointSlice, serde_json::Error> {
    let endpoint = |index: usize| {
        let number = number * endpoints + index + if index + 1 == endpoints { version << 22 } else { 0 };
        let ip = format!(
            "10.{}.{}.{}",
            128 + (number >> 16) % 128,
            number >> 8 & 255,
            number & 255
        );
        json!({"addresses": [ip], "nodeName": if index == 0 { "node-a" } else { "node-b" }})
    };
    serde_json::from_value(json!({
        "metadata": {
            "namespace": "default",
            "name": name(number),
            "labels": {"kubernetes.io/service-name": name(number)},
        },
        "addressType": "IPv4",
        "ports": [{"name": "http", "port": 8080}],
        "endpoints": (0..endpoints).map(endpoint).collect::<Vec<_>>(),
    }))
}

fn resident_kilobytes() -> String {
    status("VmRSS")
}

/// Returns a line of this process's `/proc/self/status`.
fn status(name: &str) -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.unwrap_or("unknown")
        .trim()
        .trim_end_matches(" kB")
        .to_owned()
}
