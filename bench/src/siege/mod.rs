//! `portolan up` under attack. Each attack runs against a server of its own, from one host and one core. The
//! table shows requests of an administrator, Lease renewals of the Node and changes of a Service during the
//! attack.

mod attack;
mod attacker;
mod measured_server;

use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicBool, Ordering};

use clap::{Args, ValueEnum};
use client::{Client, Config, JSON};
use http::Method;
use serde_json::{Value, json};

use self::attack::{Attack, Credentials};
use self::measured_server::{MeasuredServer, Statistics};
use crate::Failure;
use crate::environment::{TIMEOUT, run_enclosed_in_directory};
use crate::fixtures;
use crate::process::with_log;
use crate::proxy::{backends, wait_for};
use crate::standalone::StandaloneNode;

pub(crate) use attacker::Flags as AttackerFlags;
pub(crate) use attacker::run as attack;

/// Namespace in which the attackers have their ServiceAccounts and rights.
const TARGET_NAMESPACE: &str = "attacked";
/// Pod that accepts connections and sends nothing.
const POD_NAME: &str = "unresponsive";
/// Service whose endpoint is replaced.
const SERVICE_NAME: &str = "zz-measured";
/// Number of ConfigMaps in the lists of an attacker.
const CONFIG_MAPS: usize = 100;
/// Size in bytes of each of these ConfigMaps.
const CONFIG_MAP_BYTES: usize = 10_000;
/// Program of the Pod that sends nothing.
const UNRESPONSIVE_PROGRAM: &str =
    "import socket, time; s = socket.create_server(('', 8080), backlog=4096); time.sleep(1e6)";

/// Flags of `bench siege`.
#[derive(Clone, Debug, Args)]
pub(crate) struct Flags {
    /// Attack to run; all attacks by default
    #[arg(long, value_enum)]
    attack: Option<Attack>,
    /// Duration of an attack in seconds
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Additional flag of `portolan up`; repeatable
    #[arg(long = "up-flag", value_name = "FLAG", allow_hyphen_values = true)]
    up_flags: Vec<String>,
}

/// Runs the attacks and prints a row for each.
///
/// # Errors
/// The testbed or the server does not start, or a process of the benchmark exits early.
pub(crate) fn run(flags: &Flags) -> Result<ExitCode, Failure> {
    if let Some(attack) = flags.attack {
        return run_enclosed_in_directory(|directory| run_attack(attack, flags, directory));
    }
    println!(
        "| {:<18} | GET p50 / p99 / max ms | failed | longest Lease gap s | change p50 / p99 ms | peak MiB | attacker",
        "attack"
    );
    let mut is_success = true;
    for attack in Attack::value_variants() {
        let mut one = Command::new(std::env::current_exe()?);
        one.arg("siege")
            .arg(format!("--attack={}", attack.name()))
            .arg(format!("--seconds={}", flags.seconds))
            .args(flags.up_flags.iter().map(|flag| format!("--up-flag={flag}")));
        is_success &= one.status()?.success();
    }
    Ok(if is_success {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn run_attack(attack: Attack, flags: &Flags, directory: &Path) -> Result<(), Failure> {
    let images = directory.join("images.yaml");
    fs::write(&images, "images:\n  python: [/usr/bin/env, python3, -c]\n")?;
    let mut up_flags = flags.up_flags.clone();
    up_flags.push(format!("--image-table={}", images.display()));
    let data = directory.join("data");
    fs::create_dir(&data)?;
    let mut standalone = StandaloneNode::start(&data, &up_flags)?;
    let outcome = measure(attack, flags.seconds, directory, &standalone);
    let outcome = outcome.and_then(|measured| {
        standalone.up.must_run()?;
        let peak_mib = standalone.up.resident_mib_max()?;
        print_row(attack, &measured, peak_mib);
        Ok(())
    });
    if let Err(error) = &outcome {
        println!("| {:<18} | failed: {error}", attack.name());
        eprintln!("{}", standalone.log_end());
    }
    standalone.up.terminate()?;
    outcome
}

/// Statistics, and the summary of the attacker.
struct Measured {
    statistics: Statistics,
    attacker: String,
}

fn measure(
    attack: Attack,
    seconds: u64,
    directory: &Path,
    standalone: &StandaloneNode,
) -> Result<Measured, Failure> {
    let node = standalone
        .cluster
        .nodes()
        .next()
        .ok_or("the testbed has no node")?;
    let outside = standalone.cluster.outside()?;
    let backends = backends(outside)?;
    let (service, token) = standalone.run(async |client| prepare(&client, attack, backends[0]).await)?;
    node.enter(|| wait_for(service, backends[0]))??;
    let token_file = directory.join("token");
    fs::write(&token_file, token)?;
    let authority = directory.join("ca.crt");
    fs::write(
        &authority,
        Config::from_kubeconfig(&standalone.kubeconfig)?.certificate_authority,
    )?;
    let server = SocketAddr::new(node.plan.address.ipv4.into(), 6443);
    let mut command = Command::new(std::env::current_exe()?);
    command
        .arg("siege-attacker")
        .arg(format!("--attack={}", attack.name()))
        .arg(format!("--server={server}"))
        .arg(format!("--authority={}", authority.display()))
        .arg(format!("--token={}", token_file.display()))
        .arg(format!("--seconds={seconds}"));
    let mut attacker = outside.spawn(&mut with_log(command, directory, "attacker")?)?;
    let is_over = AtomicBool::new(false);
    let measured = MeasuredServer {
        node,
        administrator: &|| Ok(Client::new(Config::from_kubeconfig(&standalone.kubeconfig)?)?),
        service,
        backends,
    };
    let (statistics, status) = std::thread::scope(|scope| {
        let statistics = scope.spawn(|| measured.measure(&is_over));
        let status = attacker.wait();
        is_over.store(true, Ordering::Relaxed);
        (statistics.join(), status)
    });
    let log = fs::read_to_string(directory.join("attacker.log"))?;
    if !status?.success() {
        return Err(format!("the attacker failed: {log}").into());
    }
    Ok(Measured {
        statistics: statistics.map_err(|_| "a measuring thread panicked")??,
        attacker: log.lines().last().unwrap_or_default().to_owned(),
    })
}

/// Creates the measured Service and the objects of the attacker. Returns the address of the Service and the
/// attacker's token.
async fn prepare(client: &Client, attack: Attack, backend: IpAddr) -> Result<(SocketAddr, String), Failure> {
    let service = fixtures::post(client, &fixtures::service(SERVICE_NAME)).await?;
    fixtures::post(client, &fixtures::slice(SERVICE_NAME, &[backend])).await?;
    let ip: IpAddr = service["spec"]["clusterIP"]
        .as_str()
        .ok_or("no cluster IP")?
        .parse()?;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": TARGET_NAMESPACE}});
    post(client, "/api/v1/namespaces", &namespace).await?;
    let core = format!("/api/v1/namespaces/{TARGET_NAMESPACE}");
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "attacker"}});
    post(client, &format!("{core}/serviceaccounts"), &account).await?;
    if attack.credentials() == Credentials::Editor {
        let binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "attacker"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"},
            "subjects": [{"kind": "ServiceAccount", "name": "attacker", "namespace": TARGET_NAMESPACE}],
        });
        let path = format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{TARGET_NAMESPACE}/rolebindings");
        post(client, &path, &binding).await?;
    }
    config_maps(client, &format!("{core}/configmaps")).await?;
    if attack == Attack::ProxiedRequests {
        create_unresponsive_pod(client, &format!("{core}/pods")).await?;
    }
    let request = json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600},
    });
    let issued = post(
        client,
        &format!("{core}/serviceaccounts/attacker/token"),
        &request,
    )
    .await?;
    let token = issued["status"]["token"].as_str().ok_or("no token")?.to_owned();
    Ok(((ip, 80).into(), token))
}

async fn config_maps(client: &Client, collection: &str) -> Result<(), Failure> {
    let names = (0..CONFIG_MAPS).map(|number| format!("listed-{number}"));
    for name in names.chain(["patched".to_owned()]) {
        let object = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name},
            "data": {"text": "a".repeat(CONFIG_MAP_BYTES)},
        });
        post(client, collection, &object).await?;
    }
    Ok(())
}

/// Creates the Pod that sends nothing, and waits until it is ready.
async fn create_unresponsive_pod(client: &Client, collection: &str) -> Result<(), Failure> {
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": POD_NAME},
        "spec": {"containers": [{
            "name": "main", "image": "python", "args": [UNRESPONSIVE_PROGRAM], "ports": [{"containerPort": 8080}],
            "readinessProbe": {"tcpSocket": {"port": 8080}, "periodSeconds": 1},
        }]},
    });
    post(client, collection, &pod).await?;
    let started = std::time::Instant::now();
    loop {
        let pod: Value = client.get(&format!("{collection}/{POD_NAME}")).await?;
        let mut conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
        if conditions.any(|condition| condition["type"] == "Ready" && condition["status"] == "True") {
            return Ok(());
        }
        if started.elapsed() > TIMEOUT {
            return Err(format!("the Pod is not ready: {}", pod["status"]).into());
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
}

async fn post(client: &Client, path: &str, object: &Value) -> Result<Value, Failure> {
    Ok(client.request(Method::POST, path, JSON, Some(object)).await?)
}

fn print_row(attack: Attack, measured: &Measured, peak_mib: f64) {
    let Statistics {
        reads,
        reads_failed,
        lease_gap_longest,
        changes,
    } = &measured.statistics;
    println!(
        "| {:<18} | {:>5.1} / {:>6.1} / {:>6.1} | {reads_failed:>6} | {:>19.1} | {:>6.1} / {:>8.1} | {peak_mib:>8.0} | {}",
        attack.name(),
        reads.milliseconds(50),
        reads.milliseconds(99),
        reads.milliseconds(100),
        lease_gap_longest.as_secs_f64(),
        changes.milliseconds(50),
        changes.milliseconds(99),
        measured.attacker,
    );
}
