//! The Rust client `kube` with its reflectors.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::pin::pin;
use std::time::Duration;

use futures_util::{StreamExt, TryStreamExt};
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Namespace, Service, ServiceAccount};
use k8s_openapi::api::networking::v1::ServiceCIDR;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::{WatchStreamExt, reflector, watcher};
use kube::{Client, Config, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::support;

/// Time for asynchronous changes.
const CHANGE_TIMEOUT: Duration = Duration::from_secs(30);

type Outcome = Result<(), Box<dyn std::error::Error>>;

#[test]
fn kube_client_gets_the_responses_that_it_expects() {
    let api = support::Api::start();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let outcome = runtime.block_on(async {
        let kubeconfig = Kubeconfig::read_from(api.kubeconfig())?;
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        let client = Client::try_from(config)?;
        create_and_delete_namespaces(&client).await?;
        let services = Api::<Service>::namespaced(client.clone(), "kube");
        create_get_and_list(&services).await?;
        apply_with_conflict(&services).await?;
        patches_and_status(&services).await?;
        reflector_follows(&services).await?;
        deletes_with_preconditions(&services).await?;
        tokens(&client).await
    });
    outcome.expect("requests of kube");
}

fn object<K: DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).expect("an object of the kind")
}

fn service(name: &str, labels: Value) -> Service {
    object(json!({
        "metadata": {"name": name, "labels": labels},
        "spec": {"selector": {"app": name}, "ports": [{"name": "http", "port": 80}]},
    }))
}

/// Returns code and reason of a rejection.
fn rejection<T: Debug>(outcome: Result<T, kube::Error>) -> (u16, String) {
    match outcome {
        Err(kube::Error::Api(status)) => (status.code, status.reason.clone()),
        other => panic!("expected a rejection, found {other:?}"),
    }
}

async fn create_and_delete_namespaces(client: &Client) -> Outcome {
    let namespaces = Api::<Namespace>::all(client.clone());
    for name in ["kube", "gone"] {
        let namespace = object(json!({"metadata": {"name": name}}));
        namespaces.create(&PostParams::default(), &namespace).await?;
    }
    namespaces.delete("gone", &DeleteParams::default()).await?;
    let is_gone = async {
        while namespaces.get_opt("gone").await?.is_some() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok::<_, kube::Error>(())
    };
    tokio::time::timeout(CHANGE_TIMEOUT, is_gone).await??;
    let cidr = Api::<ServiceCIDR>::all(client.clone()).get("kubernetes").await?;
    assert!(!cidr.spec.expect("a spec").cidrs.expect("ranges").is_empty());
    Ok(())
}

async fn create_get_and_list(services: &Api<Service>) -> Outcome {
    for number in 0..5 {
        let half = if number % 2 == 0 { "even" } else { "odd" };
        let created = services
            .create(
                &PostParams::default(),
                &service(&format!("s-{number}"), json!({"half": half})),
            )
            .await?;
        let spec = created.spec.expect("a spec");
        assert!(spec.cluster_ip.is_some_and(|address| !address.is_empty()));
    }
    let again = services
        .create(&PostParams::default(), &service("s-0", json!({})))
        .await;
    assert_eq!(rejection(again), (409, "AlreadyExists".to_owned()));
    assert_eq!(
        rejection(services.get("missing").await),
        (404, "NotFound".to_owned())
    );

    let even = services.list(&ListParams::default().labels("half=even")).await?;
    assert_eq!(names(&even.items), ["s-0", "s-2", "s-4"]);
    let one = services
        .list(&ListParams::default().fields("metadata.name=s-3"))
        .await?;
    assert_eq!(names(&one.items), ["s-3"]);
    let (mut all, mut page) = (Vec::new(), ListParams::default().limit(2));
    loop {
        let list = services.list(&page).await?;
        assert!(list.items.len() <= 2);
        all.extend(names(&list.items));
        match list.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => page = page.continue_token(&token),
            None => break,
        }
    }
    assert_eq!(all, ["s-0", "s-1", "s-2", "s-3", "s-4"]);
    Ok(())
}

fn names(items: &[Service]) -> Vec<String> {
    items.iter().map(ResourceExt::name_any).collect()
}

async fn apply_with_conflict(services: &Api<Service>) -> Outcome {
    let configuration = |target: u16| {
        Patch::Apply(json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": "applied"},
            "spec": {"ports": [{"port": 80, "targetPort": target}]},
        }))
    };
    let first = PatchParams::apply("first");
    let applied = services.patch("applied", &first, &configuration(8080)).await?;
    let managers: BTreeMap<_, _> = applied
        .managed_fields()
        .iter()
        .map(|entry| (entry.manager.clone(), entry.operation.clone()))
        .collect();
    assert_eq!(
        managers.get(&Some("first".to_owned())),
        Some(&Some("Apply".to_owned()))
    );
    let second = PatchParams::apply("second");
    let conflict = services.patch("applied", &second, &configuration(9090)).await;
    assert_eq!(rejection(conflict), (409, "Conflict".to_owned()));
    let forced = services
        .patch("applied", &second.force(), &configuration(9090))
        .await?;
    assert_eq!(forced.managed_fields().len(), 2);
    Ok(())
}

async fn patches_and_status(services: &Api<Service>) -> Outcome {
    let strategic = Patch::Strategic(json!({"spec": {"ports": [{"port": 443, "name": "https"}]}}));
    let patched = services.patch("s-0", &PatchParams::default(), &strategic).await?;
    let ports: Vec<i32> = patched
        .spec
        .and_then(|spec| spec.ports)
        .unwrap_or_default()
        .iter()
        .map(|port| port.port)
        .collect();
    assert_eq!(ports, [443, 80]);
    let merge = Patch::Merge(json!({"spec": {"type": "LoadBalancer"}}));
    services.patch("s-0", &PatchParams::default(), &merge).await?;
    let status = Patch::Merge(json!({
        "spec": {"sessionAffinity": "ClientIP"},
        "status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}},
    }));
    let balanced = services
        .patch_status("s-0", &PatchParams::default(), &status)
        .await?;
    let ingress = balanced
        .status
        .and_then(|status| status.load_balancer)
        .and_then(|balancer| balancer.ingress);
    assert_eq!(ingress.unwrap_or_default()[0].ip_mode.as_deref(), Some("VIP"));
    assert_eq!(
        balanced.spec.and_then(|spec| spec.session_affinity).as_deref(),
        Some("None"),
        "only the status is written"
    );
    let mut stale = services.get("s-1").await?;
    services
        .patch(
            "s-1",
            &PatchParams::default(),
            &Patch::Merge(json!({"metadata": {"labels": {"new": "yes"}}})),
        )
        .await?;
    stale.labels_mut().insert("old".to_owned(), "yes".to_owned());
    let replaced = services.replace("s-1", &PostParams::default(), &stale).await;
    assert_eq!(rejection(replaced), (409, "Conflict".to_owned()));
    Ok(())
}

/// Checks that a reflector is ready after the initial objects, by list or by streaming watch, and follows changes.
async fn reflector_follows(services: &Api<Service>) -> Outcome {
    for (label, config) in [
        ("seen-by-list", watcher::Config::default().labels("half")),
        (
            "seen-by-watch",
            watcher::Config::default().labels("half").streaming_lists(),
        ),
    ] {
        let (store, writer) = reflector::store::<Service>();
        let mut events = pin!(reflector(writer, watcher(services.clone(), config)).applied_objects());
        tokio::time::timeout(CHANGE_TIMEOUT, async {
            tokio::select! {
                ready = store.wait_until_ready() => ready.map_err(Into::into),
                ended = async { while events.try_next().await?.is_some() {} Ok::<_, watcher::Error>(()) } => {
                    Err(format!("the watch ended: {ended:?}").into())
                }
            }
        })
        .await?
        .map_err(|error: Box<dyn std::error::Error>| error)?;
        assert_eq!(store.len(), 5);
        let patch = Patch::Merge(json!({"metadata": {"labels": {label: "yes"}}}));
        services.patch("s-2", &PatchParams::default(), &patch).await?;
        let seen = async {
            while let Some(event) = events.next().await {
                if event?.labels().contains_key(label) {
                    return Ok(());
                }
            }
            Err("the watch ended".into())
        };
        tokio::time::timeout(CHANGE_TIMEOUT, seen)
            .await?
            .map_err(|error: Box<dyn std::error::Error>| error)?;
    }
    Ok(())
}

async fn deletes_with_preconditions(services: &Api<Service>) -> Outcome {
    let current = services.get("s-4").await?;
    let with_uid = |uid: &str| {
        DeleteParams::default().preconditions(Preconditions {
            uid: Some(uid.to_owned()),
            resource_version: None,
        })
    };
    let other = services.delete("s-4", &with_uid("another")).await.map(drop);
    assert_eq!(rejection(other), (409, "Conflict".to_owned()));
    let uid = current.uid().unwrap_or_default();
    services.delete("s-4", &with_uid(&uid)).await?;
    assert!(services.get_opt("s-4").await?.is_none());
    services
        .delete_collection(&DeleteParams::default(), &ListParams::default().labels("half"))
        .await?;
    assert_eq!(
        names(&services.list(&ListParams::default()).await?.items),
        ["applied"]
    );
    Ok(())
}

async fn tokens(client: &Client) -> Outcome {
    let accounts = Api::<ServiceAccount>::namespaced(client.clone(), "kube");
    let request = TokenRequest {
        spec: Some(TokenRequestSpec {
            expiration_seconds: Some(600),
            ..TokenRequestSpec::default()
        }),
        ..TokenRequest::default()
    };
    let response = accounts
        .create_token_request("default", &PostParams::default(), &request)
        .await?;
    let token = response
        .status
        .and_then(|status| status.token)
        .unwrap_or_default();
    assert_eq!(token.split('.').count(), 3);
    Ok(())
}
