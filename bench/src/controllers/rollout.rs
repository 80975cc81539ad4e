//! Replacement of all Pods of a Service, several at a time.

use std::collections::HashSet;
use std::time::Instant;

use client::{Client, ClientError};
use tokio::task::JoinSet;

use super::cluster::{create, create_ready_pod, delete_pod, pod_name};
use super::slices::Slices;
use super::{Context, TIMEOUT, report_process};
use crate::Failure;

/// Flags of `bench controllers rollout`.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Flags {
    /// Number of Pods
    #[arg(long, default_value_t = 5_000)]
    pods: usize,
    /// Number of concurrent replacements
    #[arg(long, default_value_t = 16)]
    at_once: usize,
}

/// Name of the Pod that replaces Pod `number`.
fn successor(number: usize) -> String {
    format!("n-{number}")
}

pub(super) async fn run(flags: &Flags, context: &Context<'_>, client: &Client) -> Result<(), Failure> {
    let controllers = context.start_controllers()?;
    println!("creating a Service with {} Pods", flags.pods);
    create(client, 1, flags.pods).await?;
    let mut slices = Slices::watch(client);
    slices.wait_for_ready(flags.pods).await?;
    let writes_before = (slices.writes, slices.idle_writes);
    let started = Instant::now();
    let mut published: HashSet<String> = (0..flags.pods).map(pod_name).collect();
    let mut missing = 0_usize;
    let mut tasks: JoinSet<Result<(), ClientError>> = JoinSet::new();
    let (deletion_sender, mut deletions) = tokio::sync::mpsc::channel::<String>(flags.at_once.max(1));
    let mut next = 0;
    loop {
        let is_over = next == flags.pods && tasks.is_empty();
        if is_over
            && (0..flags.pods).all(|number| slices.is_ready(&successor(number)))
            && published.len() == flags.pods
        {
            break;
        }
        if started.elapsed() > TIMEOUT {
            return Err("timeout of the rollout".into());
        }
        while next < flags.pods && tasks.len() < flags.at_once.max(1) {
            let (client, number, pods) = (client.clone(), next, flags.pods);
            let deletion_sender = deletion_sender.clone();
            next += 1;
            tasks.spawn(async move {
                create_ready_pod(&client, &successor(number), pods + number, 0).await?;
                // From here on, its endpoint may be missing. The receiver lives as long as this task.
                if deletion_sender.send(pod_name(number)).await.is_err() {
                    return Ok(());
                }
                delete_pod(&client, &pod_name(number)).await
            });
        }
        tokio::select! {
            biased;
            Some(name) = deletions.recv() => {
                published.remove(&name);
            }
            Some(done) = tasks.join_next(), if !tasks.is_empty() => done??,
            slice = slices.next() => {
                let endpoints = slice.into_iter().flat_map(|slice| &slice.endpoints);
                let targets = endpoints.filter_map(|endpoint| endpoint.target_ref.as_ref());
                let new: Vec<String> = targets.filter(|target| target.name.starts_with("n-")).map(|target| target.name.to_string()).collect();
                published.extend(new.into_iter().filter(|name| slices.is_ready(name)));
                missing += published.iter().filter(|name| !slices.is_ready(name)).count();
            }
        }
    }
    let elapsed = started.elapsed().as_secs_f64();
    let writes = slices.writes - writes_before.0;
    println!("{} Pods replaced in {elapsed:.1} s", flags.pods);
    println!(
        "slice writes: {writes}, {:.2} a replaced Pod; {} of them changed nothing",
        writes as f64 / flags.pods as f64,
        slices.idle_writes - writes_before.1
    );
    println!("ready Pods with a temporarily missing endpoint: {missing}");
    report_process(controllers.as_ref())
}
