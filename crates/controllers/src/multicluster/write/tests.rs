use api::object::TimedCondition;

use super::*;
use crate::multicluster::tests::server::ApiServer;
use crate::multicluster::tests::{Model, Source, slice};

/// North and west export; their slices are written in this order.
fn sources() -> [Source; 3] {
    [
        Source::empty("east"),
        Source::exporting("north", 1, &[1]),
        Source::exporting("west", 2, &[2]),
    ]
}

async fn run(server: &ApiServer, sources: &[Source]) -> Result<(), ClientError> {
    let desired = Model::new().desired(sources);
    execute(&server.client(), &WallClock::system(), desired).await
}

fn slice_of_north(object: &Value) -> Option<u16> {
    (object["metadata"]["labels"][SOURCE_CLUSTER_LABEL] == "north").then_some(422)
}

/// Returns the clusters of the mirrored slices.
fn mirrored(server: &ApiServer) -> Vec<String> {
    let slices = server.all::<EndpointSlice>().into_iter();
    slices
        .map(|slice| slice.metadata.labels[SOURCE_CLUSTER_LABEL].clone())
        .collect()
}

fn condition(server: &ApiServer, kind: &str) -> TimedCondition {
    let import: ServiceImport = server.object("web").expect("an import");
    let mut conditions = import.status.conditions.into_iter();
    conditions
        .find(|condition| condition.kind == kind)
        .expect("a condition")
}

#[tokio::test]
async fn rejected_slice_does_not_delay_other_clusters() {
    let server = ApiServer::new().rejecting(slice_of_north);
    let error = run(&server, &sources()).await.expect_err("a rejection");
    assert_eq!(error.code(), Some(422));
    assert_eq!(mirrored(&server), ["west"]);
    let shown = condition(&server, "EndpointsMirrored");
    assert_eq!(
        (shown.status.as_str(), shown.reason.as_str()),
        ("False", "EndpointSliceRejected")
    );
    assert!(shown.message.contains("failure 422"), "{}", shown.message);
    assert_eq!(condition(&server, "Ready").status, "True");
    run(&server.rejecting(|_| None), &sources())
        .await
        .expect("success");
    assert_eq!(mirrored(&server), ["north", "west"]);
    assert_eq!(condition(&server, "EndpointsMirrored").status, "True");
}

#[tokio::test]
async fn earlier_mirror_of_a_rejected_slice_is_deleted() {
    let server = ApiServer::new();
    let mut sources = sources();
    run(&server, &sources).await.expect("success");
    assert_eq!(mirrored(&server), ["north", "west"]);
    sources[1].slices = vec![slice(&[1, 3])];
    let result = run(&server.rejecting(slice_of_north), &sources).await;
    assert!(result.is_err());
    assert_eq!(mirrored(&server), ["west"]);
}

#[tokio::test]
async fn rejected_service_does_not_delay_the_import() {
    let rejections: [fn(&Value) -> Option<u16>; 2] = [
        |object| (object["kind"] == "Service").then_some(403),
        |object| (object["kind"] == "Service").then_some(500),
    ];
    for rejection in rejections {
        let server = ApiServer::new().rejecting(rejection);
        assert!(run(&server, &sources()).await.is_err());
        assert_eq!(mirrored(&server), ["north", "west"]);
        let ready = condition(&server, "Ready");
        assert_eq!(ready.status, "False");
        assert!(ready.message.contains("failure"), "{}", ready.message);
    }
}

#[tokio::test]
async fn slice_without_labels_is_replaced() {
    let server = ApiServer::new();
    run(&server, &sources()).await.expect("success");
    let expected = server.all::<EndpointSlice>();
    for mut slice in expected.clone() {
        slice.metadata.labels.remove(MANAGED_BY_LABEL);
        server.put(&slice);
    }
    run(&server, &sources()).await.expect("success");
    assert_eq!(server.all::<EndpointSlice>(), expected);
}

#[tokio::test]
async fn write_without_effect_ends_the_job() {
    let server = ApiServer::new();
    run(&server, &sources()).await.expect("success");
    let mut service: Service = server.object("derived-web").expect("a Service");
    service.spec.external_ips = vec!["192.0.2.1".to_owned()];
    server.put(&service);
    let before = server.writes();
    run(&server.ignoring_patches(), &sources())
        .await
        .expect("success");
    assert_eq!(server.writes(), before + 1);
}
