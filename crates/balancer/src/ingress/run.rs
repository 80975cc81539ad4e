//! Watches and writes of the controller.

use std::future::Future;

use client::events::{EventBatch, EventRecorder};
use client::{Client, ClientError, JSON, MERGE_PATCH, Query, WallClock};
use http::Method;
use reconcile::metrics::QueueRegistry;
use reconcile::watches;

use super::class_service;
use super::controller::{Change, IngressController, Job, Subject};

/// Component of Events.
const COMPONENT: &str = "portolan-ingress";

/// Maintains the Services of classes and the status of Ingresses until `shutdown` resolves.
/// With `creates_node_pool`, Ingresses receive the addresses of nodes if no AddressPool exists when the first Ingress
/// appears.
pub async fn run(client: Client, creates_node_pool: bool, shutdown: impl Future<Output = ()>) {
    let (sender, changes) = watches::channel();
    let services = Query {
        namespace: Some(class_service::NAMESPACE.to_owned()),
        ..Query::default()
    };
    watches::forward(&client, Query::default(), sender.clone(), Change::Class);
    watches::forward(&client, Query::default(), sender.clone(), Change::Ingress);
    watches::forward(&client, services, sender.clone(), Change::Service);
    watches::forward(&client, Query::default(), sender, Change::Pool);
    let recorder = EventRecorder::new(client.clone(), WallClock::system());
    let run_job = |_: Subject, job: Job| execute(client.clone(), recorder.clone(), job);
    let metrics = QueueRegistry::default().register("ingress");
    let controller = IngressController::new(creates_node_pool);
    reconcile::run(controller, changes, metrics, run_job, shutdown).await;
}

async fn execute(client: Client, recorder: EventRecorder, job: Job) -> Result<(), ClientError> {
    match job {
        Job::Create { collection, object } => {
            let created = client
                .request(Method::POST, &collection, JSON, Some(&object))
                .await;
            created.map(drop)
        }
        Job::Patch { path, patch } => {
            let patched = client
                .request(Method::PATCH, &path, MERGE_PATCH, Some(&patch))
                .await;
            match patched {
                Err(error) if error.is_not_found() => Ok(()),
                patched => patched.map(drop),
            }
        }
        Job::Report { regarding, events } => {
            let batch = EventBatch {
                component: COMPONENT,
                regarding,
                events,
            };
            recorder.record_batch(batch).await;
            Ok(())
        }
    }
}
