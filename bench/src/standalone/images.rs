//! Pods from images on one node: loaded and started, started from the store, commands in them, and memory.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use clap::Args;
use client::{Client, JSON};
use http::Method;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, AttachParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};

use super::{PODS, StandaloneNode, create, has_condition};
use crate::Failure;
use crate::environment::TIMEOUT;
use crate::image_archive;
use crate::percentiles::Percentiles;
use crate::process::{portolan, proportional_mib};

/// Pause between reads of a Pod until it is ready: the resolution of start times.
const POLL_PAUSE: Duration = Duration::from_millis(2);
/// Time before the measurement of memory.
const MEASUREMENT_DELAY: Duration = Duration::from_secs(5);

/// Flags of `bench images`.
#[derive(Clone, Debug, Args)]
pub(crate) struct Flags {
    /// Mebibytes of files in the image; 190 is about nginx
    #[arg(long, default_value_t = 190)]
    mebibytes: usize,
    /// Number of Pods that start one after another
    #[arg(long, default_value_t = 30)]
    rounds: usize,
    /// Number of Pods that start at once
    #[arg(long, default_value_t = 20)]
    at_once: usize,
    /// Number of commands in a container
    #[arg(long, default_value_t = 100)]
    commands: usize,
    /// Number of Pods while memory is measured
    #[arg(long, default_value_t = 10)]
    resting: usize,
}

pub(super) fn run(flags: &Flags, standalone: &mut StandaloneNode) -> Result<(), Failure> {
    let data_directory = standalone
        .kubeconfig
        .parent()
        .ok_or("the kubeconfig has no directory")?
        .to_owned();
    let archive = image_archive::write(&data_directory.join("bench-image"), flags.mebibytes)?;
    let started = Instant::now();
    load(&archive, &data_directory)?;
    let loaded = started.elapsed();
    standalone.run(async |client| start_pods(&client, "first", 1).await)?;
    println!(
        "image of {} MiB loaded from tar: {:.2} s, Pod ready: {:.2} s",
        flags.mebibytes,
        loaded.as_secs_f64(),
        started.elapsed().as_secs_f64()
    );
    let (single, together) = standalone.run(async |client| {
        let mut single = Vec::new();
        for round in 0..flags.rounds {
            single.push(start_pods(&client, &format!("single-{round}"), 1).await?);
        }
        delete_pods(&client).await?;
        let together = start_pods(&client, "together", flags.at_once).await?;
        delete_pods(&client).await?;
        Ok((single, together))
    })?;
    print_percentiles("image in the store, create to ready", single);
    println!(
        "{} Pods at once, all ready: {:.0} ms",
        flags.at_once,
        together.as_secs_f64() * 1e3
    );
    let kubeconfig = standalone.kubeconfig.clone();
    let commands = standalone.run(async |client| {
        start_pods(&client, "commands", 1).await?;
        let times = commands(&kubeconfig, flags.commands).await?;
        delete_pods(&client).await?;
        start_pods(&client, "resting", flags.resting).await?;
        Ok(times)
    })?;
    print_percentiles("exec of true", commands);
    std::thread::sleep(MEASUREMENT_DELAY);
    let (mib, processes) = memory_of_all(&portolan()?)?;
    println!(
        "proportional memory of portolan up and {} sandboxes of {} Pods: {mib:.1} MiB",
        processes.saturating_sub(1),
        flags.resting
    );
    standalone.run(async |client| delete_pods(&client).await)
}

fn print_percentiles(name: &str, times: Vec<Duration>) {
    if let Some(times) = Percentiles::of(times) {
        println!(
            "{name}: p50 {:.1} ms, p99 {:.1} ms, max {:.1} ms",
            times.milliseconds(50),
            times.milliseconds(99),
            times.milliseconds(100)
        );
    }
}

/// Loads an archive into the store of `portolan up`.
pub(super) fn load(archive: &Path, data_directory: &Path) -> Result<(), Failure> {
    let output = Command::new(portolan()?)
        .args(["image", "load"])
        .arg(archive)
        .arg(format!("--data-dir={}", data_directory.display()))
        .output()?;
    if output.status.success() {
        return Ok(());
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    Err(format!("portolan image load: {}", errors.trim()).into())
}

/// Creates Pods, and returns the time until all are ready.
async fn start_pods(client: &Client, name: &str, count: usize) -> Result<Duration, Failure> {
    let started = Instant::now();
    for number in 0..count {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": format!("{name}-{number}"), "labels": {"group": name}},
            "spec": {
                "terminationGracePeriodSeconds": 0,
                "containers": [{"name": "main", "image": image_archive::NAME, "imagePullPolicy": "Never"}],
            },
        });
        create(client, PODS, &pod).await?;
    }
    let path = format!("{PODS}?labelSelector=group%3D{name}");
    loop {
        let pods: Value = client.get(&path).await?;
        let all = pods["items"].as_array().into_iter().flatten();
        let ready = all.filter(|pod| has_condition(pod, "Ready")).count();
        if ready == count {
            return Ok(started.elapsed());
        }
        if started.elapsed() > TIMEOUT {
            return Err(format!("{ready} of {count} Pods {name} are ready: {pods}").into());
        }
        tokio::time::sleep(POLL_PAUSE).await;
    }
}

/// Deletes all Pods, and waits until they no longer exist.
async fn delete_pods(client: &Client) -> Result<(), Failure> {
    client.request(Method::DELETE, PODS, JSON, None).await?;
    let started = Instant::now();
    loop {
        let pods: Value = client.get(PODS).await?;
        if pods["items"].as_array().is_none_or(Vec::is_empty) {
            return Ok(());
        }
        if started.elapsed() > TIMEOUT {
            return Err("the Pods are not deleted".into());
        }
        tokio::time::sleep(POLL_PAUSE).await;
    }
}

/// Executes `true` in a container, one after another. Returns the times from the request to the result.
async fn commands(kubeconfig: &Path, count: usize) -> Result<Vec<Duration>, Failure> {
    let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    let pods: Api<Pod> = Api::namespaced(kube::Client::try_from(config)?, "default");
    let mut times = Vec::new();
    for _ in 0..count {
        let started = Instant::now();
        let mut process = pods
            .exec("commands-0", ["true"], &AttachParams::default())
            .await?;
        let result = process.take_status().ok_or("no result")?.await;
        times.push(started.elapsed());
        if result.is_none_or(|result| result.status.as_deref() != Some("Success")) {
            return Err("the command did not succeed".into());
        }
    }
    Ok(times)
}

/// Proportional memory of all processes of a program in MiB, and their number.
fn memory_of_all(program: &Path) -> Result<(f64, usize), Failure> {
    let program = fs::metadata(program)?;
    let (mut mib, mut count) = (0.0, 0);
    for entry in fs::read_dir("/proc")?.flatten() {
        let executable = fs::metadata(entry.path().join("exe"));
        if executable.is_ok_and(|found| (found.dev(), found.ino()) == (program.dev(), program.ino())) {
            mib += proportional_mib(&entry.path());
            count += 1;
        }
    }
    Ok((mib, count))
}
