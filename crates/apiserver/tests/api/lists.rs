//! Lists: pagination, consistency, options, and representations.

use http::Method;
use serde_json::{Value, json};
use store::Store;

use crate::harness::{Api, config_map, config_maps};

async fn api_with_config_maps(count: usize) -> Api {
    let api = Api::start().await;
    for number in 0..count {
        let parity = if number % 2 == 0 { "even" } else { "odd" };
        let name = format!("cm-{number:02}");
        api.post(&config_maps(""), &config_map(&name, json!({"parity": parity})))
            .await
            .expect(201);
    }
    api
}

fn names(list: &Value) -> Vec<String> {
    let items = list["items"].as_array().unwrap();
    items
        .iter()
        .map(|item| item["metadata"]["name"].as_str().unwrap().to_owned())
        .collect()
}

/// Returns the names of all pages of a list.
async fn pages(api: &Api, query: &str) -> Vec<Vec<String>> {
    let mut pages = Vec::new();
    let mut token = String::new();
    loop {
        let path = format!("{}?{query}&continue={token}", config_maps(""));
        let page = api.get(&path).await.expect(200);
        pages.push(names(&page));
        match page["metadata"]["continue"].as_str() {
            Some(next) => token = next.to_owned(),
            None => return pages,
        }
    }
}

#[tokio::test]
async fn pages_contain_the_whole_list() {
    let api = api_with_config_maps(7).await;
    let all = pages(&api, "limit=3").await;
    assert_eq!(all.iter().map(Vec::len).collect::<Vec<_>>(), [3, 3, 2]);
    // Every namespace has `kube-root-ca.crt`.
    let expected = (0..7).map(|number| format!("cm-{number:02}"));
    assert_eq!(
        all.concat(),
        expected
            .chain(["kube-root-ca.crt".to_owned()])
            .collect::<Vec<_>>()
    );
    let first = api.get(&format!("{}?limit=3", config_maps(""))).await.expect(200);
    assert_eq!(first["metadata"]["remainingItemCount"], 5);
    let odd = pages(&api, "limit=2&labelSelector=parity%3Dodd").await;
    assert_eq!(odd.concat(), ["cm-01", "cm-03", "cm-05"]);
    let one = pages(&api, "limit=2&fieldSelector=metadata.name%3Dcm-04").await;
    assert_eq!(one.concat(), ["cm-04"]);
}

#[tokio::test]
async fn pages_of_a_list_have_one_revision() {
    let api = api_with_config_maps(4).await;
    let first = api.get(&format!("{}?limit=2", config_maps(""))).await.expect(200);
    api.delete(&config_maps("cm-03")).await.expect(200);
    let token = first["metadata"]["continue"].as_str().unwrap();
    let second = api
        .get(&format!("{}?limit=2&continue={token}", config_maps("")))
        .await
        .expect(200);
    assert_eq!(names(&second), ["cm-02", "cm-03"]);
    assert_eq!(
        first["metadata"]["resourceVersion"],
        second["metadata"]["resourceVersion"]
    );
}

#[tokio::test]
async fn expired_pages_continue_at_the_newest_revision() {
    let api = api_with_config_maps(4).await;
    let first = api.get(&format!("{}?limit=2", config_maps(""))).await.expect(200);
    let path_of = |token: &Value| format!("{}?limit=2&continue={}", config_maps(""), token.as_str().unwrap());
    let with_version = format!("{}&resourceVersion=1", path_of(&first["metadata"]["continue"]));
    api.get(&with_version).await.expect(400);
    api.delete(&config_maps("cm-02")).await.expect(200);
    api.store.compact(api.store.index().revision()).await.unwrap();
    let late = api
        .get(&path_of(&first["metadata"]["continue"]))
        .await
        .expect(410);
    assert_eq!(late["reason"], "Expired");
    let second = api.get(&path_of(&late["metadata"]["continue"])).await.expect(200);
    assert_eq!(names(&second), ["cm-03", "kube-root-ca.crt"]);
    assert_eq!(second["metadata"].get("continue"), None);
}

#[tokio::test]
async fn invalid_list_options_are_reported() {
    let api = Api::start().await;
    let faults = async |query: &str| -> Vec<String> {
        let refused = api.get(&format!("{}?{query}", config_maps(""))).await.expect(422);
        let causes = refused["details"]["causes"].as_array().unwrap().iter();
        let faults = causes.map(|cause| {
            let part = |name: &str| cause[name].as_str().unwrap();
            format!("{} {}", part("reason"), part("field"))
        });
        faults.collect()
    };
    let forbidden = "FieldValueForbidden resourceVersionMatch";
    let unsupported = "FieldValueNotSupported resourceVersionMatch";
    assert_eq!(faults("resourceVersionMatch=Odd").await, [forbidden, unsupported]);
    assert_eq!(
        faults("resourceVersionMatch=Exact&continue=x&sendInitialEvents=true").await,
        [forbidden, forbidden, "FieldValueForbidden sendInitialEvents"]
    );
    assert_eq!(
        faults("watch=1&resourceVersionMatch=Exact").await,
        [forbidden, unsupported]
    );
    assert_eq!(
        faults("watch=1&sendInitialEvents=true&resourceVersionMatch=Exact").await,
        [forbidden, unsupported]
    );
    assert_eq!(faults("watch=1&sendInitialEvents=true").await, [forbidden]);
}

#[tokio::test]
async fn lists_honour_the_resource_version() {
    let api = api_with_config_maps(2).await;
    let before = api.get(&config_maps("")).await.expect(200);
    let version = before["metadata"]["resourceVersion"].as_str().unwrap();
    api.delete(&config_maps("cm-00")).await.expect(200);
    let exact = format!(
        "{}?resourceVersion={version}&resourceVersionMatch=Exact",
        config_maps("")
    );
    assert_eq!(names(&api.get(&exact).await.expect(200)).len(), 3);
    let not_older = format!("{}?resourceVersion={version}", config_maps(""));
    assert_eq!(names(&api.get(&not_older).await.expect(200)).len(), 2);
    let any = format!("{}?resourceVersion=0", config_maps(""));
    assert_eq!(names(&api.get(&any).await.expect(200)).len(), 2);
    let future = api
        .get(&format!("{}?resourceVersion=999999", config_maps("")))
        .await
        .expect(504);
    assert_eq!(
        future["details"]["causes"][0]["reason"],
        "ResourceVersionTooLarge"
    );
}

#[tokio::test]
async fn list_items_have_no_type() {
    let api = api_with_config_maps(1).await;
    let list = api.get("/api/v1/configmaps").await.expect(200);
    assert_eq!(list["kind"], "ConfigMapList");
    assert_eq!(list["items"][0].get("kind"), None);
    assert_eq!(list["items"][0]["data"]["k"], "v");
}

#[tokio::test]
async fn lists_are_encoded_as_tables_and_metadata() {
    let api = api_with_config_maps(2).await;
    let table = [(
        "accept",
        "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
    )];
    let table = api
        .send(Method::GET, &config_maps(""), &table, "")
        .await
        .expect(200);
    assert_eq!(table["kind"], "Table");
    assert_eq!(table["rows"][1]["cells"][0], "cm-01");
    assert_eq!(table["rows"][1]["object"]["kind"], "PartialObjectMetadata");
    let metadata = [(
        "accept",
        "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
    )];
    let one = api
        .send(Method::GET, &config_maps("cm-00"), &metadata, "")
        .await
        .expect(200);
    assert_eq!(one["metadata"]["name"], "cm-00");
    assert_eq!(one.get("data"), None);
    let beta = [(
        "accept",
        "application/json;as=PartialObjectMetadataList;v=v1beta1;g=meta.k8s.io",
    )];
    let list = api
        .send(Method::GET, &config_maps(""), &beta, "")
        .await
        .expect(200);
    assert_eq!(
        (&list["kind"], &list["apiVersion"]),
        (&json!("PartialObjectMetadataList"), &json!("meta.k8s.io/v1beta1"))
    );
    assert_eq!(list["items"][0]["apiVersion"], "meta.k8s.io/v1beta1");
    // The form of one object is none of a list, and the reverse. A refused write has no effect.
    for (method, path, accept) in [
        (Method::GET, config_maps(""), &metadata),
        (Method::GET, config_maps("cm-00"), &beta),
        (Method::DELETE, config_maps("cm-00"), &beta),
        (Method::DELETE, config_maps(""), &metadata),
    ] {
        api.send(method, &path, accept, "").await.expect(406);
    }
    api.get(&config_maps("cm-00")).await.expect(200);
    let html = [("accept", "text/html")];
    api.send(Method::GET, &config_maps(""), &html, "")
        .await
        .expect(406);
}
