//! Time in which `portolan doctor` examines one of many Services, from a file and from an API server.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use clap::Args;
use client::{Client, Config};
use serde_json::{Value, json};

use crate::Failure;
use crate::environment::{Environment, run_enclosed};
use crate::fixtures;
use crate::percentiles::Percentiles;
use crate::process::portolan;

/// Flags of `bench doctor`.
#[derive(Debug, Args)]
pub(crate) struct Flags {
    /// Number of Services
    #[arg(long, default_value_t = 10_000)]
    services: usize,
    /// Number of endpoints per Service
    #[arg(long, default_value_t = 2)]
    endpoints: usize,
    /// Number of examinations of each kind
    #[arg(long, default_value_t = 20)]
    runs: usize,
}

/// Exit codes of an examination: without and with findings.
const EXAMINED: [i32; 2] = [0, 1];

/// Runs the benchmark.
pub(crate) fn run(flags: &Flags) -> Result<ExitCode, Failure> {
    run_enclosed(false, |environment: Environment| {
        measure_file(flags, &environment.directory)?;
        let config = Config::from_kubeconfig(&environment.kubeconfig())?;
        environment.with_api(async || create(flags, config).await)?;
        measure_api(flags, &environment)
    })
}

/// Examines a file with Services, slices and Pods, as `kubectl get -o json` prints them.
fn measure_file(flags: &Flags, directory: &Path) -> Result<(), Failure> {
    let path = directory.join("objects.json");
    let mut file = std::io::BufWriter::new(std::fs::File::create(&path)?);
    for number in 0..flags.services {
        for object in objects(number, flags.endpoints) {
            writeln!(file, "{object}")?;
        }
    }
    file.flush()?;
    drop(file);
    let megabytes = std::fs::metadata(&path)?.len() as f64 / 1e6;
    let path = path.display().to_string();
    let name = format!("default/{}", name(flags.services / 2));
    let one = examine(flags.runs, &["service", &name, "--from-file", &path])?;
    print("one Service of a file", &one);
    println!("file: {megabytes:.1} MB");
    let all = examine(flags.runs.div_ceil(4), &["--from-file", &path])?;
    print("all Services of a file", &all);
    Ok(())
}

async fn create(flags: &Flags, config: Config) -> Result<(), Failure> {
    let clients = (0..8)
        .map(|_| Client::new(config.clone()))
        .collect::<Result<Vec<_>, _>>()?;
    fixtures::create_services(&clients, flags.services, flags.endpoints).await
}

fn measure_api(flags: &Flags, environment: &Environment) -> Result<(), Failure> {
    let kubeconfig = environment.kubeconfig().display().to_string();
    let one = ["service", "default/kubernetes", "--kubeconfig", &kubeconfig];
    let plane = environment.cluster.control_plane()?;
    let times = plane.enter(|| examine(flags.runs, &one))??;
    print("one Service of an API server", &times);
    Ok(())
}

fn print(subject: &str, times: &Percentiles) {
    println!(
        "{subject}: p50 {:.0} ms, p99 {:.0} ms",
        times.milliseconds(50),
        times.milliseconds(99)
    );
}

/// Runs `portolan doctor` several times.
fn examine(runs: usize, arguments: &[&str]) -> Result<Percentiles, Failure> {
    let program = portolan()?;
    let mut times: Vec<Duration> = Vec::with_capacity(runs);
    for _ in 0..runs {
        let mut command = Command::new(&program);
        command.arg("doctor").args(arguments).args(["-o", "json"]);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let started = Instant::now();
        let status = command.status()?;
        times.push(started.elapsed());
        if !status.code().is_some_and(|code| EXAMINED.contains(&code)) {
            return Err(format!("portolan doctor: {status}").into());
        }
    }
    Percentiles::of(times).ok_or_else(|| "no measurement".into())
}

fn name(number: usize) -> String {
    format!("web-{number}")
}

/// A Service with its slice and Pods.
fn objects(number: usize, endpoints: usize) -> Vec<Value> {
    let name = name(number);
    let labels = json!({"app": name});
    let address = |index: usize| {
        let pod = number * endpoints + index;
        format!("10.{}.{}.{}", 128 + pod / 65_536 % 64, pod / 256 % 256, pod % 256)
    };
    let cluster_ip = format!("10.96.{}.{}", number / 256 % 256, number % 256);
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": "default"},
        "spec": {"type": "ClusterIP", "clusterIP": cluster_ip, "clusterIPs": [cluster_ip], "ipFamilies": ["IPv4"],
            "selector": labels, "ports": [{"name": "http", "port": 80, "targetPort": "http", "protocol": "TCP"}]}});
    let pod_name = |index: usize| format!("{name}-{index}");
    let pod = |index: usize| {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": pod_name(index), "namespace": "default", "labels": labels},
            "spec": {"nodeName": "node-a", "containers": [{"name": "web", "image": "web",
                "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}]}]},
            "status": {"phase": "Running", "podIP": address(index), "podIPs": [{"ip": address(index)}],
                "conditions": [{"type": "Ready", "status": "True"}]}})
    };
    let endpoint = |index: usize| {
        json!({"addresses": [address(index)], "conditions": {"ready": true, "serving": true, "terminating": false},
            "nodeName": "node-a", "targetRef": {"kind": "Pod", "namespace": "default", "name": pod_name(index)}})
    };
    let slice = json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {"name": format!("{name}-x"), "namespace": "default", "labels": {"kubernetes.io/service-name": name,
            "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io"}},
        "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
        "endpoints": (0..endpoints).map(endpoint).collect::<Vec<_>>()});
    let pods = (0..endpoints).map(pod);
    [service, slice].into_iter().chain(pods).collect()
}
